"""Loops at the edges: no rounds, no elements, conditions of NaN; against plain NumPy loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.core.config import override

# A state that registers hold, and one that they do not.
_SHAPES = ((5,), (60, 50))


@pytest.fixture(autouse=True)
def _in_double_precision() -> Any:
    with override("enable_x64", True), override("enable_checks", True):
        yield


def _drawn(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(len(shape)).standard_normal(shape)


@pytest.mark.parametrize("shape", _SHAPES)
def test_conditions_of_nan(shape: tuple[int, ...]) -> None:
    """Each comparison with NaN is false, also after some rounds; only `!=` goes on."""
    x = _drawn(*shape)

    def until(x: Any, start: float) -> Any:
        # 3, 1.1, 0.09, -2.4: the fourth round gives NaN.
        def step(s: Any) -> Any:
            y, k, n = s
            return y * 0.5, jnp.log(k), n + 1

        return lax.while_loop(lambda s: s[1] < 5.0, step, (x, np.float64(start), 0))

    def unequal(x: Any) -> Any:
        nan = x.ravel()[0] * np.nan
        return lax.while_loop(
            lambda s: (s[1] != s[1]) & (s[2] < 3), lambda s: (s[0] + 1, s[1], s[2] + 1), (x, nan, 0)
        )

    found = xpr.jit(lambda x: (until(x, 3.0), until(x, float("nan")), unequal(x)))(x)
    wanted = [(x * 0.0625, 4), (x, 0), (x + 1 + 1 + 1, 3)]
    for (y, k, n), (array, rounds) in zip(found, wanted, strict=True):
        assert np.isnan(k)
        assert int(n) == rounds
        np.testing.assert_array_equal(y, array)


@pytest.mark.parametrize("shape", _SHAPES)
def test_no_rounds(shape: tuple[int, ...]) -> None:
    """Bounds that are known and unknown, a scan of nothing, a condition that never holds."""
    x = _drawn(*shape)
    given = x.copy()

    def f(x: Any, n: Any) -> Any:
        def step(_: Any, s: Any) -> Any:
            return s[1], s[0].at[0].set(7.0)

        state = x, x + 1.0
        return (
            *lax.fori_loop(4, 4, step, state),
            *lax.fori_loop(n, 2, step, state),
            *lax.while_loop(lambda s: s[0].sum() > np.inf, lambda s: step(0, s), state),
            *lax.scan(lambda c, y: (c + y, c * y), x, jnp.zeros((0, *x.shape))),
        )

    found = [np.asarray(y) for y in xpr.jit(f)(x, 5)]
    for y, wanted in zip(found[:7], [x, x + 1.0] * 3 + [x], strict=True):
        np.testing.assert_array_equal(y, wanted)
    assert found[7].shape == (0, *shape)
    np.testing.assert_array_equal(x, given)


def test_no_elements() -> None:
    """Carried, stacked and read arrays without elements beside others with some."""
    x, none = _drawn(40, 30), np.zeros((0, 30))

    def f(x: Any, none: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            x, e = carry
            x = x.at[:, 0].add(row[0] + e.sum())
            return (x, e * 2), (row * 2, e[:, :1])

        return lax.scan(step, (x, none), x)

    (y, e), (rows, stacked) = xpr.jit(f)(x, none)
    wanted = x.copy()
    for row in x:
        wanted[:, 0] += row[0]
    np.testing.assert_allclose(y, wanted, rtol=1e-13)
    np.testing.assert_array_equal(rows, x * 2)
    assert np.shape(e) == (0, 30)
    assert np.shape(stacked) == (40, 0, 1)


@pytest.mark.parametrize("shape", _SHAPES)
def test_indices_beyond_the_ends(shape: tuple[int, ...]) -> None:
    """Reads are clamped, writes outside are left out; three arrays go round meanwhile."""
    n = shape[0]
    x = _drawn(*shape)
    given = x.copy()

    def f(x: Any, by: Any) -> Any:
        def step(i: Any, s: Any) -> Any:
            a, b, c = s
            place = i * by - 7
            a = a.at[jnp.where(place < 0, n + 5, place)].set(b[place + 3])
            return b, c + lax.dynamic_index_in_dim(a, place, 0, keepdims=False), a

        return lax.fori_loop(0, 6, step, (x, x * 2.0, x * 3.0))

    found = xpr.jit(f)(x, 11)
    a, b, c = x, x * 2.0, x * 3.0
    for i in range(6):
        place = i * 11 - 7
        a = a.copy()
        if 0 <= place < n:
            a[place] = b[min(place + 3, n - 1)]
        # Negative starts count from the end, then what lies outside is clamped.
        start = min(max(place + n if place < 0 else place, 0), n - 1)
        a, b, c = b, c + a[start], a
    for y, wanted in zip(found, (a, b, c), strict=True):
        np.testing.assert_allclose(y, wanted, rtol=1e-13)
    np.testing.assert_array_equal(x, given)


def _is_one_dispatch(f: Any, *args: Any) -> bool:
    text = xpr.jit(f).lower(*args).as_text("iree")
    return "flow.dispatch @" in text and "stablehlo.while" not in text


def test_empty_arrays_are_carried_and_stacked() -> None:
    """They have no elements to store: neither the loop nor a branch is the host's for them."""
    x, e = _drawn(60, 50), np.zeros((3, 0))
    rows = (np.arange(14.0).reshape(7, 2), np.zeros((7, 0)))

    def looped(x: Any, e: Any, rows: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            a, e, k = carry
            s, nothing = row
            a = jnp.concatenate([a[:, :1] * jnp.sum(s) + jnp.sum(e), jnp.tanh(a[:, 1:])], axis=1)
            a = jnp.concatenate([a, jnp.zeros((0, 50))]).at[jnp.zeros(0, int)].add(e.T @ a[:3])
            a, e = lax.cond(k > 2, lambda a, e: (a + 1, e * 2), lambda a, e: (a * 2, e), a, e)
            return (a, e + 1, k + 1), (e[0], jnp.max(a, axis=1), nothing)

        return lax.scan(step, (x, e, 0), rows)

    assert _is_one_dispatch(looped, x, e, rows)
    (a, b, k), (first, most, nothing) = xpr.jit(looped)(x, e, rows)
    wanted, stacked = x, []
    for i in range(7):
        columns = [wanted[:, :1] * rows[0][i].sum(), np.tanh(wanted[:, 1:])]
        wanted = np.concatenate(columns, axis=1)
        wanted = wanted + 1 if i > 2 else wanted * 2
        stacked.append(wanted.max(axis=1))
    np.testing.assert_allclose(a, wanted, rtol=1e-12)
    np.testing.assert_allclose(most, stacked, rtol=1e-12)
    assert (int(k), b.shape, first.shape, nothing.shape) == (7, (3, 0), (7, 0), (7, 0))
    assert nothing.dtype == rows[1].dtype


def test_a_while_loop_that_carries_an_empty_array() -> None:
    x, e = _drawn(60, 50), np.zeros((0, 4), np.int32)

    def looped(x: Any, e: Any) -> Any:
        return lax.while_loop(
            lambda s: s[2] < 3, lambda s: (jnp.sin(s[0]), s[1] - 1, s[2] + 1), (x, e, 0)
        )

    assert _is_one_dispatch(looped, x, e)
    y, empty, _ = xpr.jit(looped)(x, e)
    np.testing.assert_allclose(y, np.sin(np.sin(np.sin(x))), rtol=1e-14)
    assert (empty.shape, empty.dtype) == ((0, 4), np.int32)


def test_more_arrays_than_a_dispatch_has_bindings() -> None:
    """Of three dtypes, large and small, read and carried: small ones are put together."""
    random = np.random.default_rng(7)
    carried = [random.standard_normal((2, n)) for n in range(1, 21)]
    flags = [random.random(n) < 0.5 for n in range(2, 22)]
    fixed = [random.integers(0, 9, n, dtype=np.int32) for n in range(2, 42)]
    large = random.standard_normal((60, 50))

    def looped(carried: Any, flags: Any, fixed: Any, large: Any) -> Any:
        def step(i: Any, state: Any) -> Any:
            xs, bits, a = state
            xs = [x + f[i] + a[i, i] for x, f in zip(xs, fixed, strict=False)]
            return xs, [~b for b in bits], a * 0.5 + sum(f.sum() for f in fixed)

        return lax.fori_loop(0, 2, step, (carried, flags, large))

    args = carried, flags, fixed, large
    assert _is_one_dispatch(looped, *args)
    xs, bits, a = xpr.jit(looped)(*args)
    wanted = [x.copy() for x in carried]
    at = large
    for i in range(2):
        wanted = [x + f[i] + at[i, i] for x, f in zip(wanted, fixed, strict=False)]
        at = at * 0.5 + sum(int(f.sum()) for f in fixed)
    np.testing.assert_allclose(a, at, rtol=1e-13)
    for x, y in zip(xs, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-13)
    for x, y in zip(bits, flags, strict=True):
        np.testing.assert_array_equal(x, y)
        assert x.dtype == np.bool_
