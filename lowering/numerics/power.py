"""Powers, cube roots and hypotenuses of float32 and float64."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from xpr.lowering.numerics.exponential import (
    exp_of_sum,
    exponent_and_fraction,
    ln2_parts,
)
from xpr.lowering.numerics.expr import (
    Expr,
    by_dtype,
    exact_product,
    fast_sum,
    least_normal,
    polynomial,
    power_of_two,
    where,
)

# (2 atanh(s) - 2 s - 2/3 s**3) / s**5 in s**2 on |s| <= 3 - 2 sqrt(2), error 2.8e-16 and 1.5e-7.
_TAIL_DOUBLE = (
    0.40000000000000024,
    0.2857142857133856,
    0.2222222227107745,
    0.18181808251607398,
    0.1538557450045883,
    0.13285967273890614,
    0.1291349306680315,
)
_TAIL_SINGLE = (0.40000015, 0.2856224, 0.23048154)

# The cube root on [1/2, 1], error 1.3e-6.
_CUBE_ROOT = (
    0.37712437321255043,
    1.3203099421465034,
    -1.461354191385334,
    1.2486801266159304,
    -0.6136044246352457,
    0.12884498312209705,
)


def _log_in_two_parts(x: Expr) -> tuple[Expr, Expr]:
    """log(x) of a normal positive x as a sum, to some ten bits more than the dtype has.

    With x = 2**k m and s = (m - 1) / (m + 1) it is k log(2) + 2s + 2/3 s**3 + ...; the first three
    terms are computed in doubled precision, the rest is smaller by s**4 < 2**-10.
    """
    k, f = exponent_and_fraction(x)
    bottom, bottom_low = fast_sum(x.like(2.0), f)
    inverse = 1.0 / bottom
    s = f * inverse
    product, error = exact_product(s, bottom)
    s_low = (((f - product) - error) - s * bottom_low) * inverse
    z, z_low = exact_product(s, s)
    z_low = z_low + 2.0 * (s * s_low)
    cube, cube_low = exact_product(s, z)
    cube_low = cube_low + (s * z_low + s_low * z)
    two_thirds = float(np.asarray(2.0 / 3.0, x.dtype))
    rest = by_dtype(x, -1.98682149e-08, 3.700743415417188e-17)
    third, third_low = exact_product(cube, x.like(two_thirds))
    third_low = third_low + (cube * rest + cube_low * two_thirds)
    tail = cube * (z * polynomial(z, by_dtype(x, _TAIL_SINGLE, _TAIL_DOUBLE)))
    high, low = fast_sum(2.0 * s, third)
    low = low + (third_low + 2.0 * s_low + tail)
    ln2_high, ln2_low = ln2_parts(x)
    total, carried = fast_sum(k * ln2_high, high)
    return fast_sum(total, carried + (low + k * ln2_low))


def pow_with_parity(x: Expr, y: Expr, odd: Expr) -> Expr:
    """x**y with the special values of IEEE 754-2019, section 9.2.1.

    exp(y log(x)) with the logarithm and the product in doubled precision. `odd` says whether y is
    an odd whole number.
    """
    size = abs(x)
    normal = (size >= least_normal(x)) & (size < np.inf)
    high, low = _log_in_two_parts(where(normal, size, 1.0))
    # Beyond this bound every power overflows or vanishes, if the logarithm is not 0.
    bound = by_dtype(x, 1e12, 1e25)
    bounded = y.max(-bound).min(bound)
    product, rest = exact_product(bounded, high)
    value = exp_of_sum(product, rest + bounded * low)
    grows = (size > 1.0).eq(y > 0.0)
    value = where(normal, value, where(grows, np.inf, x.like(0.0)))
    value = where(odd & x.sign_bit(), -value, value)
    undefined = (x < 0.0) & (x > -np.inf) & y.floor().ne(y)
    value = where(undefined | x.is_nan() | y.is_nan(), np.nan, value)
    return where(y.eq(0.0) | x.eq(1.0), 1.0, value)


def pow(x: Expr, y: Expr) -> Expr:
    """x**y with the special values of IEEE 754-2019, section 9.2.1."""
    half = 0.5 * y
    return pow_with_parity(x, y, y.floor().eq(y) & half.floor().ne(half))


def _third(dtype: np.dtype[Any]) -> float:
    return float(np.asarray(1.0 / 3.0, dtype))


def is_root(y: float, dtype: np.dtype[Any]) -> bool:
    """Whether roots are enough to compute x**y, some times faster and to about as many bits.

    The greatest errors found were 0.79, 0.5, 1.15, 1.23 and 1.41 ulp.
    """
    return y in (0.25, 0.5, 1.5, _third(dtype), -0.5)


def pow_by_root(x: Expr, y: float) -> Expr:
    """x**y for an exponent of which `is_root` holds."""
    size = abs(x)
    normal = (size >= least_normal(x)) & (size < np.inf)
    if y == 0.25:
        value = size.sqrt().sqrt()
    elif abs(y) == 0.5:
        value = size.sqrt()
    elif y == 1.5:
        value = size * size.sqrt()
    else:
        value = cbrt(size)
        # The exponent is not quite a third: what is left of it is so small that the logarithm to
        # base 2 need only be known to its whole part.
        rest = float(Fraction(y) - Fraction(1, 3)) * math.log(2.0)
        whole, _ = exponent_and_fraction(size)
        value = where(normal, value + value * (whole * rest), value)
    if y < 0.0:
        value = 1.0 / value
    return where((x < 0.0) & normal, np.nan, value)


def cbrt(x: Expr) -> Expr:
    """The real cube root: an estimate to 20 bits, and one step of Halley's method."""
    stored, bias = by_dtype(x, (23, 126), (52, 1022))
    integer = np.dtype(f"i{x.dtype.itemsize}")
    size = abs(x)
    bits = size.bits(integer)
    # size = m 2**(3 third + left) with m in [1/2, 1); the exponent, made positive, divided by 3.
    exponent = (bits >> stored) - bias
    third = (((exponent + 1074) * 0x5556) >> 16) - 358
    left = exponent - third * 3
    mantissa = (bits - (exponent << stored)).bits(x.dtype)
    root = polynomial(mantissa, _CUBE_ROOT)
    root = where(left > 0, where(left > 1, root * 4 ** (1 / 3), root * 2 ** (1 / 3)), root)
    scaled_down = mantissa * power_of_two(left, x.dtype)
    cube = root * root * root
    root = root - root * ((cube - scaled_down) / (2.0 * cube + scaled_down))
    value = (root * power_of_two(third, x.dtype)).copysign(x)
    nothing = x.like(0.0).copysign(x)
    return where(size < least_normal(x), nothing, where(size < np.inf, value, x))


def hypot(x: Expr, y: Expr) -> Expr:
    """sqrt(x**2 + y**2) without overflow; infinite if either operand is."""
    ax, ay = abs(x), abs(y)
    great, small = ax.max(ay), ax.min(ay)
    high, low, up, down = by_dtype(
        x, (2.0**60, 2.0**-40, 2.0**80, 2.0**-80), (2.0**500, 2.0**-450, 2.0**600, 2.0**-600)
    )
    is_high, is_low = great > high, great < low
    factor = where(is_high, down, where(is_low, up, x.like(1.0)))
    back = where(is_high, up, where(is_low, down, x.like(1.0)))
    great, small = great * factor, small * factor
    value = (great * great + small * small).sqrt() * back
    return where(ax.eq(np.inf) | ay.eq(np.inf), np.inf, value)
