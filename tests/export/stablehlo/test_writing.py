"""Portable artifacts and JAX's container, as xpr writes them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.export.stablehlo.programs import jax_names, jax_program
from xpr import lax
from xpr.export import DisabledSafetyCheck, export, from_stablehlo
from xpr.export.stablehlo.artifact import portable_artifact
from xpr.export.stablehlo.bytecode import _Bytecode, read_bytecode
from xpr.export.stablehlo.bytecode_writer import VERSION, write_bytecode
from xpr.export.stablehlo.container import read_container
from xpr.export.stablehlo.emitter import integer, signed, varint
from xpr.export.stablehlo.errors import StableHLOError
from xpr.export.stablehlo.form import Block, Elements, Float, Integer, Module, Value
from xpr.export.stablehlo.varints import Cursor

X = np.arange(12, dtype=np.float32).reshape(3, 4) / 7


def plain(value: Any) -> Any:
    """An attribute with all that tells it apart."""
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.name, value.shape, value.tobytes())
    if isinstance(value, Integer | Float | Elements):
        return (type(value).__name__, value.dtype.name, tuple(np.atleast_1d(value).tolist()))
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if k != "sdy.sharding_rule"}
    if isinstance(value, tuple):
        return tuple(plain(v) for v in value)
    return value


def described(block: Block, names: dict[Value, int]) -> list[Any]:
    """A block's operations, with values by number."""
    names = dict(names)
    for value in (*block.arguments, *(r for op in block.operations for r in op.results)):
        names[value] = len(names)
    return [
        [v.type for v in block.arguments],
        *(
            [
                op.name,
                [names[v] for v in op.operands],
                [v.type for v in op.results],
                plain(op.attributes),
                [described(region, names) for region in op.regions],
            ]
            for op in block.operations
        ),
    ]


def contents(module: Module) -> Any:
    functions = Block([], list(module.functions.values()))
    return [plain(module.attributes), module.version, described(functions, {})]


@pytest.mark.parametrize("name", [n for n in jax_names() if not n.startswith("shard")])
def test_artifacts_of_jax_are_written_as_jax_wrote_them(name: str) -> None:
    """The same operations of the same versions, with the same attributes, as JAX's own writer."""
    data = read_container(jax_program(name)[0]).module
    module = read_bytecode(data)
    written = write_bytecode(module)
    assert contents(read_bytecode(written)) == contents(module)
    assert {n for _, n in _Bytecode(written).names} == {n for _, n in _Bytecode(data).names}
    assert write_bytecode(read_bytecode(written)) == written
    assert len(written) < len(data)  # without locations


@pytest.mark.parametrize("value", [0, 1, 127, 128, 1 << 20, (1 << 56) - 1, 1 << 56, (1 << 64) - 1])
def test_numbers_are_read_back(value: int) -> None:
    assert Cursor(varint(value)).varint() == value
    small = value >> 1
    assert Cursor(signed(small)).signed() == small
    assert Cursor(signed(-small)).signed() == -small
    with pytest.raises(OverflowError, match="does not fit"):
        varint(-1 - value)


def test_integers_are_their_bits() -> None:
    assert integer(-1, 8) == b"\xff"
    assert integer(-1, 32) == signed(0xFFFFFFFF)
    assert integer(-1, 64) == signed(-1)


def test_attributes_keep_their_types() -> None:
    text = """
    module attributes {own.number = -3 : i32} {
      func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %0 = stablehlo.custom_call @f(%x) {api_version = 4 : i32, backend_config = {
          a = -1 : i32, b = 200 : ui8, c = true, d = 1.5 : f32, e = array<i64: 1, -2>, f = "s",
          g = 0.1 : f64, h = -7 : i64, i = [1 : i16, "t"], j = dense<[1, 2]> : tensor<2xi8>}}
          : (tensor<2xf32>) -> tensor<2xf32>
        return %0 : tensor<2xf32>
      }
    }"""
    module = read_bytecode(portable_artifact(text))
    assert module.version == f"StableHLO_v{'.'.join(map(str, VERSION))}"
    number = module.attributes["own.number"]
    assert (number, number.dtype.name) == (-3, "int32")
    config = module.entry().regions[0].operations[0].attributes["backend_config"]
    kinds = {k: getattr(v, "dtype", np.dtype("O")).name for k, v in config.items()}
    assert [kinds[k] for k in "abdegh"] == [
        "int32",
        "uint8",
        "float32",
        "int64",
        "float64",
        "int64",
    ]
    assert (config["a"], config["b"], config["c"], config["d"]) == (-1, 200, True, 1.5)
    assert (tuple(config["e"]), config["f"], config["g"], config["h"]) == ((1, -2), "s", 0.1, -7)
    assert config["i"] == (1, "t")
    np.testing.assert_array_equal(config["j"], np.array([1, 2], np.int8))


DTYPES = ("bool int8 uint16 int64 float16 float64 complex64 complex128").split()
SMALL = ("bfloat16", "int4", "uint4", "float8_e4m3fn", "float8_e5m2")


@pytest.mark.parametrize("name", [*DTYPES, *SMALL])
def test_constants_of_all_dtypes(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    many = np.arange(-2, 9).astype(dtype)
    one = np.full((2, 3), 1).astype(dtype)
    with xpr.enable_x64(True):
        closed = xpr.jit(lambda x: (x, jnp.asarray(many), jnp.asarray(one), one[:, :0]))
        data = export(closed, platforms=("cpu",))(X).mlir_module_serialized
        found = from_stablehlo(data).call(X)
    for x, expected in zip(found, (X, many, one, one[:, :0]), strict=True):
        assert np.asarray(x).dtype == expected.dtype
        assert np.asarray(x).tobytes() == expected.tobytes()


def test_chlo_becomes_composites_that_share_decompositions() -> None:
    def function(x: Any) -> Any:
        y = lax.cond(x[0, 0] > 0, lax.lgamma, lax.erf, x)
        return lax.erf(y), lax.erf(x), lax.top_k(x, 2), lax.erf(x[0])

    exported = export(xpr.jit(function), platforms=("cpu",))(X)
    module = read_bytecode(exported.mlir_module_serialized)
    inside = [name for name in module.functions if name.startswith("chlo.")]
    assert sorted(n.split(".impl")[0] for n in inside) == [
        *("chlo.erf", "chlo.erf", "chlo.lgamma", "chlo.top_k"),
    ]
    for found, expected in zip(
        from_stablehlo(exported.mlir_module_serialized).call(X),
        xpr.tree_util.tree_leaves(exported.call(X)),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, 1e-6)


def test_what_has_no_form_is_named() -> None:
    text = """
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = "stablehlo.custom_call"(%x) <{call_target_name = "f"}> {own.kind = #own.thing<1>}
        : (tensor<2xf32>) -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }"""
    with pytest.raises(StableHLOError, match="custom_call"):
        portable_artifact(text)
    with pytest.raises(StableHLOError, match="is not StableHLO: line"):
        portable_artifact("func.func @main(")


# ---- JAX's container


def _step(params: dict[str, Any], x: Any, labels: Any) -> Any:
    def loss(p: dict[str, Any]) -> Any:
        scores = xpr.nn.log_softmax(jnp.tanh(x @ p["w"]) + p["b"])
        return -scores[jnp.arange(labels.shape[0]), labels].mean()

    value, grads = xpr.value_and_grad(loss)(params)
    return value, {k: params[k] - 0.1 * grads[k] for k in params}, [labels + 1, None]


PARAMS = {"w": X[:, :3].T.copy()[:3].T @ np.ones((3, 5), np.float32), "b": np.ones(5, np.float32)}
LABELS = np.array([0, 4, 2, 1], np.int32)


def test_a_step_of_training_is_read_back_with_its_tree() -> None:
    exported = export(xpr.jit(_step), platforms=("cpu",))(PARAMS, X.T, LABELS)
    loaded = from_stablehlo(bytes(exported.serialize(format="jax")))
    assert (loaded.in_tree, loaded.out_tree) == (exported.in_tree, exported.out_tree)
    found, expected = loaded.call(PARAMS, X.T, LABELS), exported.call(PARAMS, X.T, LABELS)
    leaves = xpr.tree_util.tree_leaves
    assert found[2][1] is None
    for x, y in zip(leaves(found), leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, 1e-6)


def test_derivatives_come_where_they_are_asked_for() -> None:
    """Integers have cotangents of dtype float0: no arguments, and booleans as results."""

    def function(x: Any, n: Any) -> Any:
        return (x**2).sum() * n, n + 1

    exported = export(xpr.jit(function), platforms=("cpu",))(X, np.int32(3))
    container = read_container(bytes(exported.serialize(vjp_order=2, format="jax")))
    assert container.vjp is not None
    assert container.vjp.vjp is not None
    assert container.vjp.vjp.vjp is None
    assert [a.dtype for a in container.vjp.out_avals] == [np.float32, xpr.dtypes.float0]
    assert container.vjp.kept == (0, 1, 2)
    results = read_bytecode(container.vjp.module).entry().attributes["function_type"].results
    assert [r.dtype.name for r in results] == ["float32", "bool"]
    loaded = from_stablehlo(bytes(exported.serialize(vjp_order=1, format="jax")))
    grad = xpr.grad(lambda x: loaded.call(x, np.int32(3))[0])(X)
    np.testing.assert_allclose(grad, 6 * X, 1e-6)
    assert read_container(bytes(exported.serialize(format="jax"))).vjp is None


def test_what_a_container_says() -> None:
    checks = [DisabledSafetyCheck.platform(), DisabledSafetyCheck.custom_call("mine")]
    exported = export(
        xpr.jit(lambda k, x: (xpr.random.normal(k, (2,)), x.astype(jnp.bfloat16))),
        platforms=("cuda", "vulkan", "cpu"),
        disabled_checks=checks,
    )(xpr.random.key(0), X)
    container = read_container(bytes(exported.serialize(format="jax")))
    assert container.platforms == ("cuda", "cpu")
    assert container.in_avals[0].key == "threefry2x32"
    assert [a.sizes for a in container.in_avals] == [(), ("3", "4")]
    assert container.out_avals[1].dtype == ml_dtypes.bfloat16
    assert container.disabled == ["", "mine"]
    first, *_ = read_bytecode(container.module).entry().regions[0].arguments
    assert (first.type.shape, first.type.dtype) == ((), np.int32)  # the platform's number
    key = xpr.random.key(7)
    found = from_stablehlo(bytes(exported.serialize(format="jax"))).call(key, X)
    np.testing.assert_allclose(found[0], xpr.random.normal(key, (2,)), 1e-6)


def test_what_jax_cannot_have_is_refused() -> None:
    def refused(function: Any, *args: Any, platforms: Any = ("cpu",)) -> Any:
        return export(xpr.jit(function), platforms=platforms)(*args).serialize(format="jax")

    with pytest.raises(ValueError, match="format must be 'xpr' or 'jax', got 'onnx'"):
        export(xpr.jit(jnp.sin))(X).serialize(format="onnx")
    with pytest.raises(ValueError, match="exported for vulkan, and JAX has the platforms cpu"):
        refused(jnp.sin, X, platforms=("vulkan",))
    with pytest.raises(ValueError, match="strings as keys alone, got the key 3"):
        refused(lambda d: d[3], {3: X})
    with pytest.raises(NotImplementedError, match="the custom call xpr_python_callback"):
        refused(lambda x: xpr.pure_callback(np.sin, xpr.typeof(x), x), X)
    with pytest.raises(ValueError, match="no arrays of dtype int2"):
        refused(lambda x: x, np.ones(2, ml_dtypes.int2))
