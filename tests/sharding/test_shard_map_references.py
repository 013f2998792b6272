"""References as arguments of `shard_map`, closed over by its function, and made inside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.sharding import Mesh
from xpr.sharding import PartitionSpec as P

MESH = Mesh(np.array(xpr.devices("cpu")[:2]), ("x",))
V = np.arange(4, dtype=np.float32)
WAYS: dict[str, Callable[[Any], Any]] = {"jit": xpr.jit, "eager": lambda f: f}


def over(f: Any, in_specs: Any, out_specs: Any = None, **options: Any) -> Any:
    return xpr.shard_map(f, mesh=MESH, in_specs=in_specs, out_specs=out_specs, **options)


def _number(r: Any) -> None:
    r[...] += lax.axis_index("x").astype(np.float32)


@pytest.mark.parametrize("way", WAYS)
def test_each_device_writes_to_its_part(way: str) -> None:
    ref = xpr.new_ref(jnp.zeros(4))
    WAYS[way](over(_number, P("x")))(ref)
    np.testing.assert_array_equal(ref[...], [0, 0, 1, 1])
    table = xpr.new_ref(jnp.zeros((2, 4)))
    WAYS[way](over(_number, P(None, "x")))(table)
    np.testing.assert_array_equal(table[...], [[0, 0, 1, 1]] * 2)


@pytest.mark.parametrize("way", WAYS)
def test_arguments_results_and_what_is_closed_over(way: str) -> None:
    own, total = xpr.new_ref(jnp.ones(4)), xpr.new_ref(jnp.zeros(()))

    def f(ref: Any, x: Any) -> Any:
        ref[...] += x
        total[...] += lax.psum(x.sum(), "x")
        ref.addupdate(1.0, 0)
        return x * ref[...]

    result = WAYS[way](over(f, (P("x"), P("x")), P("x")))(own, V)
    np.testing.assert_array_equal(own[...], [2, 2, 4, 4])
    np.testing.assert_array_equal(result, V * [2, 2, 4, 4])
    assert float(total[...]) == 6


@pytest.mark.parametrize("way", WAYS)
def test_in_loops_branches_and_inner_programs(way: str) -> None:
    ref = xpr.new_ref(jnp.zeros((4, 2)))

    def f(r: Any, x: Any) -> None:
        lax.fori_loop(0, 2, lambda i, _: r.addupdate(x, i), None)
        lax.cond(x[0] > 0, lambda: r.addupdate(1.0, (0, 0)), lambda: None)
        xpr.jit(lambda: r.addupdate(np.ones(2, np.float32) * 2, (..., 1)))()

    WAYS[way](over(f, (P("x"), P())))(ref, np.array([1, 2], np.float32))
    np.testing.assert_array_equal(ref[...], [[2, 4], [1, 4]] * 2)


def test_made_inside() -> None:
    def f(x: Any) -> Any:
        ref = xpr.new_ref(jnp.zeros_like(x))
        ref[...] = x * 2
        return xpr.freeze(ref)

    for way in WAYS.values():
        np.testing.assert_array_equal(way(over(f, P("x"), P("x")))(V), 2 * V)


def test_derivatives_and_batches() -> None:
    def f(x: Any) -> Any:
        ref = xpr.new_ref(x)

        def body(r: Any) -> None:
            r[...] = jnp.sin(r[...])

        over(body, P("x"))(ref)
        return xpr.freeze(ref)

    gradient = xpr.grad(lambda x: jnp.sum(f(x)))
    np.testing.assert_allclose(gradient(V), np.cos(V), rtol=1e-5)
    np.testing.assert_allclose(xpr.jit(gradient)(V), np.cos(V), rtol=1e-5)
    m = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_allclose(xpr.jit(xpr.vmap(f))(m), np.sin(m), rtol=1e-5, atol=1e-6)


def test_explicit_types_say_how_references_are_cut() -> None:
    mesh = xpr.make_mesh((2,), ("x",), devices=xpr.devices("cpu")[:2])
    with xpr.set_mesh(mesh):
        ref = xpr.new_ref(jnp.zeros(4, np.float32, out_sharding=P("x")))
        xpr.jit(xpr.shard_map(_number, out_specs=None))(ref)
        np.testing.assert_array_equal(ref[...], [0, 0, 1, 1])
        assert ref.sharding.spec == P("x")


def test_the_recorded_program_takes_a_reference() -> None:
    text = str(xpr.make_jaxpr(over(_number, P("x")))(xpr.new_ref(jnp.zeros(4))))
    assert "Ref{f32[4]}" in text
    assert "Ref{f32[2]{V:x}}" in text


def test_what_is_refused() -> None:
    ref = xpr.new_ref(jnp.zeros(4))
    with pytest.raises(ValueError, match=r"the same along \['x'\]: make the reference vary"):
        over(_number, P())(ref)
    with pytest.raises(ValueError, match=r"has the reference of type .* twice"):
        over(lambda a, b: None, (P("x"), P("x")))(ref, ref)
    with pytest.raises(ValueError, match=r"returned a reference of type .*return its value"):
        over(lambda a: a, P("x"), P("x"))(ref)
    with pytest.raises(ValueError, match=r"passed args\[0\] of shape Ref\{float32\[3\]\}"):
        over(_number, P("x"))(xpr.new_ref(jnp.zeros(3)))
    with pytest.raises(ValueError, match="out_specs must be a tree prefix"):
        over(lambda a: a, P("x"))(V)
    with pytest.raises(ValueError, match=r"a value of type .* is written to a reference of type"):
        over(lambda x: xpr.new_ref(jnp.zeros(2)).addupdate(x), P("x"))(V)
