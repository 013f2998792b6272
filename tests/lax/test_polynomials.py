"""lax.log2, one_minus_square and polynomial against NumPy and exact fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax

RNG = np.random.default_rng(40)


def test_log2_of_powers_of_two() -> None:
    powers = np.arange(-120, 121, dtype=np.float32)
    np.testing.assert_array_max_ulp(np.asarray(lax.log2(np.exp2(powers))), powers, 1)


def test_log2() -> None:
    x = np.array([0.0, -1.0, np.inf, np.nan, 1e-30, 0.3, 7.0, 1e30], np.float32)
    z = (RNG.normal(size=6) + 1j * RNG.normal(size=6)).astype(np.complex64)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(xpr.jit(lax.log2)(x), np.log2(x), rtol=3e-7)
    np.testing.assert_allclose(lax.log2(z), np.log2(z), rtol=2e-6)
    slope = xpr.vmap(xpr.grad(lax.log2))(x[4:])
    np.testing.assert_allclose(slope, 1 / (x[4:].astype(np.float64) * np.log(2)), rtol=3e-7)
    assert lax.log2(2.0).weak_type
    assert not lax.log2(np.float32(2)).weak_type
    with pytest.raises(TypeError, match="log does not accept dtype int32"):
        lax.log2(np.arange(3, dtype=np.int32))


def test_one_minus_square() -> None:
    x = np.array([0.0, 1 - 2**-24, -1 + 2**-20, 1.5, 1e-30, -3.0, np.inf, np.nan], np.float32)
    exact = [float(1 - Fraction(float(v)) ** 2) for v in x[:6]]
    found = xpr.jit(lax.one_minus_square)(x)
    np.testing.assert_allclose(found, [*exact, -np.inf, np.nan], rtol=2e-7)
    np.testing.assert_array_equal(xpr.vmap(xpr.grad(lax.one_minus_square))(x), -2 * x)
    np.testing.assert_array_equal(xpr.vmap(xpr.grad(xpr.grad(lax.one_minus_square)))(x[:6]), -2)
    np.testing.assert_array_equal(lax.one_minus_square(np.arange(-2, 3)), [-3, 0, 1, 0, -3])
    np.testing.assert_allclose(lax.one_minus_square(1j), 2)


@pytest.mark.parametrize("count", [0, 1, 2, 5, 8, 9, 25])
@pytest.mark.parametrize("dtype", ["float32", "int32", "complex64"])
def test_polynomial(count: int, dtype: str) -> None:
    x = RNG.uniform(-1.5, 1.5, 7)
    coefficients = RNG.integers(-4, 5, count).tolist()
    at = (10 * x).astype(dtype) % 3 if dtype == "int32" else x.astype(dtype)
    expected = np.zeros_like(at)
    for c in reversed(coefficients):
        expected = expected * at + np.asarray(c, dtype)
    for found in (lax.polynomial(at, coefficients), lax.polynomial(at, coefficients, unroll=3)):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("unroll", [None, 0, 2])
def test_derivatives_of_polynomials(unroll: int | None) -> None:
    """In x, in coefficients with and without axes, mixed, of second order, by both modes."""
    x = RNG.uniform(-1, 1, (2, 3)).astype(np.float32)
    c = [
        np.float32(0.5),
        RNG.normal(size=(2, 1)).astype("f4"),
        RNG.normal(size=(1, 3)).astype("f4"),
    ]

    def f(x: Any, c: Any) -> Any:
        return lax.polynomial(x, c, unroll=unroll).sum()

    def plain(x: Any, c: Any) -> Any:
        return (c[0] + c[1] * x + c[2] * x * x).sum()

    def by_sizes(found: Any, expected: Any) -> None:
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)

    def both(function: Any) -> Any:
        by_x, by_c = xpr.grad(function, (0, 1))(x, c)
        mixed = xpr.jacfwd(lambda c1: xpr.grad(function)(x, [c[0], c1, c[2]]))(c[1])
        second = xpr.hessian(function)(x, c)
        return [by_x, *by_c, mixed, second]

    xpr.tree.map(by_sizes, both(f), both(plain))


def test_vmap_and_weak_types_of_polynomials() -> None:
    x = RNG.uniform(-1, 1, (4, 3)).astype(np.float32)
    c = RNG.normal(size=(4, 3)).astype(np.float32)
    found = xpr.vmap(lambda x, c: lax.polynomial(x, [1.0, c, 2.0]))(x, c)
    np.testing.assert_allclose(found, 1 + c * x + 2 * x * x, rtol=1e-5, atol=1e-6)
    assert lax.polynomial(3.0, [1.0, 5.0]).weak_type
    assert not lax.polynomial(3.0, [jnp.ones(()), 5.0]).weak_type
    assert not lax.polynomial(np.float32(3), [1.0, 5.0]).weak_type
    assert lax.polynomial(x[:0], [1, 2]).shape == (0, 3)


def test_polynomials_that_do_not_fit() -> None:
    x = np.ones((2, 3), np.float32)
    with pytest.raises(TypeError, match="coefficients without axes, or with as many"):
        lax.polynomial(x, [np.ones(3, np.float32), 1.0])
    with pytest.raises(ValueError, match=r"[Ii]ncompatible shapes"):
        lax.polynomial(x, [np.ones((4, 3), np.float32), 1.0])
    with pytest.raises(ValueError, match="an unroll of 0 or more, got -1"):
        lax.polynomial(x, [1.0], unroll=-1)
