"""Derivatives of branches that examples of a batch do not take never reach the result.

Each function has a branch with an infinite derivative, or NaN, at the examples that take another
one. The oracle differentiates the same function of one number, with branches chosen in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax

_X = np.array([0.0, 0.7, 3.0, 0.0], np.float32)
Function = Callable[[Any], Any]


def _below(x: Any) -> Any:
    return x * 3.0 + x * x


def _cond(x: Any) -> Any:
    return lax.cond(x > 0.5, jnp.sqrt, _below, x)


def _closed(x: Any) -> Any:
    return lax.cond(x > 0.5, lambda: jnp.sqrt(x) * jnp.log(x), lambda: _below(x))


def _division(x: Any) -> Any:
    return lax.cond(x != 0, lambda: jnp.sin(x) / x, lambda: jnp.ones_like(x))


def _switch(x: Any) -> Any:
    index = jnp.int32(x > 0.5) + jnp.int32(x > 2.0)
    return lax.switch(index, [_below, jnp.log, lambda x: jnp.arcsin(1 / x)], x)


def _clamped(x: Any) -> Any:
    return lax.switch(jnp.int32(x * 10) - 2, [_below, lambda x: x, jnp.sqrt], x)


def _piecewise(x: Any) -> Any:
    return jnp.piecewise(x, [x <= 0.5, x > 2], [_below, lambda v: jnp.sqrt(v - 2), jnp.log])


def _nested(x: Any) -> Any:
    def above(x: Any) -> Any:
        return lax.cond(x > 2, lambda x: jnp.sqrt(x - 2), jnp.log, x)

    return lax.cond(x > 0.5, above, _below, x)


def _recomputed(x: Any) -> Any:
    return xpr.checkpoint(_closed)(x)


def _jitted(x: Any) -> Any:
    return xpr.jit(_closed)(x)


def _in_scan(x: Any) -> Any:
    def step(c: Any, t: Any) -> Any:
        c = lax.cond(x + t > 1.2, lambda c: c * jnp.sqrt(x), lambda c: c + x, c)
        return c, c

    return lax.scan(step, jnp.ones_like(x), jnp.arange(3.0) * 0.5)[0]


def _in_loop(x: Any) -> Any:
    return lax.fori_loop(0, 3, lambda _, c: c + _cond(x), x)


# The functions as Python chooses their branches; None: `lax.cond` does, of one example.
_FUNCTIONS: dict[str, tuple[Function, Function | None]] = {
    "cond": (_cond, lambda x: jnp.sqrt(x) if x > 0.5 else _below(x)),
    "closed": (_closed, lambda x: jnp.sqrt(x) * jnp.log(x) if x > 0.5 else _below(x)),
    "division": (_division, lambda x: jnp.sin(x) / x if x != 0 else x * 0 + 1.0),
    "switch": (
        _switch,
        lambda x: jnp.arcsin(1 / x) if x > 2 else jnp.log(x) if x > 0.5 else _below(x),
    ),
    "clamped": (_clamped, lambda x: jnp.sqrt(x) if x > 0.5 else _below(x)),
    "piecewise": (
        _piecewise,
        lambda x: jnp.sqrt(x - 2) if x > 2 else jnp.log(x) if x > 0.5 else _below(x),
    ),
    "nested": (
        _nested,
        lambda x: jnp.sqrt(x - 2) if x > 2 else jnp.log(x) if x > 0.5 else _below(x),
    ),
    "recomputed": (_recomputed, None),
    "jitted": (_jitted, None),
    "in_scan": (_in_scan, None),
    "in_loop": (_in_loop, lambda x: x + 3 * (jnp.sqrt(x) if x > 0.5 else _below(x))),
}
_COMPILED = ("jitted", "in_scan", "in_loop")


def _pointwise(f: Function, order: int) -> Function:
    for _ in range(order):
        f = xpr.grad(f)
    return f


def _by_reverse(f: Function, order: int) -> Function:
    for _ in range(order):
        f = xpr.grad(lambda x, f=f: f(x).sum())
    return f


def _by_forward(f: Function, order: int) -> Function:
    for _ in range(order):
        f = lambda x, f=f: xpr.jvp(f, (x,), (jnp.ones_like(x),))[1]  # noqa: E731
    return f


def _derivatives(f: Function, x: Any) -> list[Any]:
    """The first three derivatives of a batched function, in several ways."""
    batched = xpr.vmap(f)
    return [
        [_by_reverse(batched, n)(x) for n in (1, 2, 3)],
        [_by_forward(batched, n)(x) for n in (1, 2)],
        [xpr.vmap(_pointwise(f, n))(x) for n in (1, 2)],
        [_by_forward(batched, 1)(x), _by_forward(_by_reverse(batched, 1), 1)(x)],
        [
            xpr.linearize(batched, x)[1](jnp.ones_like(x)),
            _by_reverse(_by_forward(batched, 1), 1)(x),
        ],
    ]


def _check(found: list[Any], of_one: Function, name: str) -> None:
    expected = [[float(_pointwise(of_one, n)(x)) for x in _X] for n in (1, 2, 3)]
    for way, columns in enumerate(found):
        for order, column in enumerate(columns, 1):
            np.testing.assert_allclose(
                column,
                expected[order - 1],
                rtol=2e-5,
                atol=1e-5,
                err_msg=f"{name}: derivative {order} in way {way}",
            )


@pytest.mark.parametrize("name", [name for name in _FUNCTIONS if name not in _COMPILED])
def test_eager(name: str) -> None:
    function, of_one = _FUNCTIONS[name]
    _check(_derivatives(function, jnp.array(_X)), of_one or function, name)


def test_compiled() -> None:
    @xpr.jit
    def run(x: Any) -> dict[str, Any]:
        return {name: _derivatives(_FUNCTIONS[name][0], x) for name in _COMPILED}

    @xpr.jit
    def alone(x: Any) -> dict[str, Any]:
        return {
            name: [_pointwise(_FUNCTIONS[name][0], n)(x) for n in (1, 2, 3)] for name in _COMPILED
        }

    columns = [alone(x) for x in _X]
    for name, found in run(_X).items():
        expected = np.array([c[name] for c in columns]).T
        for way in found:
            for order, column in enumerate(way):
                np.testing.assert_allclose(column, expected[order], rtol=2e-5, atol=1e-5)


def test_masked_loop_in_forward_mode() -> None:
    """Examples that have ended keep their derivative, whatever further steps would make of it."""

    def f(x: Any) -> Any:
        step = lambda c: (c[0] + 1.0, c[1] * jnp.sqrt(1.0 - c[0] / x))  # noqa: E731
        return lax.while_loop(lambda c: c[0] < x, step, (jnp.zeros_like(x), x))[1]

    x = jnp.array([1.0, 2.0, 3.0])
    expected = [float(xpr.jacfwd(f)(v)) for v in x]
    np.testing.assert_allclose(_by_forward(xpr.vmap(f), 1)(x), expected, rtol=1e-6)
    assert np.isfinite(expected).all()


def test_operands_that_all_examples_share() -> None:
    """Shared operands are differentiated for the examples that read them."""
    x = jnp.array([0.0, 4.0, 9.0])

    def f(w: Any, x: Any) -> Any:
        return lax.cond(x > 0.5, lambda: jnp.sum(jnp.sqrt(x * w)), lambda: jnp.sum(w) * x)

    def total(w: Any, x: Any) -> Any:
        return xpr.vmap(f, (None, 0))(w, x).sum()

    w = jnp.array([1.0, 4.0])
    np.testing.assert_allclose(xpr.grad(total)(w, x), [2.5, 1.25], rtol=1e-6)
    by_x = xpr.grad(lambda w, x: xpr.grad(total, 1)(w, x).sum())(w, x)
    np.testing.assert_allclose(by_x, [1 + 5 / 24, 1 + 5 / 48], rtol=1e-6)


def test_values_alone_need_no_copies_of_shared_operands() -> None:
    """Without derivatives a matrix that all examples share is not repeated for each."""
    weights = jnp.ones((8, 8))

    def f(w: Any, x: Any) -> Any:
        return lax.cond(x[0] > 0, lambda: w @ x, lambda: x)

    program = xpr.make_jaxpr(xpr.vmap(f, (None, 0)))(weights, jnp.ones((5, 8)))
    assert "[5,8,8]" not in str(program)


def test_linear_functions_of_batches_that_branch_are_transposed() -> None:
    which = jnp.array([True, False])

    def f(v: Any) -> Any:
        return xpr.vmap(lambda p, v: lax.cond(p, lambda: 2.0 * v, lambda: 3.0 * v))(which, v)

    for g in (f, xpr.jit(f)):
        (found,) = xpr.linear_transpose(g, jnp.ones(2))(jnp.ones(2))
        np.testing.assert_array_equal(found, [2.0, 3.0])
