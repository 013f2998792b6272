"""Loops as one dispatch: every operation on registers against the reference rules."""

from __future__ import annotations

import os
import zlib
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.harness import assert_same, run_reference
from tests.op_gaps import gap_of
from tests.op_row import OpRow, np_dtype
from tests.op_table import all_rows
from xpr import lax
from xpr.core.config import override
from xpr.lowering.loops.registers.context import MAX_ELEMENTS

_FAMILIES = (
    "elementwise",
    "power",
    "elementary",
    "compare",
    "convert",
    "integer",
    "shape",
    "joining",
    "reduce",
    "dot_general",
    "creation",
)
_DTYPES = ("float32", "float64", "int32", "uint32", "int8", "bool")
_OF_COMPLEX = _FAMILIES if os.environ.get("XPR_LONG_TESTS") == "1" else ("power", "shape")
_CASES = [
    *((f, d) for d in _DTYPES for f in _FAMILIES),
    *((f, "complex64") for f in _OF_COMPLEX),
]


def is_one_dispatch(text: str) -> bool:
    """Whether the loops of a program were lowered to dispatches of their own."""
    return "scf." in text and "stablehlo.while" not in text


def _in_a_loop(row: OpRow):
    """The row's function in the second step of a loop, its operands constants of the loop."""

    def looped(*args: Any) -> list[Any]:
        def step(carry: Any, _: Any) -> Any:
            out = row.function(*args)
            return carry + 1, list(out) if isinstance(out, (tuple, list)) else [out]

        _, ys = lax.scan(step, 0, None, length=2)
        return [y[1] for y in ys]

    return looped


def _cases(family: str, dtype: str) -> list[tuple[OpRow, list[np.ndarray[Any, Any]]]]:
    found = []
    for row in all_rows()[family]:
        if dtype not in row.dtypes or gap_of(row, dtype, "cpu") is not None:
            continue
        rng = np.random.default_rng(zlib.crc32(f"{row.id}/{dtype}/loop".encode()))
        args = [np.asarray(a) for a in row.args(rng, np_dtype(dtype))]
        if all(0 < a.size <= MAX_ELEMENTS for a in args):
            found.append((row, args))
    return found


@pytest.mark.parametrize(("family", "dtype"), _CASES)
def test_operations_on_registers(family: str, dtype: str) -> None:
    """Rows whose program does not do in registers are lowered plainly; most must do."""
    cases = _cases(family, dtype)
    if not cases:
        return
    with override("enable_x64", True):
        chosen = [
            (row, args)
            for row, args in cases
            if is_one_dispatch(xpr.jit(_in_a_loop(row)).lower(*args).as_text("iree"))
        ]
        if family in ("elementwise", "shape"):
            assert len(chosen) >= len(cases) // 2
        if not chosen:
            return
        operands = [a for _, args in chosen for a in args]

        def program(*flat: Any) -> list[list[Any]]:
            out, at = [], 0
            for row, args in chosen:
                out.append(_in_a_loop(row)(*flat[at : at + len(args)]))
                at += len(args)
            return out

        found = xpr.jit(program)(*operands)
        expected = run_reference([(row.function, args) for row, args in chosen])
    for (row, _), got, wanted in zip(chosen, found, expected, strict=True):
        for i, (a, b) in enumerate(zip(got, wanted, strict=True)):
            rtol, atol = row.tolerance_for(b.dtype)
            assert_same(np.asarray(a), b, rtol, atol, what=f"{row.id} {dtype} result {i}")


# ---- loops


def test_results_that_are_constants() -> None:
    """IREE took parts of the second for parts of the first."""
    x = np.arange(26, dtype="f4").reshape(2, 13)

    def stacked(x: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            return c + 1, (lax.full_like(x, 1), lax.full_like(x, 0))

        one, zero = lax.scan(step, 0, None, length=2)[1]
        return one[1], zero[1]

    def carried(x: Any) -> Any:
        def step(_: int, s: Any) -> Any:
            return lax.full_like(x, 1), lax.full_like(x, 0)

        one, zero = lax.fori_loop(0, 3, step, (x, x))
        return one[1], zero[1]

    for one, zero in xpr.jit(lambda x: (stacked(x), carried(x)))(x):
        np.testing.assert_array_equal(one, np.ones(one.shape))
        np.testing.assert_array_equal(zero, np.zeros(zero.shape))


def _text(f, *args):
    return xpr.jit(f).lower(*args).as_text("iree")


@pytest.mark.usefixtures("plain_loops")
def test_what_becomes_one_dispatch() -> None:
    x = np.ones(16, "f4")
    small = lambda x: lax.scan(lambda c, _: (jnp.sin(c), c), x, None, length=9)  # noqa: E731
    assert is_one_dispatch(_text(small, x))
    assert is_one_dispatch(
        _text(lambda x: lax.while_loop(lambda c: c[0] < 9.0, lambda c: c + 1, x), x)
    )
    assert is_one_dispatch(_text(xpr.grad(lambda x: small(x)[0].sum()), x))
    # Large values, sorting and empty arrays take the plain form.
    large = np.ones((64, 64), "f4")
    assert not is_one_dispatch(
        _text(lambda x: lax.scan(lambda c, _: (c @ c, None), x, None, length=3)[0], large)
    )
    assert not is_one_dispatch(
        _text(lambda x: lax.scan(lambda c, _: (jnp.sort(c), None), x, None, length=3)[0], x)
    )
    assert not is_one_dispatch(
        _text(lambda x: lax.scan(lambda c, _: (c, None), x, None, length=3)[0], x[:0])
    )


@pytest.mark.usefixtures("plain_loops")
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_long_constants_stay_out_of_registers(dtype: str) -> None:
    """A vector constant of more than 256 bytes in such a loop ends the compiler's process."""
    dt = np_dtype(dtype)
    longest = 256 // dt.itemsize

    def f(x):
        return lax.fori_loop(0, 3, lambda _, c: c * lax.iota(dt, x.size) + 1, x)

    with override("enable_x64", True):
        for size in (longest, longest + 1):
            x = np.ones(size, dt)
            assert is_one_dispatch(_text(f, x)) == (size == longest)
            expected = x
            for _ in range(3):
                expected = expected * np.arange(size, dtype=dt) + 1
            np.testing.assert_allclose(np.asarray(xpr.jit(f)(x)), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("reverse", [False, True])
def test_slices_and_stacks_of_every_dtype(dtype: str, reverse: bool) -> None:
    rng = np.random.default_rng(0)
    xs = rng.integers(0, 2 if dtype == "bool" else 100, (7, 2, 3)).astype(dtype)
    start = xs[0]

    def f(start, xs):
        def step(c, x):
            y = jnp.where(x > c, x, c)
            return y, (c, x[1])

        return lax.scan(step, start, xs, reverse=reverse)

    with override("enable_x64", True):
        assert is_one_dispatch(_text(f, start, xs))
        carry, (cs, rows) = xpr.jit(f)(start, xs)
    c, seen = start, []
    for x in xs[::-1] if reverse else xs:
        seen.append(c)
        c = np.where(x > c, x, c)
    np.testing.assert_array_equal(np.asarray(carry), c)
    np.testing.assert_array_equal(np.asarray(cs), seen[::-1] if reverse else seen)
    np.testing.assert_array_equal(np.asarray(rows), xs[:, 1])


def test_an_index_into_memory_is_clamped() -> None:
    table = np.arange(2000, dtype="f4")

    def f(table, start):
        def step(s):
            i, total = s
            return i + 700, total + lax.dynamic_slice(table, (i,), (1,))[0]

        return lax.while_loop(lambda s: s[0] < 3000, step, (start, jnp.float32(0)))[1]

    assert is_one_dispatch(_text(f, table, -5000))
    expected, i = 0.0, -5000
    while i < 3000:
        place = i + 2000 if i < 0 else i  # negative indices count from the end
        expected += table[min(max(place, 0), 1999)]
        i += 700
    assert float(xpr.jit(f)(table, -5000)) == expected


def test_integrators_match_numpy() -> None:
    def rates(s):
        return jnp.stack(
            [10.0 * (s[1] - s[0]), s[0] * (28.0 - s[2]) - s[1], s[0] * s[1] - 8 / 3 * s[2]]
        )

    def f(s):
        def step(s, _):
            h = 0.01
            k1 = rates(s)
            k2 = rates(s + h / 2 * k1)
            k3 = rates(s + h / 2 * k2)
            k4 = rates(s + h * k3)
            s = s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            return s, s

        return lax.scan(step, s, None, length=50)[1]

    with override("enable_x64", True):
        start = np.array([1.0, 1.0, 1.0])
        assert is_one_dispatch(_text(f, start))
        found = np.asarray(xpr.jit(f)(start))
    s = start

    def numpy_rates(s):
        return np.array([10 * (s[1] - s[0]), s[0] * (28 - s[2]) - s[1], s[0] * s[1] - 8 / 3 * s[2]])

    for row in found:
        k1 = numpy_rates(s)
        k2 = numpy_rates(s + 0.005 * k1)
        k3 = numpy_rates(s + 0.005 * k2)
        k4 = numpy_rates(s + 0.01 * k3)
        s = s + 0.01 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        np.testing.assert_allclose(row, s, rtol=1e-10)


def test_indices_into_registers() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((4, 5)).astype("f4")
    x[1, 2] = np.nan
    places = rng.integers(-3, 8, (9, 2)).astype("i4")

    def f(x, places):
        def step(table, place):
            i, j = place
            one = lax.dynamic_slice(table, (i, j), (1, 1))
            row = lax.dynamic_slice(table, (i, 0), (1, 5))
            table = lax.dynamic_update_slice(table, one + 1, (j, i))
            table = table.at[1, 1].add(row[0, 0])
            return table, (one, row)

        return lax.scan(step, x, places)

    assert is_one_dispatch(_text(f, x, places))
    found = xpr.jit(f)(x, places)
    table, ones, rows = x.copy(), [], []

    def at(k, size):
        return min(max(k + size if k < 0 else k, 0), size - 1)

    for i, j in places:
        one = table[at(i, 4), at(j, 5)]
        row = table[at(i, 4)].copy()
        table[at(j, 4), at(i, 5)] = one + 1
        table[1, 1] += row[0]
        ones.append([[one]])
        rows.append([row])
    np.testing.assert_allclose(np.asarray(found[0]), table, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(found[1][0]), ones, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(found[1][1]), rows, rtol=1e-6)


def test_random_numbers_inside_a_loop() -> None:
    def walk(key):
        def step(s, k):
            s = s + xpr.random.normal(k, (3,))
            return s, s

        return lax.scan(step, jnp.zeros(3), xpr.random.split(key, 20))[1]

    key = xpr.random.PRNGKey(7)
    assert is_one_dispatch(_text(walk, key))
    keys = xpr.random.split(key, 20)
    steps = np.stack([np.asarray(xpr.random.normal(k, (3,))) for k in keys])
    # Sums cancel, so their error is one of the numbers that were added.
    np.testing.assert_allclose(np.asarray(xpr.jit(walk)(key)), np.cumsum(steps, 0), atol=1e-5)


def test_loops_inside_loops() -> None:
    def newton(a):
        """Square roots by Newton's method, a loop of fixed and one of unknown length."""

        def step(c, x):
            fixed = lax.fori_loop(0, 6, lambda _, r: 0.5 * (r + x / r), jnp.float32(1))
            free = lax.while_loop(
                lambda s: jnp.abs(s[0] * s[0] - x) > 1e-5 * x,
                lambda s: (0.5 * (s[0] + x / s[0]), s[1] + 1),
                (x, 0),
            )
            pairs = lax.scan(lambda d, y: (d + y, d * y), c, jnp.stack([x, 2 * x]))
            return c + 1, (fixed, free, pairs)

        return lax.scan(step, jnp.float32(0), a)

    a = np.array([1.0, 2.0, 9.0, 50.0], "f4")
    assert is_one_dispatch(_text(newton, a))
    last, (fixed, (free, counts), (sums, products)) = xpr.jit(newton)(a)
    assert float(last) == 4.0
    np.testing.assert_allclose(np.asarray(fixed), np.sqrt(a), rtol=1e-4)
    np.testing.assert_allclose(np.asarray(free), np.sqrt(a), rtol=1e-5)
    expected = []
    for x in a:
        r, n = x, 0
        while abs(r * r - x) > np.float32(1e-5) * x:
            r, n = np.float32(0.5) * (r + x / r), n + 1
        expected.append(n)
    assert counts.tolist() == expected
    c = np.arange(4, dtype="f4")
    np.testing.assert_allclose(np.asarray(sums), c + 3 * a)
    np.testing.assert_allclose(np.asarray(products), np.stack([c * a, (c + a) * 2 * a], 1))
