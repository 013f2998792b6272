"""Exponentials and logarithms of float32 and float64.

The reductions are Cody and Waite's (Software Manual for the Elementary Functions, 1980); the
logarithm's form is that of Tang (1990) with the series in (m - 1) / (m + 1). Polynomials are
near-minimax, from Chebyshev interpolation in 60 digits; each gives its error. Denormal numbers
count as 0, as they do throughout compiled programs.

IREE's own forms were measured against these. In float32 its exponential is as fast but off by 5 ulp
near overflow, its expm1 three times slower; its logarithm and logistic function are good, and used
where a driver does not put approximations of its own in their place.
In float64 it calls scalar functions, three times slower, or has none.
"""

from __future__ import annotations

import numpy as np

from xpr.lowering.numerics.expr import (
    Expr,
    by_dtype,
    least_normal,
    opaque,
    polynomial,
    power_of_two,
    where,
)

# (exp(r) - 1 - r) / r**2 on |r| <= log(2) / 2, absolute error 1.4e-18 and 1.4e-9.
_EXP_DOUBLE = (
    0.5,
    0.1666666666666667,
    0.04166666666666667,
    0.008333333333326136,
    0.0013888888888883748,
    0.00019841269874820627,
    2.4801587325547743e-05,
    2.7557255400206422e-06,
    2.75572736431103e-07,
    2.5105217004720745e-08,
    2.0914686968086876e-09,
)
_EXP_SINGLE = (0.5, 0.16666667, 0.041666467, 0.0083333105, 0.001393365, 0.00019890991)

# 2 * (atanh(s) / s - 1) / s**2 in s**2, on |s| <= 3 - 2 * sqrt(2), error 3.1e-16 and 1.2e-9.
LOG_DOUBLE = (
    0.666666666666667,
    0.39999999999899505,
    0.28571428625975487,
    0.2222221113479508,
    0.18182889125261723,
    0.15331721600556042,
    0.14616449685043406,
)
LOG_SINGLE = (0.6666667, 0.40000123, 0.28550822, 0.23330468)

# log(2) as a number of few bits, whose products with whole numbers are exact, and the rest.
_LN2 = np.log(2.0)
_LN2_HIGH_DOUBLE = 0.6931471803691238
_LN2_LOW_DOUBLE = 1.9082149292705877e-10
_LN2_HIGH_SINGLE = 0.693359375
_LN2_LOW_SINGLE = -2.1219444e-4


def ln2_parts(x: Expr) -> tuple[float, float]:
    """log(2) as a sum; the product of its first term and an exponent is exact."""
    return by_dtype(x, (_LN2_HIGH_SINGLE, _LN2_LOW_SINGLE), (_LN2_HIGH_DOUBLE, _LN2_LOW_DOUBLE))


def nearest(x: Expr) -> tuple[Expr, Expr]:
    """The whole number nearest to x, as a float and as an integer.

    For |x| < 2**22 in float32 and |x| < 2**51 in float64.

    Adding 1.5 * 2**23 (2**52) leaves it in the lowest bits. Defined, unlike a conversion, for NaN.
    """
    magic = by_dtype(x, 1.5 * 2.0**23, 1.5 * 2.0**52)
    shifted = opaque(x + magic)
    integer = np.dtype(f"i{x.dtype.itemsize}")
    bits = int(np.asarray(magic, x.dtype).view(integer))
    return shifted - magic, shifted.bits(integer) - bits


def scaled(x: Expr, k: Expr) -> Expr:
    """x * 2**k, in two steps, since 2**k itself may overflow."""
    half = k >> 1
    return x * power_of_two(half, x.dtype) * power_of_two(k - half, x.dtype)


def _reduced(x: Expr) -> tuple[Expr, Expr]:
    """k and r = x - k log(2), |r| <= log(2) / 2, for x within the range of exp."""
    high, low = ln2_parts(x)
    k, integer = nearest(x * float(1 / _LN2))
    return (x - k * high) - k * low, integer


def _exp_reduced_less_one(r: Expr) -> Expr:
    """exp(r) - 1 for |r| <= log(2) / 2."""
    return r + r * r * polynomial(r, by_dtype(r, _EXP_SINGLE, _EXP_DOUBLE))


def _clamped(x: Expr) -> Expr:
    """x within bounds where exp already overflows or vanishes."""
    low, high = by_dtype(x, (-104.0, 89.0), (-746.0, 710.0))
    return x.max(low).min(high)


def exp(x: Expr) -> Expr:
    """e**x."""
    r, k = _reduced(_clamped(x))
    return scaled(_exp_reduced_less_one(r) + 1.0, k)


def exp_of_sum(x: Expr, low: Expr) -> Expr:
    """e**(x + low) for a small correction `low`, to the last place or so."""
    r, k = _reduced(_clamped(x))
    # Where x is beyond the range of exp its correction may be great, and does not matter.
    low = low.max(-1e-3).min(1e-3)
    p = _exp_reduced_less_one(r)
    return scaled((p + (low + low * p)) + 1.0, k)


def exp2(x: Expr) -> Expr:
    """2**x."""
    low, high = by_dtype(x, (-151.0, 129.0), (-1076.0, 1025.0))
    inside = x.max(low).min(high)
    whole, k = nearest(inside)
    return scaled(_exp_reduced_less_one((inside - whole) * _LN2) + 1.0, k)


def expm1(x: Expr) -> Expr:
    """e**x - 1."""
    low, high, tiny, large = by_dtype(x, (-20.0, 89.0, 1e-30, 120), (-40.0, 710.0, 1e-300, 1000))
    r, k = _reduced(x.max(low).min(high))
    p = _exp_reduced_less_one(r)
    # 2**k p + (2**k - 1), halved where 2**k overflows.
    top = k > large
    power = power_of_two(where(top, k - 1, k), x.dtype)
    total = power * p + (power - where(top, 0.5, x.like(1.0)))
    total = where(top, total + total, total)
    return where(abs(x) < tiny, x, total)


def log(x: Expr) -> Expr:
    """The natural logarithm."""
    if x.dtype == np.float32 and x.ctx.target.exact_sums:
        return x.unary("log")
    k, f = exponent_and_fraction(x)
    half_square = 0.5 * f * f
    s = f / (f + 2.0)
    z = s * s
    series = z * polynomial(z, by_dtype(x, LOG_SINGLE, LOG_DOUBLE))
    high, low = ln2_parts(x)
    value = k * high - ((half_square - (s * (half_square + series) + k * low)) - f)
    return _log_domain(x, value)


def _log_domain(x: Expr, value: Expr) -> Expr:
    """`value` with a logarithm's results outside the finite positive numbers."""
    least = least_normal(x)
    outside = where(abs(x) < least, -np.inf, where(x < 0.0, np.nan, x))
    return where((x >= least) & (x < np.inf), value, outside)


def exponent_and_fraction(x: Expr) -> tuple[Expr, Expr]:
    """k and f with x = 2**k (1 + f) and sqrt(1/2) <= 1 + f < sqrt(2), for normal positive x."""
    stored = by_dtype(x, 23, 52)
    integer = np.dtype(f"i{x.dtype.itemsize}")
    root = int(np.asarray(np.sqrt(0.5), x.dtype).view(integer))
    bits = x.bits(integer)
    # With the root's bits taken away the exponent field counts from the root on.
    k = (bits - root) >> stored
    mantissa = (bits - (k << stored)).bits(x.dtype)
    return k.to(x.dtype), mantissa - 1.0


def log1p(x: Expr) -> Expr:
    """log(1 + x): the logarithm of the rounded sum, corrected for its rounding."""
    u = opaque(x + 1.0)
    value = log(u) + (x - (u - 1.0)) / u
    value = where(u.eq(1.0), x, value)
    return where((x > -1.0) & (x < np.inf), value, log(u))


def logistic(x: Expr) -> Expr:
    """1 / (1 + e**-x)."""
    if x.dtype == np.float32 and x.ctx.target.exact_sums:
        return x.unary("logistic")
    return 1.0 / (exp(-x) + 1.0)
