"""Inverse trigonometric functions of float32 and float64.

Ranges are reduced as in Cody and Waite's Software Manual for the Elementary Functions (1980).
Polynomials are near-minimax, from Chebyshev interpolation in 60 digits.
"""

from __future__ import annotations

import numpy as np

from xpr.lowering.numerics.expr import Expr, by_dtype, polynomial, where

# (atan(t) / t - 1) / t**2 in t**2 on |t| <= tan(pi / 8), error 1.2e-18 and 1.6e-8.
_ATAN_DOUBLE = (
    -0.3333333333333333,
    0.19999999999999804,
    -0.14285714285659779,
    0.11111111105150588,
    -0.09090908753259112,
    0.07692296368042296,
    -0.0666642476020052,
    0.05878927554473807,
    -0.05230443640686948,
    0.045515447340221615,
    -0.03456931506332609,
    0.016284375050043393,
)
_ATAN_SINGLE = (-0.3333333, 0.1999954, -0.1426395, 0.10743669, -0.064517185)

# (asin(t) / t - 1) / t**2 in t**2 on |t| <= 1/2, error 1.5e-17 and 4.2e-9.
_ASIN_DOUBLE = (
    0.16666666666666669,
    0.07499999999998433,
    0.04464285714635543,
    0.030381944138531247,
    0.02237217294214989,
    0.017352392720869973,
    0.013971212973552933,
    0.011479177415184906,
    0.01032281435018578,
    0.005457506718640358,
    0.01740087944269402,
    -0.014851887071247204,
    0.028757851367421566,
)
_ASIN_SINGLE = (0.16666666, 0.07500094, 0.044599403, 0.031100662, 0.017149238, 0.033690847)

_TAN_PI_8 = float(np.tan(np.pi / 8))
# What pi / 2 rounded to float32 and float64 leaves over.
_HALF_PI_REST = (-4.371139e-08, 6.123233995736766e-17)


def _half_pi(x: Expr) -> tuple[float, float]:
    """pi / 2 as a sum of two numbers of the dtype of x."""
    return float(np.asarray(np.pi / 2, x.dtype)), by_dtype(x, *_HALF_PI_REST)


def _atan_of_ratio(numerator: Expr, denominator: Expr) -> Expr:
    """atan(n / d) for 0 <= n <= d, d > 0: above tan(pi/8), pi/4 and the angle beyond it."""
    upper = numerator > denominator * _TAN_PI_8
    top = where(upper, numerator - denominator, numerator)
    bottom = where(upper, numerator + denominator, denominator)
    t = top / bottom
    z = t * t
    angle = t + t * (z * polynomial(z, by_dtype(t, _ATAN_SINGLE, _ATAN_DOUBLE)))
    high, low = _half_pi(t)
    return where(upper, (angle + low / 2) + high / 2, angle)


def atan(x: Expr) -> Expr:
    """The arc tangent."""
    size = abs(x)
    large = size > 1.0
    finite = size.min(by_dtype(x, 1e30, 1e300))
    one = x.like(1.0)
    angle = _atan_of_ratio(where(large, one, finite), where(large, finite, one))
    high, low = _half_pi(x)
    angle = where(large, (high - angle) + low, angle)
    return angle.copysign(x)


def atan2(y: Expr, x: Expr) -> Expr:
    """The angle of the point (x, y), with C's results for zeros and infinities."""
    # Smaller numbers keep the sum in the ratio finite; an infinity counts as 1 beside numbers.
    greater = abs(x).max(abs(y))
    scale = where(greater > by_dtype(x, 1e38, 1e308), 0.25, x.like(1.0))
    infinite = greater.eq(np.inf)
    ay, ax = (
        where(infinite, where(abs(v).eq(np.inf), 1.0, v.like(0.0)), abs(v) * scale) for v in (y, x)
    )
    steep = ay > ax
    numerator, denominator = where(steep, ax, ay), where(steep, ay, ax)
    nothing = denominator.eq(0.0)
    angle = _atan_of_ratio(numerator, where(nothing, 1.0, denominator))
    high, low = _half_pi(x)
    angle = where(steep, (high - angle) + low, angle)
    angle = where(x.sign_bit(), (2 * high - angle) + 2 * low, angle)
    return where(x.is_nan() | y.is_nan(), np.nan, angle.copysign(y))


def _asin_core(z: Expr) -> Expr:
    """asin(t) / t - 1 for z = t**2 <= 1/4."""
    return z * polynomial(z, by_dtype(z, _ASIN_SINGLE, _ASIN_DOUBLE))


def _halved_angle(size: Expr) -> tuple[Expr, Expr, Expr]:
    """Whether |x| > 1/2, the square to expand in and its root: of x, or of sqrt((1 - |x|) / 2)."""
    large = size > 0.5
    z = where(large, 0.5 - 0.5 * size, size * size)
    return large, z, where(large, z.sqrt(), size)


def asin(x: Expr) -> Expr:
    """The arc sine; NaN for |x| > 1."""
    large, z, root = _halved_angle(abs(x))
    series = root * _asin_core(z)
    high, low = _half_pi(x)
    angle = where(large, high - ((2.0 * series - low) + 2.0 * root), root + series)
    return angle.copysign(x)


def acos(x: Expr) -> Expr:
    """The arc cosine; NaN for |x| > 1."""
    large, z, root = _halved_angle(abs(x))
    series = root * _asin_core(z)
    negative = x.sign_bit()
    high, low = _half_pi(x)
    double = 2.0 * (root + series)
    far = where(negative, (2 * high - double) + 2 * low, double)
    signed = where(negative, -series, series)
    near = high - (x + (signed - low))
    return where(large, far, near)
