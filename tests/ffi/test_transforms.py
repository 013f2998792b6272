"""Foreign functions under transformations, on several devices, and in primitives of a program."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.ffi
import xpr.numpy as jnp
from tests.ffi.conftest import text_of
from xpr.compat.lowerings import register_lowering
from xpr.compat.primitives import ClientPrimitive
from xpr.core.aval import ShapedArray
from xpr.ffi import ffi_call
from xpr.sharding import AxisType, NamedSharding
from xpr.sharding import PartitionSpec as P

S = xpr.ShapeDtypeStruct
F32 = jnp.float32
METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized")

pytestmark = pytest.mark.usefixtures("library")


def row_sums(x: Any, method: str | None = None) -> Any:
    return ffi_call("row_sums", S(x.shape[:-1], F32), vmap_method=method)(x)


# ---- vmap


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_vmap(method: str, jit: bool, axis: int) -> None:
    x = np.random.default_rng(2).standard_normal((3, 4, 5)).astype(np.float32)
    f = xpr.vmap(lambda x: row_sums(x, method), in_axes=axis)
    found = (xpr.jit(f) if jit else f)(jnp.asarray(x))
    np.testing.assert_allclose(found, np.moveaxis(x, axis, 0).sum(-1), rtol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_vmap_of_an_empty_batch(method: str) -> None:
    assert xpr.vmap(lambda x: row_sums(x, method))(jnp.zeros((0, 3))).shape == (0,)


@pytest.mark.parametrize("method", METHODS)
def test_nested_vmap(method: str) -> None:
    x = np.random.default_rng(3).standard_normal((2, 3, 4, 5)).astype(np.float32)
    f = xpr.vmap(xpr.vmap(lambda x: row_sums(x, method), in_axes=1))
    np.testing.assert_allclose(f(x), x.swapaxes(1, 2).sum(-1), rtol=1e-5)


@pytest.mark.parametrize(
    ("method", "operands", "result"),
    [
        ("sequential", ("[3]", "[4]"), "[200]"),
        ("sequential_unrolled", ("[3]", "[4]"), "[200]"),
        ("expand_dims", ("[2,3]", "[1,4]"), "[2,200]"),
        ("broadcast_all", ("[2,3]", "[2,4]"), "[2,200]"),
        ("legacy_vectorized", ("[2,3]", "[4]"), "[2,200]"),
    ],
)
def test_what_handlers_see_of_a_batch(method: str, operands: tuple[str, str], result: str) -> None:
    f = ffi_call("describe", S((200,), jnp.uint8), vmap_method=method)
    texts = xpr.vmap(f, (1, None))(jnp.ones((3, 2)), jnp.ones(4))
    assert text_of(texts[0]) == (
        f"argument 1 type 11 {operands[0]}\nargument 1 type 11 {operands[1]}\n"
        f"result 1 type 6 {result}\n"
    )


def test_layouts_of_a_batch() -> None:
    x = jnp.arange(12.0).reshape(2, 2, 3)
    f = ffi_call("copy", S((2, 3), F32), input_layouts=[(1, 0)], vmap_method="broadcast_all")
    wanted = [np.ravel(a, "F").reshape(2, 3) for a in np.asarray(x)]
    np.testing.assert_array_equal(xpr.vmap(f)(x), wanted)


def test_aliases_of_a_batch() -> None:
    f = ffi_call(
        "accumulate", S((3,), F32), input_output_aliases={0: 0}, vmap_method="broadcast_all"
    )
    x = jnp.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(xpr.vmap(f, (0, None))(x, jnp.ones(3)), x + 1)


def test_vmap_without_a_method() -> None:
    with pytest.raises(NotImplementedError, match="vmap is only supported for the ffi_call primi"):
        xpr.vmap(row_sums)(jnp.ones((2, 3)))
    with pytest.raises(ValueError, match="vmap_method must be on of the allowed methods"):
        row_sums(jnp.ones((2, 3)), "all at once")


# ---- derivatives


def test_derivatives_are_refused() -> None:
    message = "The FFI call to `row_sums` cannot be differentiated. You can use `jax.custom_jvp`"
    x = jnp.ones((2, 3))
    with pytest.raises(ValueError, match=message):
        xpr.jvp(row_sums, (x,), (x,))
    with pytest.raises(ValueError, match=message):
        xpr.grad(lambda x: row_sums(x).sum())(x)


def test_rules_of_ones_own() -> None:
    @xpr.custom_vjp
    def scaled(x: Any) -> Any:
        return ffi_call("scale", S(x.shape, F32), vmap_method="broadcast_all")(
            x, factor=np.float32(3)
        )

    scaled.defvjp(lambda x: (scaled(x), None), lambda _, ct: (scaled(ct),))
    x = jnp.arange(6.0).reshape(2, 3)

    def loss(x: Any) -> Any:
        return (scaled(x) ** 2).sum()

    for f in (xpr.grad(loss), xpr.jit(xpr.grad(loss))):
        np.testing.assert_allclose(f(x), 18 * x)
    np.testing.assert_allclose(xpr.vmap(xpr.grad(loss))(x), 18 * x)


# ---- in loops and branches


def test_scan_and_cond() -> None:
    def body(c: Any, x: Any) -> Any:
        y = ffi_call("scale", S((3,), F32))(c, factor=np.float32(2))
        return y, xpr.lax.cond(x > 0, row_sums, lambda y: jnp.float32(-1), y)

    c, ys = xpr.jit(lambda c, xs: xpr.lax.scan(body, c, xs))(
        jnp.arange(3.0), jnp.array([1.0, -1.0, 1.0])
    )
    np.testing.assert_array_equal(c, [0, 8, 16])
    np.testing.assert_array_equal(ys, [6, -1, 24])


# ---- several devices


def _sharded(spec: Any, x: Any, kind: AxisType = AxisType.Auto) -> Any:
    mesh = xpr.make_mesh((4,), ("i",), axis_types=(kind,))
    return xpr.device_put(x, NamedSharding(mesh, spec))


@pytest.mark.parametrize("spec", [P("i"), P(None, "i"), P()])
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_whole_arrays_on_several_devices(spec: Any, kind: AxisType) -> None:
    x = np.random.default_rng(4).standard_normal((8, 4)).astype(np.float32)
    there = _sharded(spec, x, kind)
    for f in (row_sums, xpr.jit(row_sums)):
        y = f(there)
        np.testing.assert_allclose(y, x.sum(-1), rtol=1e-5)
        if kind is AxisType.Explicit:
            assert str(xpr.typeof(y)) == "float32[8]"
    text = xpr.jit(ffi_call("describe", S((100,), jnp.uint8)))(there)
    assert text_of(text).startswith("argument 1 type 11 [8,4]\n")


def test_parts_of_a_batch(library: ctypes.CDLL) -> None:
    xpr.ffi.register_ffi_target("batch_sums", xpr.ffi.pycapsule(library.row_sums))
    xpr.ffi.register_ffi_target("batch_describe", xpr.ffi.pycapsule(library.describe))
    for name in ("batch_sums", "batch_describe"):
        xpr.ffi.register_ffi_target_as_batch_partitionable(name)
    x = np.random.default_rng(5).standard_normal((8, 4)).astype(np.float32)
    there = _sharded(P("i"), x)
    f = xpr.jit(lambda x: ffi_call("batch_sums", S((8,), F32))(x))
    y = f(there)
    np.testing.assert_allclose(y, x.sum(-1), rtol=1e-5)
    assert y.sharding.spec == P("i")
    g = xpr.jit(lambda x: ffi_call("batch_describe", S((8, 50), jnp.uint8))(x))
    assert text_of(np.asarray(g(there))[0]).startswith("argument 1 type 11 [2,4]\n")
    assert text_of(g(jnp.asarray(x))[0]).startswith("argument 1 type 11 [8,4]\n")


def test_in_the_body_of_a_shard_map() -> None:
    mesh = xpr.make_mesh((4,), ("i",))
    x = jnp.arange(8.0)

    def body(x: Any) -> Any:
        return ffi_call("scale", S(x.shape, F32))(x, factor=np.float32(2))

    f = xpr.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False)
    np.testing.assert_array_equal(xpr.jit(f)(x), 2 * x)


# ---- jaxprs


def test_printed_jaxpr() -> None:
    f = ffi_call("q", [S((3,), F32)], vmap_method="expand_dims", has_side_effect=True)
    printed = str(
        xpr.make_jaxpr(lambda x: f(x, a=np.arange(3), b="x", c=1.5, z={"a": 1}))(jnp.arange(3.0))
    )
    assert printed == (
        "{ lambda ; a:f32[3]. let\n"
        "    b:f32[3] = ffi_call[\n"
        "      attributes=(('a', HashableArray(array([0, 1, 2]))), ('b', 'x'), ('c', 1.5), "
        "('z', FrozenDict({'a': 1})))\n"
        "      custom_call_api_version=4\n"
        "      has_side_effect=True\n"
        "      input_layouts=((0,),)\n"
        "      input_output_aliases=()\n"
        "      legacy_backend_config=None\n"
        "      output_layouts=((0,),)\n"
        "      result_avals=(ShapedArray(float32[3]),)\n"
        "      target_name=q\n"
        "      vmap_method=expand_dims\n"
        "    ] a\n"
        "  in (b,) }"
    )


# ---- primitives of a program's own


def test_lowerings_of_other_primitives() -> None:
    """A primitive that a program defines, whose parameters are the handler's attributes."""
    primitive = ClientPrimitive("test_ffi_scale")
    primitive.def_abstract_eval(lambda x, **_: ShapedArray(x.shape, x.dtype))
    primitive.def_impl(lambda x, factor: xpr.jit(lambda x: primitive.bind(x, factor=factor))(x))
    register_lowering(primitive, xpr.ffi.ffi_lowering("scale"))
    x = jnp.arange(3.0)
    for f in (lambda f: f, xpr.jit):
        y = f(lambda x: primitive.bind(x, factor=np.float32(4)))(x)
        np.testing.assert_array_equal(y, 4 * x)


def test_options_of_lowerings() -> None:
    def of(**options: Any) -> ClientPrimitive:
        primitive = ClientPrimitive("test_ffi_copy")
        primitive.def_abstract_eval(lambda x, **_: ShapedArray(x.shape, x.dtype))
        build = xpr.ffi.build_ffi_lowering_function("copy", **options)
        register_lowering(primitive, lambda ctx, x, **params: build(ctx, x, **params).results[0])
        return primitive

    x = jnp.arange(6.0).reshape(2, 3)
    columns = of(operand_layouts=[(0, 1)], backend_config={"width": 4})
    found = xpr.jit(lambda x: columns.bind(x))(x)
    np.testing.assert_array_equal(found, np.ravel(x, "F").reshape(2, 3))
    with pytest.raises(ValueError, match="backend_config must be a dictionary"):
        xpr.jit(lambda x: of(backend_config="text").bind(x))(x)
    with pytest.raises(ValueError, match="requires a custom call API version of at least 4"):
        xpr.jit(lambda x: of(api_version=1).bind(x, width=4))(x)
    with pytest.raises(ValueError, match="1 operands have 2 layouts"):
        xpr.jit(lambda x: of(operand_layouts=[None, None]).bind(x))(x)
