"""Linear functions with a transpose of their own, and the smaller parts of custom rules."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.custom_derivatives import (
    CustomVJPPrimal,
    SymbolicZero,
    custom_jvp_call_p,
    custom_vjp_call_p,
    custom_vjp_primal_tree_values,
    linear_call,
    remat_opt_p,
    zero_from_primal,
)

X = np.array([1.0, 2.0, 4.0], np.float32)


def divide(r: Any, x: Any) -> Any:
    return x / r


def marked(x: Any) -> Any:
    """The identity, whose transpose gives 7: what was called shows."""
    return linear_call(lambda _, x: x, lambda _, ct: 7.0 * jnp.ones_like(ct), (), x)


def transpose(f: Any, example: Any) -> Any:
    return lambda ct: xpr.linear_transpose(f, example)(ct)[0]


def test_linear_call_computes_and_transposes() -> None:
    def f(x: Any, r: Any = 4.0) -> Any:
        return linear_call(divide, divide, r, x)

    assert f(2.0) == 0.5
    assert xpr.jvp(f, (2.0,), (8.0,)) == (0.5, 2.0)
    assert xpr.grad(lambda x: f(x * x))(2.0) == 1
    np.testing.assert_array_equal(xpr.jit(xpr.vmap(f))(X, X), np.ones(3))
    slopes = xpr.vmap(xpr.grad(lambda x, r: f(x * x, r)), in_axes=(None, 0))(3.0, X)
    np.testing.assert_array_equal(slopes, 6 / X)


def test_transposes_alternate() -> None:
    found = []
    f: Any = marked
    for _ in range(4):
        found.append(float(f(1.0)))
        f = transpose(f, 1.0)
    assert found == [1, 7, 1, 7]
    assert xpr.jit(transpose(xpr.jit(transpose(marked, 1.0)), 1.0))(1.0) == 1
    assert xpr.jit(xpr.grad(lambda x: marked(x * x)))(2.0) == 28


def test_linear_call_takes_trees_and_closures() -> None:
    def f(r: Any, d: Any) -> Any:
        return {"sum": d["a"] * r[0] + d["b"] * r[1]}

    def t(r: Any, ct: Any) -> Any:
        return {"a": 10 * ct["sum"] * r[0], "b": ct["sum"] * r[1]}

    call = functools.partial(linear_call, f, t, (2.0, 3.0))
    assert call({"a": 1.0, "b": 1.0}) == {"sum": 5}
    assert transpose(call, {"a": 1.0, "b": 1.0})({"sum": 1.0}) == {"a": 20, "b": 3}

    def closing_over(y: Any) -> Any:
        g = functools.partial(linear_call, lambda _, x: x * y, lambda _, ct: ct * y, ())
        return transpose(transpose(g, 1.0), 1.0)(2.0) + transpose(g, 1.0)(1.0)

    assert xpr.jit(closing_over)(5.0) == 15
    # Where only some linear arguments are variable, the others' cotangents are dropped.
    pair = xpr.linear_transpose(
        lambda a: linear_call(lambda _, ab: ab[0] + ab[1], lambda _, ct: (ct, ct), (), (a, 2.0)),
        1.0,
    )
    assert pair(3.0) == (3,)


def test_errors_of_linear_call() -> None:
    with pytest.raises(NotImplementedError, match="no derivative with respect to its residual"):
        xpr.grad(lambda r: linear_call(divide, divide, r, 2.0))(3.0)
    with pytest.raises(NotImplementedError, match="is not linear in its residual"):
        xpr.linear_transpose(lambda r: linear_call(divide, divide, r, 2.0), 3.0)(1.0)
    with pytest.raises(TypeError, match="structure must match that of linear inputs"):
        transpose(lambda x: linear_call(divide, lambda r, ct: (ct, r), 2.0, x), 1.0)(1.0)
    with pytest.raises(ValueError, match=r"expected f32\[\], got f32\[3\]"):
        transpose(lambda x: linear_call(divide, lambda r, ct: jnp.ones(3), 2.0, x), 1.0)(1.0)
    with pytest.raises(TypeError, match="linear_call"):
        linear_call(divide, divide, "r", 2.0)


def test_zeros_of_primals() -> None:
    tree = {"a": jnp.ones((2, 3)), "b": 1.5, "c": np.arange(4)}
    dense = zero_from_primal(tree)
    assert isinstance(dense["a"], xpr.Array)
    np.testing.assert_array_equal(dense["a"], np.zeros((2, 3)))
    assert dense["b"] == 0
    assert isinstance(dense["b"], xpr.Array)
    assert (dense["c"].shape, dense["c"].dtype) == ((4,), xpr.float0)
    symbolic = zero_from_primal(tree, symbolic_zeros=True)
    assert all(isinstance(z, SymbolicZero) for z in symbolic.values())
    assert (symbolic["a"].shape, symbolic["a"].dtype) == ((2, 3), np.float32)
    assert SymbolicZero.from_primal_value(np.arange(4)).dtype == xpr.float0


def test_rules_may_use_zeros_of_primals() -> None:
    @xpr.custom_vjp
    def first(x: Any, y: Any) -> Any:
        return x * 3 + 0 * y

    def fwd(x: Any, y: Any) -> Any:
        values = custom_vjp_primal_tree_values((x, y))
        return first(*values), values

    def bwd(values: Any, ct: Any) -> Any:
        return 3 * ct, zero_from_primal(values[1], symbolic_zeros=True)

    first.defvjp(fwd, bwd, symbolic_zeros=True)
    assert xpr.grad(first, argnums=(0, 1))(1.0, 2.0) == (3, 0)
    with pytest.raises(TypeError, match=r"unexpected leaf type .*int.*CustomVJPPrimal"):
        custom_vjp_primal_tree_values([CustomVJPPrimal(1, True), 2])


def optimized() -> Any:
    scale = jnp.float32(10)

    @xpr.custom_vjp
    def f(x: Any) -> Any:
        return jnp.sin(x)

    f.defvjp(
        lambda x: (jnp.sin(x), scale * jnp.cos(x)), lambda r, ct: (r * ct,), optimize_remat=True
    )
    return f


def primitives(closed: Any) -> list[str]:
    names = []
    for eqn in closed.eqns:
        names.append(eqn.primitive.name)
        for inner in ("jaxpr", "call_jaxpr"):
            if inner in eqn.params:
                names += primitives(eqn.params[inner])
    return names


def test_forward_rules_are_left_out_where_no_residual_is_read() -> None:
    f = optimized()
    for g in (f, xpr.checkpoint(f), xpr.jit(f)):
        assert xpr.grad(g)(0.0) == 10
        np.testing.assert_allclose(xpr.jit(xpr.vmap(xpr.grad(g)))(X), 10 * np.cos(X), rtol=1e-5)
    np.testing.assert_allclose(xpr.hessian(f)(1.0), -10 * np.sin(np.float32(1)), rtol=1e-5)
    pulled = xpr.make_jaxpr(lambda x: xpr.vjp(f, x)[0])(1.0)
    assert {"remat_opt", "cos"} <= set(primitives(pulled))
    from xpr.core.jaxpr import dce_jaxpr  # noqa: PLC0415  an engine's view of the same program

    smaller, _ = dce_jaxpr(pulled.jaxpr)
    assert primitives(smaller) == ["jit", "sin"]
    twice = xpr.make_jaxpr(xpr.value_and_grad(xpr.checkpoint(f)))(1.0)
    assert primitives(twice).count("cos") == 1
    with pytest.raises(NotImplementedError, match="does not support symbolic zeros"):
        f.defvjp(lambda x: (x, x), lambda r, ct: (ct,), symbolic_zeros=True, optimize_remat=True)


def test_primitives_have_their_names() -> None:
    found = [p.name for p in (custom_jvp_call_p, custom_vjp_call_p, remat_opt_p)]
    assert found == ["custom_jvp_call", "custom_vjp_call", "remat_opt"]
