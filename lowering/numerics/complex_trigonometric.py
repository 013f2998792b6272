"""Complex trigonometric and hyperbolic functions and their inverses.

The principal branches of ISO C99, Annex G. A complex number is a pair (real part, imaginary part).
"""

from __future__ import annotations

import numpy as np

from xpr.lowering.numerics import exponential, hyperbolic
from xpr.lowering.numerics.complex_arithmetic import (
    Parts,
    divide,
    is_finite,
    is_infinite,
    log,
    multiply,
    sqrt,
)
from xpr.lowering.numerics.expr import Expr, by_dtype, where
from xpr.lowering.numerics.inverse_trigonometric import asin as real_asin
from xpr.lowering.numerics.inverse_trigonometric import atan2
from xpr.lowering.numerics.power import hypot
from xpr.lowering.numerics.trigonometric import sin_cos

_LN2 = float(np.log(2.0))


def _hyperbolic_factors(x: Expr) -> tuple[Expr, Expr, Expr]:
    """sinh(x), cosh(x) and a further factor of both, which keeps them finite for large x."""
    limit = by_dtype(x, 80.0, 700.0)
    large = abs(x) > limit
    inside = x.max(-limit).min(limit)
    root = exponential.exp(0.5 * abs(x))
    half = 0.5 * root
    s = where(large, half.copysign(x), hyperbolic.sinh(inside))
    c = where(large, half, hyperbolic.cosh(inside))
    return s, c, where(large, root, 1.0)


def sinh(z: Parts) -> Parts:
    """The hyperbolic sine, sinh(x) cos(y) + i cosh(x) sin(y)."""
    x, y = z
    s, c = sin_cos(y)
    sh, ch, factor = _hyperbolic_factors(x)
    re, im = (sh * c) * factor, (ch * s) * factor
    # Zero parts stay zero where the other factor is infinite or NaN.
    re = where(x.eq(0.0) & ~is_finite(y), x, re)
    re = where(is_infinite(x) & ~is_finite(y), np.inf, re)
    return where(y.eq(0.0), sh * factor, re), where(y.eq(0.0), y, im)


def cosh(z: Parts) -> Parts:
    """The hyperbolic cosine, cosh(x) cos(y) + i sinh(x) sin(y)."""
    x, y = z
    s, c = sin_cos(y)
    sh, ch, factor = _hyperbolic_factors(x)
    re, im = (ch * c) * factor, (sh * s) * factor
    zero = where(x.is_nan(), 0.0, x.like(1.0).copysign(x)) * (y * 0.0)
    im = where(y.eq(0.0), where(x.is_nan(), y, zero.copysign(_sign_product(x, y))), im)
    im = where(x.eq(0.0), where(is_finite(y), _sign_product(x, s) * 0.0, 0.0), im)
    re = where(is_infinite(x) & ~is_finite(y), np.inf, re)
    return where(y.eq(0.0), ch * factor, re), im


def _sign_product(x: Expr, y: Expr) -> Expr:
    """1 with the sign of x * y."""
    one = x.like(1.0)
    return one.copysign(x) * one.copysign(y)


def tanh(z: Parts) -> Parts:
    """The hyperbolic tangent, (sinh(x) cosh(x) + i sin(y) cos(y)) / (sinh(x)**2 + cos(y)**2)."""
    x, y = z
    limit = by_dtype(x, 11.0, 22.0)
    inside = x.max(-limit).min(limit)
    s, c = sin_cos(y)
    sh, ch = hyperbolic.sinh(inside), hyperbolic.cosh(inside)
    bottom = sh * sh + c * c
    re, im = (sh * ch) / bottom, (s * c) / bottom
    large = abs(x) > limit
    tiny = 4.0 * (s * c) * exponential.exp(-2.0 * abs(x))
    one = x.like(1.0).copysign(x)
    known = large & (is_finite(y) | is_infinite(x))
    re, im = where(known, one, re), where(large, tiny, im)
    # Far out the angle does not matter; the sign of the vanishing part is that of sin(2y).
    im = where(is_infinite(x), where(is_finite(y), 0.0 * (s * c), x.like(0.0).copysign(y)), im)
    re = where(x.eq(0.0) & ~is_finite(y), x, re)
    return re, where(y.eq(0.0), y, im)


def sin(z: Parts) -> Parts:
    """The sine, -i sinh(iz)."""
    re, im = sinh((-z[1], z[0]))
    return im, -re


def cos(z: Parts) -> Parts:
    """The cosine, cosh(iz)."""
    return cosh((-z[1], z[0]))


def tan(z: Parts) -> Parts:
    """The tangent, -i tanh(iz)."""
    re, im = tanh((-z[1], z[0]))
    return im, -re


def _asin_acos_parts(x: Expr, y: Expr) -> tuple[Expr, Expr, Expr]:
    """For x, y >= 0: the real parts of asin and acos, and the imaginary part of asin.

    The algorithm of Hull, Fairgrieve and Tang, "Implementing the Complex Arcsine and Arccosine
    Functions Using Exception Handling", ACM Transactions on Mathematical Software 23 (1997).
    """
    one = x.like(1.0)
    huge_bound, tiny_bound = by_dtype(x, (1e9, 1e-14), (1e18, 1e-120))
    huge = x.max(y) > huge_bound
    sx, sy = where(huge, 1.0, x), where(huge, 1.0, y)
    r, s = hypot(sx + 1.0, sy), hypot(sx - 1.0, sy)
    a = 0.5 * (r + s)
    beyond = sx > 1.0
    square = sy * sy
    right = square / (r + (sx + 1.0))
    left = where(beyond, s + (sx - 1.0), s + (1.0 - sx))
    quotient = square / where(left.eq(0.0), 1.0, left)
    # a - x and a - 1, without cancellation.
    a_less_x = 0.5 * (right + where(beyond, quotient, left))
    a_less_one = 0.5 * (right + where(beyond, left, quotient))
    opposite = ((a + sx) * a_less_x).sqrt()
    imag_near = exponential.log1p(a_less_one + (a_less_one * (a + 1.0)).sqrt())
    imag_far = exponential.log(a + ((a - 1.0) * (a + 1.0)).sqrt())
    imag = where(a < 1.5, imag_near, imag_far)
    # With y so small that its square vanishes, the squares above are no use.
    tiny = sy < tiny_bound
    gap = (abs(sx - 1.0) * (sx + 1.0)).sqrt()
    at_one = sx.eq(1.0)
    tiny_opposite = where(beyond, sy * sx / where(gap.eq(0.0), 1.0, gap), gap)
    tiny_opposite = where(at_one, sy.sqrt(), tiny_opposite)
    flat = exponential.log1p((sx - 1.0).max(0.0) + where(beyond, gap, 0.0))
    tiny_imag = where(beyond, flat, sy / where(gap.eq(0.0), 1.0, gap))
    tiny_imag = where(at_one, sy.sqrt(), tiny_imag)
    opposite, imag = where(tiny, tiny_opposite, opposite), where(tiny, tiny_imag, imag)
    asin_real = where(sx <= 0.5 * a, real_asin((sx / a).min(one)), atan2(sx, opposite))
    acos_real = atan2(opposite, sx)
    # log(2 |z|), for numbers beside which 1 vanishes.
    modulus = hypot(0.5 * x, 0.5 * y)
    far_imag = exponential.log(modulus) + 2.0 * _LN2
    return (
        where(huge, atan2(x, y), asin_real),
        where(huge, atan2(y, x), acos_real),
        where(huge, far_imag, imag),
    )


def asin(z: Parts) -> Parts:
    """The arc sine."""
    x, y = z
    angle, _, imag = _asin_acos_parts(abs(x), abs(y))
    angle = where(x.eq(0.0), 0.0, angle)
    return _known(x, y, angle.copysign(x), imag.copysign(y))


def acos(z: Parts) -> Parts:
    """The arc cosine."""
    x, y = z
    _, angle, imag = _asin_acos_parts(abs(x), abs(y))
    pi = float(np.asarray(np.pi, x.dtype))
    rest = by_dtype(x, -8.742278e-08, 1.2246467991473532e-16)
    angle = where(x.sign_bit(), (pi - angle) + rest, angle)
    re, im = _known(x, y, angle, imag)
    half_pi = where(x.eq(0.0) & y.is_nan(), np.pi / 2, re)
    return half_pi, -(im.copysign(y))


def _known(x: Expr, y: Expr, angle: Expr, imag: Expr) -> Parts:
    """Asin's parts where an operand is NaN: an infinite part beside it still is infinite."""
    nan = x.is_nan() | y.is_nan()
    infinite = is_infinite(x) | is_infinite(y)
    unknown = where(x.eq(0.0), angle, x.like(np.nan))
    return where(nan, unknown, angle), where(nan, where(infinite, np.inf, x.like(np.nan)), imag)


def asinh(z: Parts) -> Parts:
    """The inverse hyperbolic sine, i asin(-iz)."""
    re, im = asin((z[1], -z[0]))
    return -im, re


def acosh(z: Parts) -> Parts:
    """The inverse hyperbolic cosine, acos(z) rotated into the right half plane."""
    re, im = acos(z)
    return abs(im), re.copysign(z[1])


def atanh(z: Parts) -> Parts:
    """The inverse hyperbolic tangent (Kahan 1987), odd in both parts."""
    x, y = z
    ax, ay = abs(x), abs(y)
    bound, close = by_dtype(x, (1e9, 1e-2), (1e18, 1e-2))
    huge = ax.max(ay) > bound
    sx, sy = where(huge, 0.5, ax), where(huge, 0.5, ay)
    gap = hypot(1.0 - sx, sy)
    ratio = 4.0 * sx / (gap * gap)
    at_pole = gap < close
    near = 0.25 * exponential.log1p(where(at_pole, 1.0, ratio))
    pole = 0.5 * (exponential.log(hypot(sx + 1.0, sy)) - exponential.log(gap))
    modulus = hypot(ax, ay)
    far = where(is_infinite(modulus), 0.0, (ax / modulus) / modulus)
    re = where(huge, far, where(at_pole, pole, near))
    cross = (1.0 - sx) * (1.0 + sx) - sy * sy
    im = 0.5 * atan2(2.0 * sy, cross)
    half_pi = float(np.asarray(np.pi / 2, x.dtype))
    im = where(huge, half_pi, im)
    nan = x.is_nan() | y.is_nan()
    infinite = is_infinite(x) | is_infinite(y)
    re = where(nan, where(infinite | x.eq(0.0), 0.0, x.like(np.nan)), re)
    im = where(nan, where(is_infinite(y), half_pi, x.like(np.nan)), im)
    return re.copysign(x), im.copysign(y)


def atan(z: Parts) -> Parts:
    """The arc tangent, -i atanh(iz)."""
    re, im = atanh((-z[1], z[0]))
    return im, -re


def complex_atan2(y: Parts, x: Parts) -> Parts:
    """-i log((x + iy) / sqrt(x**2 + y**2)) for complex x and y."""
    (yr, yi), (xr, xi) = y, x
    xx, yy = multiply(x, x), multiply(y, y)
    root = sqrt((xx[0] + yy[0], xx[1] + yy[1]))
    re, im = log(divide((xr - yi, xi + yr), root))
    return im, -re
