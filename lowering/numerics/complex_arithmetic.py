"""Complex division, roots, exponentials and logarithms by arithmetic on real and imaginary parts.

IREE's own complex functions overflow early, lose the branch cuts' signed zeros, or do not exist.
Special values follow ISO C99, Annex G. A complex number is a pair (real part, imaginary part).
"""

from __future__ import annotations

import numpy as np

from xpr.lowering.numerics import exponential as real
from xpr.lowering.numerics.expr import (
    Expr,
    by_dtype,
    exact_product,
    exact_sum,
    least_normal,
    power_of_two,
    where,
)
from xpr.lowering.numerics.inverse_trigonometric import atan2
from xpr.lowering.numerics.power import hypot
from xpr.lowering.numerics.trigonometric import sin_cos

Parts = tuple[Expr, Expr]

_LN2 = float(np.log(2.0))


def is_infinite(x: Expr) -> Expr:
    """Whether it is plus or minus infinity."""
    return abs(x).eq(np.inf)


def is_finite(x: Expr) -> Expr:
    """Whether it is neither infinite nor NaN."""
    return abs(x) < np.inf


def multiply(z: Parts, w: Parts) -> Parts:
    """z * w by the schoolbook formula."""
    (a, b), (c, d) = z, w
    return a * c - b * d, a * d + b * c


def _exponent_to_one(size: Expr) -> Expr:
    """The power of two that brings `size` near 1: an integer k; 0 for zeros and infinities."""
    stored, bias = by_dtype(size, (23, 127), (52, 1023))
    k = bias - (size.bits(np.dtype(f"i{size.dtype.itemsize}")) >> stored)
    usable = (size >= least_normal(size)) & (size < np.inf)
    # The greatest numbers' factor would be denormal; halving them less does no harm.
    return where(usable, k.max(1 - bias + 1), 0)


def divide(z: Parts, w: Parts) -> Parts:
    """z / w: both scaled to a size near 1, then as C99 (Annex G.5.1) recovers infinities."""
    (a, b), (c, d) = z, w
    up = _exponent_to_one(abs(a).max(abs(b)))
    down = _exponent_to_one(abs(c).max(abs(d)))
    a1, b1 = (v * power_of_two(up, v.dtype) for v in (a, b))
    c1, d1 = (v * power_of_two(down, v.dtype) for v in (c, d))
    square = c1 * c1 + d1 * d1
    x, y = (a1 * c1 + b1 * d1) / square, (b1 * c1 - a1 * d1) / square
    bound = by_dtype(a, 250, 2040)
    k = (down - up).max(-bound).min(bound)
    x, y = real.scaled(x, k), real.scaled(y, k)

    failed = x.is_nan() & y.is_nan()
    by_zero = failed & square.eq(0.0) & ~(a.is_nan() & b.is_nan())
    infinity = a.like(np.inf).copysign(c)
    # Zeros become NaN here: a driver's compiler takes the product of a constant zero for zero.
    ka, kb = (where(v.eq(0.0), np.nan, v) for v in z)
    x, y = where(by_zero, infinity * ka, x), where(by_zero, infinity * kb, y)

    def unit(v: Expr) -> Expr:
        return where(is_infinite(v), 1.0, v.like(0.0)).copysign(v)

    failed = failed & ~by_zero
    grows = failed & (is_infinite(a) | is_infinite(b)) & is_finite(c) & is_finite(d)
    ua, ub = unit(a), unit(b)
    x = where(grows, np.inf * (ua * c + ub * d), x)
    y = where(grows, np.inf * (ub * c - ua * d), y)
    vanishes = failed & (is_infinite(c) | is_infinite(d)) & is_finite(a) & is_finite(b)
    # The sums of two halves are finite.
    uc, ud = 0.5 * unit(c), 0.5 * unit(d)
    x = where(vanishes, 0.0 * (a * uc + b * ud), x)
    return x, where(vanishes, 0.0 * (b * uc - a * ud), y)


def absolute(z: Parts) -> Expr:
    """The modulus."""
    return hypot(*z)


def sign(z: Parts) -> Parts:
    """z / |z|, and 0 for 0."""
    size = hypot(*z)
    size = where(size.eq(0.0), 1.0, size)
    return z[0] / size, z[1] / size


def sqrt(z: Parts) -> Parts:
    """The principal square root (Kahan, "Branch Cuts for Complex Elementary Functions", 1987)."""
    x, y = z
    ax, ay = abs(x), abs(y)
    greater = ax.max(ay)
    high, low, up, down = by_dtype(
        x, (2.0**120, 2.0**-80, 2.0**60, 2.0**-10), (2.0**1000, 2.0**-900, 2.0**200, 2.0**-10)
    )
    is_high, is_low = greater > high, greater < low
    factor = where(is_high, down, where(is_low, up, x.like(1.0)))
    back = where(is_high, down**-0.5, where(is_low, up**-0.5, x.like(1.0)))
    sx, sy = ax * factor, ay * factor
    root = (0.5 * (sx + hypot(sx, sy))).sqrt()
    other = sy / (2.0 * where(root.eq(0.0), 1.0, root))
    root, other = root * back, other * back
    left = x.sign_bit()
    re, im = where(left, other, root), where(left, root, other)
    # An infinite part decides: infinite y gives inf + iy, infinite x one infinity and one zero.
    re = where(is_infinite(x), where(left, where(y.is_nan(), np.nan, x.like(0.0)), np.inf), re)
    im = where(is_infinite(x), where(left, np.inf, where(y.is_nan(), np.nan, x.like(0.0))), im)
    re, im = where(is_infinite(y), np.inf, re), where(is_infinite(y), np.inf, im)
    return re, im.copysign(y)


def reciprocal_sqrt(z: Parts) -> Parts:
    """1 / sqrt(z)."""
    one = z[0].like(1.0)
    return divide((one, z[0].like(0.0)), sqrt(z))


def exp(z: Parts) -> Parts:
    """e**z."""
    x, y = z
    s, c = sin_cos(y)
    # In two factors, where e**x overflows and its product with a small cosine does not.
    limit = by_dtype(x, 88.0, 709.0)
    large = x > limit
    first = real.exp(where(large, 0.5 * x, x))
    second = where(large, first, 1.0)
    re, im = (first * c) * second, (first * s) * second
    # A limit of 0 does not depend on the direction.
    vanishes = x.eq(-np.inf) & ~is_finite(y)
    re, im = where(vanishes, 0.0, re), where(vanishes, 0.0, im)
    re = where(x.eq(np.inf) & ~is_finite(y), np.inf, re)
    return where(y.eq(0.0), real.exp(x), re), where(y.eq(0.0), y, im)


def exp2(z: Parts) -> Parts:
    """2**z, as accurate as the rounded product z log(2) lets it be."""
    return exp((z[0] * _LN2, z[1] * _LN2))


def expm1(z: Parts) -> Parts:
    """e**z - 1, its real part from expm1(x) cos(y) - 2 sin(y / 2)**2."""
    x, y = z
    re, im = exp(z)
    _, c = sin_cos(y)
    half, _ = sin_cos(0.5 * y)
    limit = by_dtype(x, 20.0, 40.0)
    near = real.expm1(x.min(limit)) * c - 2.0 * (half * half)
    near = where(x.eq(-np.inf), -1.0, near)
    return where(x < limit, where(y.eq(0.0), real.expm1(x), near), re), im


def log(z: Parts) -> Parts:
    """The principal logarithm."""
    return log_absolute(*z), atan2(z[1], z[0])


def log_absolute(x: Expr, y: Expr) -> Expr:
    """log|x + iy|, accurate where the modulus is near 1 too."""
    ax, ay = abs(x), abs(y)
    great, small = ax.max(ay), ax.min(ay)
    near = (great > 0.5) & (great < 2.0)
    # great**2 + small**2 - 1, whose leading terms cancel exactly.
    close = 0.5 * real.log1p(_square_sum_less_one(where(near, great, 1.0), where(near, small, 0.0)))
    high = by_dtype(x, 1e37, 1e307)
    huge = great > high
    far = real.log(hypot(where(huge, 0.25 * x, x), where(huge, 0.25 * y, y)))
    return where(near, close, where(huge, far + 2.0 * _LN2, far))


def _square_sum_less_one(x: Expr, y: Expr) -> Expr:
    """x**2 + y**2 - 1 in doubled precision, for 1/2 < x < 2 and 0 <= y <= x."""
    square, low = exact_product(x, x)
    other, other_low = exact_product(y, y)
    first, first_low = exact_sum(square, x.like(-1.0))
    total, total_low = exact_sum(first, other)
    return total + (total_low + (first_low + (low + other_low)))


def log1p(z: Parts) -> Parts:
    """log(1 + z)."""
    x, y = z
    # For x near -1 the sum 1 + x is exact, and its logarithm needs no care.
    small = (abs(x).max(abs(y)) < 1.0) & (x > -0.5)
    sx, sy = where(small, x, 0.0), where(small, y, 0.0)
    # |1 + z|**2 - 1 = 2x + x**2 + y**2 in doubled precision.
    square, low = exact_product(sx, sx)
    other, other_low = exact_product(sy, sy)
    total, total_low = exact_sum(square, other)
    total, more_low = exact_sum(2.0 * sx, total)
    near = 0.5 * real.log1p(total + (more_low + (total_low + (low + other_low))))
    u = x + 1.0
    return where(small, near, log_absolute(u, y)), atan2(y, u)


def logistic(z: Parts) -> Parts:
    """1 / (1 + e**-z)."""
    re, im = exp((-z[0], -z[1]))
    return divide((re.like(1.0), re.like(0.0)), (re + 1.0, im))


def power(z: Parts, w: Parts) -> Parts:
    """z**w = exp(w log(z)), and 1 for w = 0; 0**w is 0 for a positive real part of w."""
    (x, y), (u, v) = z, w
    result = exp(multiply(w, log(z)))
    base_zero, exponent_zero = x.eq(0.0) & y.eq(0.0), u.eq(0.0) & v.eq(0.0)
    at_zero = where(u > 0.0, 0.0, u.like(np.nan))
    re = where(base_zero, at_zero, result[0])
    im = where(base_zero, at_zero, result[1])
    return where(exponent_zero, 1.0, re), where(exponent_zero, 0.0, im)
