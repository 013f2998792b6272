"""Loops of complex numbers: taken apart, they are one dispatch in registers or in memory."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.core.config import override

# A state that registers hold, and one that they do not.
_SHAPES = ((3, 4), (40, 60))


def _numbers(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    parts = np.random.default_rng(seed).standard_normal((2, *shape))
    return parts[0] + 1j * parts[1]


def _one_dispatch(f: Any, *args: Any) -> Any:
    """The results of a function whose loops are one dispatch."""
    jitted = xpr.jit(f)
    text = jitted.lower(*args).as_text("iree")
    assert "scf." in text
    assert "stablehlo.while" not in text
    return jitted(*args)


@pytest.fixture(autouse=True)
def _in_double_precision() -> Any:
    with override("enable_x64", True), override("enable_checks", True):
        yield


def _step(np_: Any, i: Any, z: Any, c: Any, total: Any) -> tuple[Any, Any]:
    inside = np_.abs(z) <= 2.0
    z = np_.where(inside, z * z + c, np_.conj(z) * 0.5)
    rotated = np_.exp(1j * z.real) / (1.0 + c) + np_.roll(z, 1, 0) ** 3
    return 0.1 * rotated + z[::-1], total + rotated.sum() * 1j - i


@pytest.mark.parametrize("shape", _SHAPES)
def test_counted_loops(shape: tuple[int, ...]) -> None:
    z, c = 0.3 * _numbers(*shape), 0.3 * _numbers(*shape, seed=1)

    def f(z: Any, c: Any) -> Any:
        start = z, np.complex128(0)
        return lax.fori_loop(0, 5, lambda i, s: _step(jnp, i, s[0], c, s[1]), start)

    found = _one_dispatch(f, z, c)
    wanted: tuple[Any, Any] = z, 0j
    for i in range(5):
        wanted = _step(np, i, wanted[0], c, wanted[1])
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shape", _SHAPES)
def test_loops_in_loops_with_branches(shape: tuple[int, ...]) -> None:
    """A scan of slices with a branch and an inner loop that ends by a condition."""
    xs = _numbers(4, *shape)

    def f(xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            def shrink(s: Any) -> Any:
                return s[0] * (0.5 + 0.25j), s[1] + 1

            small, count = lax.while_loop(lambda s: jnp.abs(s[0]).max() > 0.5, shrink, (x, 0))
            carry = lax.cond(
                count % 2 == 0, lambda c, s: c + s, lambda c, s: c - 1j * s, carry, small
            )
            return carry, (carry[0], count)

        return lax.scan(step, jnp.zeros(xs.shape[1:], xs.dtype), xs)

    total, (rows, counts) = _one_dispatch(f, xs)
    wanted, wanted_rows, wanted_counts = np.zeros(shape, complex), [], []
    for x in xs:
        count = 0
        while np.abs(x).max() > 0.5:
            x, count = x * (0.5 + 0.25j), count + 1
        wanted = wanted + x if count % 2 == 0 else wanted - 1j * x
        wanted_rows.append(wanted[0])
        wanted_counts.append(count)
    np.testing.assert_allclose(total, wanted, rtol=1e-12)
    np.testing.assert_allclose(rows, wanted_rows, rtol=1e-12)
    np.testing.assert_array_equal(counts, wanted_counts)


def test_updates_in_place() -> None:
    """Rows are written, and read again; the caller's array stays as it is."""
    x = _numbers(50, 40)
    given = x.copy()

    def f(x: Any) -> Any:
        def row(i: Any, x: Any) -> Any:
            return x.at[i, 1:].set(x[i - 1, :-1] * x[i, 1:] + 1j).at[i, 0].add(2.0)

        return lax.fori_loop(1, x.shape[0], row, x)

    found = _one_dispatch(f, x)
    for i in range(1, 50):
        x[i, 1:] = x[i - 1, :-1] * x[i, 1:] + 1j
        x[i, 0] += 2.0
    np.testing.assert_allclose(found, x, rtol=1e-10)
    again = given.copy()
    xpr.jit(f)(again)
    np.testing.assert_array_equal(again, given)


def test_derivatives() -> None:
    z, direction = 0.3 * _numbers(6, 70), _numbers(6, 70, seed=2)

    def loss(np_: Any, repeat: Any, z: Any) -> Any:
        out = repeat(0, 4, lambda i, z: z * z + 0.2j * np_.roll(z, 1, 1), z)
        return (out * np_.conj(out)).real.sum()

    def plain(start: int, end: int, body: Any, x: Any) -> Any:
        for i in range(start, end):
            x = body(i, x)
        return x

    gradient = _one_dispatch(xpr.grad(lambda z: loss(jnp, lax.fori_loop, z)), z)
    step = 1e-6
    ends = [loss(np, plain, z + s * direction) for s in (step, -step)]
    slope = (ends[0] - ends[1]) / (2 * step)
    # The gradient of a real function has the conjugate of what multiplies the direction.
    np.testing.assert_allclose(np.sum(gradient * direction).real, slope, rtol=1e-6)


def test_what_is_refused_is_named(caplog: pytest.LogCaptureFixture) -> None:
    def f(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda _, x: jnp.cumprod(x), x)

    with override("explain", "loops"), caplog.at_level(logging.WARNING, "xpr.loops"):
        xpr.jit(f).lower(_numbers(5)).as_text("iree")
    (message,) = [r.getMessage() for r in caplog.records if r.name == "xpr.loops"]
    assert "is not one dispatch: cumprod of complex numbers at " in message
    assert "test_loop_complex.py" in message
