"""Programs on arrays whose types carry shardings: NumPy's values, lying as the types say."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.sharding import NamedSharding, auto_axes, explicit_axes, reshard
from xpr.sharding import PartitionSpec as P

A = np.arange(32, dtype=np.float32).reshape(8, 4) / 8
B = np.arange(8, dtype=np.float32).reshape(4, 2) / 4
ROWS = np.array([0, 3])


@pytest.fixture(autouse=True)
def mesh() -> Iterator[Any]:
    made = xpr.make_mesh((2, 2), ("X", "Y"))
    with xpr.set_mesh(made):
        yield made


def operands() -> tuple[Any, Any]:
    return xpr.device_put(A, P("X", "Y")), xpr.device_put(B, P("Y", None))


def _check(found: Any, wanted: np.ndarray, spec: P) -> None:
    """Values, the type and where the parts lie agree."""
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    full = P(*spec, *(None,) * (found.ndim - len(spec)))
    assert xpr.typeof(found).sharding.spec == full, (xpr.typeof(found), full)
    placed = NamedSharding(found.sharding.mesh, full)
    assert found.sharding.is_equivalent_to(placed, found.ndim)


CASES: dict[str, tuple[Callable[[Any, Any], Any], np.ndarray, P]] = {
    "add": (lambda x, y: x + 1, A + 1, P("X", "Y")),
    "dot": (lambda x, y: jnp.dot(x, y, out_sharding=P("X")), A @ B, P("X")),
    "dot scattered": (lambda x, y: jnp.dot(x, y, out_sharding=P("X", "Y")), A @ B, P("X", "Y")),
    "einsum": (
        lambda x, y: jnp.einsum("ij,jk->ki", x, y, out_sharding=P(None, "X")),
        (A @ B).T,
        P(None, "X"),
    ),
    "reshard": (lambda x, y: reshard(x, P("Y", "X")), A, P("Y", "X")),
    "gathered": (lambda x, y: reshard(x, P()), A, P()),
    "sum": (lambda x, y: x.sum(0), A.sum(0), P("Y")),
    "merged": (lambda x, y: x.reshape(32), A.reshape(32), P(("X", "Y"))),
    "joined": (lambda x, y: jnp.concatenate([x, x]), np.concatenate([A, A]), P("X", "Y")),
    "rows": (lambda x, y: x.at[ROWS].get(out_sharding=P(None, "Y")), A[ROWS], P(None, "Y")),
    "updated": (
        lambda x, y: x.at[ROWS].set(0.0, out_sharding=P("X", "Y")),
        np.where(np.isin(np.arange(8), ROWS)[:, None], 0, A),
        P("X", "Y"),
    ),
    "zeros": (lambda x, y: jnp.zeros((8, 4), out_sharding=P("X")), np.zeros((8, 4)), P("X")),
    "zeros_like": (lambda x, y: jnp.zeros_like(x), np.zeros((8, 4)), P("X", "Y")),
    "arange": (lambda x, y: jnp.arange(8, out_sharding=P("X")), np.arange(8), P("X")),
    "iota": (
        lambda x, y: lax.broadcasted_iota(jnp.int32, (4, 8), 1, out_sharding=P("Y", "X")),
        np.broadcast_to(np.arange(8), (4, 8)),
        P("Y", "X"),
    ),
    "spread": (
        lambda x, y: jnp.broadcast_to(jnp.arange(4), (8, 4), out_sharding=P("X", "Y")),
        np.broadcast_to(np.arange(4), (8, 4)),
        P("X", "Y"),
    ),
    "auto": (lambda x, y: auto_axes(lambda u, v: u @ v, out_sharding=P("X"))(x, y), A @ B, P("X")),
    "explicit in auto": (
        lambda x, y: auto_axes(
            lambda u: explicit_axes(lambda v: v * 2, in_sharding=P("Y"))(u), out_sharding=P("X")
        )(x),
        A * 2,
        P("X"),
    ),
    "vmap": (lambda x, y: xpr.vmap(lambda r: r.sum())(x), A.sum(1), P("X")),
    "vmap of columns": (
        lambda x, y: xpr.vmap(jnp.sin, in_axes=1, out_axes=1)(x),
        np.sin(A),
        P("X", "Y"),
    ),
    "scan": (
        lambda x, y: lax.scan(lambda c, r: (c + r, c * r), x[0] * 0, x)[1],
        (np.cumsum(A, 0) - A) * A,
        P(None, "Y"),
    ),
    "initializer": (
        lambda x, y: xpr.nn.initializers.constant(2.0)(None, (8, 4), jnp.float32, P("Y")),
        np.full((8, 4), 2.0),
        P("Y"),
    ),
    "grad of a constant": (
        lambda x, y: xpr.grad(lambda k: (x * k).sum())(jnp.ones((8, 4))),
        A,
        P(),
    ),
    "grad": (
        lambda x, y: xpr.grad(lambda u: jnp.sin(jnp.dot(u, y, out_sharding=P("X"))).sum())(x),
        np.cos(A @ B) @ B.T,
        P("X", "Y"),
    ),
    "grad of the other": (
        lambda x, y: xpr.grad(lambda v: jnp.sin(jnp.dot(x, v, out_sharding=P("X"))).sum())(y),
        A.T @ np.cos(A @ B),
        P("Y"),
    ),
    "grad through moves": (
        lambda x, y: xpr.grad(lambda u: (reshard(u, P("Y")) ** 2).sum())(x),
        2 * A,
        P("X", "Y"),
    ),
    "remat": (
        lambda x, y: xpr.grad(lambda u: xpr.checkpoint(jnp.sin)(u).sum())(x),
        np.cos(A),
        P("X", "Y"),
    ),
}


def _arguments(name: str) -> tuple[Any, Any]:
    x, y = operands()
    return (reshard(x, P(None, "Y")), y) if name == "scan" else (x, y)


@pytest.mark.parametrize("name", CASES)
def test_operations_one_by_one(name: str) -> None:
    fun, wanted, spec = CASES[name]
    _check(fun(*_arguments(name)), wanted, spec)


def test_programs() -> None:
    names = [n for n in CASES if n != "scan"]
    found = xpr.jit(lambda x, y: [CASES[n][0](x, y) for n in names])(*operands())
    for name, result in zip(names, found, strict=True):
        _check(result, *CASES[name][1:])


def test_random_numbers_do_not_depend_on_the_sharding() -> None:
    key = xpr.random.key(0)
    wanted = np.asarray(xpr.random.normal(key, (8, 4)))
    _check(xpr.random.normal(key, (8, 4), out_sharding=P("X", "Y")), wanted, P("X", "Y"))
    drawn = xpr.jit(lambda k: xpr.random.normal(k, (8, 4), out_sharding=P("Y")))(key)
    _check(drawn, wanted, P("Y"))


def test_arrays_of_keys_have_types_with_shardings(mesh: Any) -> None:
    spec = P("X")
    whole = xpr.random.split(xpr.random.key(0), 8)
    numbers = np.asarray(xpr.random.key_data(whole))
    for keys in (
        reshard(whole, spec),
        xpr.device_put(whole, spec),
        xpr.device_put(whole, NamedSharding(mesh, spec)),
        xpr.jit(lambda k: reshard(k, spec))(whole),
        copy.copy(reshard(whole, spec)),
    ):
        assert str(xpr.typeof(keys)) == "key<fry>[8@X]"
        assert keys.sharding.spec == spec
        np.testing.assert_array_equal(xpr.random.key_data(keys), numbers)
    assert xpr.typeof(xpr.vmap(xpr.random.uniform)(keys)).sharding.spec == spec
    assert xpr.typeof(xpr.random.key_data(keys)).sharding.spec == P("X", None)


def test_a_program_without_arguments_runs_on_the_mesh_that_it_names(mesh: Any) -> None:
    place = NamedSharding(mesh, P("X"))
    with xpr.set_mesh(None):
        found = xpr.jit(lambda: jnp.ones((8, 4), out_sharding=place) * 3)()
    _check(found, np.full((8, 4), 3.0), P("X"))


def test_shardings_of_jit_move_results_at_the_outside_and_type_what_says_nothing() -> None:
    x, _ = operands()
    double = xpr.jit(lambda v: v * 2, in_shardings=P("X", "Y"), out_shardings=P("Y"))
    _check(double(x), 2 * A, P("Y"))
    _check(xpr.jit(lambda v: double(v) + 1)(x), 2 * A + 1, P("X", "Y"))
    _check(xpr.jit(lambda v: v * 2, in_shardings=P("Y"))(A), 2 * A, P("Y"))
    with pytest.raises(ValueError, match="does not match the sharding on the respective arg"):
        xpr.jit(lambda v: v * 2, in_shardings=P("Y"))(x)


def test_types_inside_auto_axes_say_nothing_of_them() -> None:
    seen = []

    def look(u: Any) -> Any:
        seen.append(str(xpr.typeof(u)))
        return u

    x, _ = operands()
    xpr.make_jaxpr(auto_axes(look, out_sharding=P("X")))(x)
    xpr.make_jaxpr(auto_axes(look, axes="X", out_sharding=P("X", "Y")))(x)
    assert seen == ["float32[8,4]", "float32[8,4@Y]"]


def test_errors_name_the_types_and_what_to_do() -> None:
    x, y = operands()
    with pytest.raises(xpr.errors.ShardingTypeError, match=r"out_sharding.*float32\[8@X,4@Y\]"):
        xpr.jit(jnp.dot)(x, y)
    with pytest.raises(xpr.errors.ShardingTypeError, match=r"Reshard one of .*sharding.reshard"):
        jnp.add(x, xpr.device_put(A, P("Y")))
    with pytest.raises(ValueError, match="under a mesh context is not allowed"):
        with xpr.set_mesh(None):
            jnp.zeros((8,), out_sharding=P("X"))
    with pytest.raises(TypeError, match="Missing required keyword argument: 'out_sharding'"):
        auto_axes(jnp.sin)(x)
    with pytest.raises(TypeError, match="Missing required keyword argument: 'in_sharding'"):
        explicit_axes(jnp.sin)(x)
    with pytest.raises(ValueError, match="non-None"):
        reshard(x, None)
    with pytest.raises(TypeError, match="argument of reshard only supports"):
        reshard(x, 3)
    with pytest.raises(xpr.errors.ShardingTypeError, match="equal to the contracting specs"):
        jnp.dot(x, y, out_sharding=P(unreduced={"X"}))
    with pytest.raises(KeyError, match="'Z' is no axis"):
        auto_axes(jnp.sin, axes="Z", out_sharding=P())(x)
    other = xpr.make_mesh((4,), ("Z",))
    with pytest.raises(ValueError, match="Mesh for all inputs should be equal"):
        xpr.make_jaxpr(jnp.add)(
            xpr.ShapeDtypeStruct((8,), "float32", sharding=NamedSharding(other, P("Z"))),
            xpr.ShapeDtypeStruct((8,), "float32", sharding=NamedSharding(x.sharding.mesh, P("X"))),
        )


def test_axes_that_are_auto_are_not_for_types() -> None:
    auto = xpr.make_mesh((2,), ("X",), axis_types=(xpr.sharding.AxisType.Auto,))
    with pytest.raises(ValueError, match="cannot contain axis names that are of type Auto"):
        with xpr.set_mesh(auto):
            jnp.zeros((8,), out_sharding=P("X"))
