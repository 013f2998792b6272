"""Loops whose rounds read a large matrix: its products are dispatches that threads share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.core.config import override
from xpr.lowering.loops import products_apart

# A little more than two megabytes of float64, and no multiple of a vector.
_SIZE = 519


@pytest.fixture(autouse=True)
def _on_two_cores(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(products_apart, "cores", lambda: 2)
    with override("enable_x64", True), override("enable_checks", True):
        yield


def _matrix(n: int = _SIZE, m: int = _SIZE) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal((n, m)) / np.sqrt(n)


def _text(function: Callable[..., Any], *args: Any) -> str:
    return xpr.jit(function).lower(*args).as_text("iree")


def _workgroups(function: Callable[..., Any], *args: Any) -> list[int]:
    lines = _text(function, *args).splitlines()
    return [int(x.split()[3]) for x in lines if x.strip().startswith("%count = ")]


def _looped(count: int, step: Callable[[Any], Any], x: Any) -> Any:
    for _ in range(count):
        x = step(x)
    return x


@pytest.mark.parametrize("rows", [None, 1, 3, 16])
@pytest.mark.parametrize("order", ["matrix first", "matrix last", "matrix transposed"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_with_a_few_vectors(rows: int | None, order: str, dtype: Any) -> None:
    n = 739 if dtype == np.float32 else _SIZE
    a = _matrix(n, n).astype(dtype)
    shape = (n,) if rows is None else (n, rows) if order == "matrix first" else (rows, n)
    x = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    given = a.copy(), x.copy()

    def step(np_: Any, a: Any, x: Any) -> Any:
        if order == "matrix first":
            y = a @ x
        elif order == "matrix last":
            y = x @ a
        else:
            y = np_.einsum("...k,nk->...n", x, a)
        return np_.tanh(y) + 0.5 * x

    f = lambda a, x: lax.fori_loop(0, 4, lambda _, x: step(jnp, a, x), x)  # noqa: E731
    assert "stablehlo.while" in _text(f, a, x)
    # Columns of three are no vectors: IREE's product takes those.
    is_taken = rows != 3 or order != "matrix first"
    assert sorted(n > 1 for n in _workgroups(f, a, x)) == [False, True][: 1 + is_taken]
    wide = [v.astype(np.float64) for v in (a, x)]
    wanted = _looped(4, lambda x: step(np, wide[0], x), wide[1])
    tolerance = 2e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(xpr.jit(f)(a, x), wanted, rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(a, given[0])
    np.testing.assert_array_equal(x, given[1])


def test_conjugate_gradients() -> None:
    """A loop of unknown length, with results that no product needs."""
    a = _matrix()
    a = a @ a.T + np.eye(_SIZE)
    b = np.random.default_rng(1).standard_normal(_SIZE)

    def solve(a: Any, b: Any) -> Any:
        def step(state: Any) -> Any:
            x, r, p, rr, k = state
            ap = a @ p
            alpha = rr / jnp.vdot(p, ap)
            x, r = x + alpha * p, r - alpha * ap
            new = jnp.vdot(r, r)
            return x, r, r + new / rr * p, new, k + 1

        start = jnp.zeros_like(b), b, b, jnp.vdot(b, b), 0
        return lax.while_loop(lambda s: (s[3] > 1e-20) & (s[4] < 200), step, start)

    assert sorted(n > 1 for n in _workgroups(solve, a, b)) == [False, True]
    found = xpr.jit(solve)(a, b)
    np.testing.assert_allclose(found[0], np.linalg.solve(a, b), rtol=1e-9, atol=1e-9)
    assert 10 < int(found[4]) < 200


def test_two_products_one_after_the_other_and_two_side_by_side() -> None:
    a, b = _matrix(), _matrix()[::-1].copy()
    x = np.random.default_rng(2).standard_normal(_SIZE)

    def step(np_: Any, a: Any, b: Any, x: Any) -> Any:
        y = a @ np_.sin(x)
        z = (0.25 * y) @ b
        w = b @ np_.cos(x)
        return 0.5 * x + z * y[0] - w

    f = lambda a, b, x: lax.fori_loop(0, 3, lambda _, x: step(jnp, a, b, x), x)  # noqa: E731
    assert sum(n > 1 for n in _workgroups(f, a, b, x)) == 3
    wanted = _looped(3, lambda x: step(np, a, b, x), x)
    np.testing.assert_allclose(xpr.jit(f)(a, b, x), wanted, rtol=1e-11, atol=1e-11)


def test_scan_with_slices_stacks_and_a_loop_inside() -> None:
    """The inner loop is one dispatch; what the step reads and stacks stays what it was."""
    a = _matrix()
    xs = np.random.default_rng(3).standard_normal((5, _SIZE))

    def step(np_: Any, repeat: Any, a: Any, state: Any, x: Any) -> Any:
        y, k = state
        y = a @ (y + x)
        y = repeat(3, lambda y: 0.9 * y + 0.1 * np_.roll(y, 1), y)
        return (y, k + 2), (y[:7], k)

    def by_lax(count: int, body: Any, y: Any) -> Any:
        return lax.fori_loop(0, count, lambda _, y: body(y), y)

    def f(a: Any, xs: Any) -> Any:
        start = jnp.zeros(_SIZE), 0
        return lax.scan(lambda s, x: step(jnp, by_lax, a, s, x), start, xs, reverse=True)

    state, stacked = (np.zeros(_SIZE), 0), []
    for x in xs[::-1]:
        state, y = step(np, _looped, a, state, x)
        stacked.append(y)
    assert sum(n > 1 for n in _workgroups(f, a, xs)) == 1
    (y, k), (parts, counts) = xpr.jit(f)(a, xs)
    np.testing.assert_allclose(y, state[0], rtol=1e-11, atol=1e-11)
    assert int(k) == state[1]
    np.testing.assert_allclose(parts, [p for p, _ in stacked[::-1]], rtol=1e-11, atol=1e-11)
    np.testing.assert_array_equal(counts, [c for _, c in stacked[::-1]])


def test_a_solver_inside_of_a_loop() -> None:
    """The outer loop is the host's, too, and the inner one's products are shared."""
    a = _matrix()
    x = np.random.default_rng(4).standard_normal(_SIZE)

    def f(a: Any, x: Any) -> Any:
        def outer(i: Any, x: Any) -> Any:
            x = lax.fori_loop(0, 3, lambda _, x: jnp.tanh(a @ x), x)
            return x * (i + 1)

        return lax.fori_loop(0, 2, outer, x)

    wanted = x
    for i in range(2):
        wanted = _looped(3, lambda x: np.tanh(a @ x), wanted) * (i + 1)
    assert sum(n > 1 for n in _workgroups(f, a, x)) == 1
    np.testing.assert_allclose(xpr.jit(f)(a, x), wanted, rtol=1e-11, atol=1e-11)


def test_derivatives() -> None:
    a, x = _matrix(), np.random.default_rng(5).standard_normal(_SIZE)

    def f(a: Any, x: Any) -> Any:
        return lax.scan(lambda x, _: (jnp.tanh(a @ x), None), x, None, length=3)[0].sum()

    gradient = xpr.jit(xpr.grad(f, argnums=1))(a, x)
    h, t = 1e-6, np.random.default_rng(6).standard_normal(_SIZE)
    value = xpr.jit(f)
    wanted = (value(a, x + h * t) - value(a, x - h * t)) / (2 * h)
    np.testing.assert_allclose(np.vdot(gradient, t), wanted, rtol=1e-5)


def test_what_stays_one_dispatch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small matrices, those that a step cuts from an array, and all of them on one core."""

    def power(a: Any, x: Any) -> Any:
        return lax.fori_loop(0, 4, lambda _, x: jnp.tanh(a @ x), x)

    def layers(many: Any, x: Any) -> Any:
        return lax.scan(lambda x, a: (jnp.tanh(a @ x), None), x, many)[0]

    a, x = _matrix(), np.ones(_SIZE)
    assert "stablehlo.while" in _text(power, a, x)
    assert "stablehlo.while" not in _text(power, a[:400, :400], x[:400])
    assert "stablehlo.while" not in _text(layers, np.stack([a, a]), x)
    monkeypatch.setattr(products_apart, "cores", lambda: 1)
    assert "stablehlo.while" not in _text(power, a, x)
