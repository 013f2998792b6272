"""The logarithm of the gamma function and its derivative, for float32 and float64.

Arguments are moved by the recurrences (NIST Digital Library of Mathematical Functions, sections
5.5 and 5.7) to a short interval with a polynomial, or are large enough for Stirling's series
(5.11); negative ones are reflected.
"""

from __future__ import annotations

import numpy as np

from xpr.lowering.numerics import special_tables as tables
from xpr.lowering.numerics.exponential import exp, log
from xpr.lowering.numerics.expr import Expr, by_dtype, polynomial, where
from xpr.lowering.numerics.power import pow
from xpr.lowering.numerics.trigonometric import reduced_cosine, reduced_sine

HALF_LOG_2PI = float(0.5 * np.log(2 * np.pi))
_LOG_PI = float(np.log(np.pi))
_PI = float(np.pi)


def sin_pi_cos_pi(x: Expr) -> tuple[Expr, Expr]:
    """sin(pi x) and cos(pi x) up to a common sign, for x >= 0, exactly reduced; sin >= 0."""
    fraction = x - x.floor()
    reflected = fraction.min(1.0 - fraction)
    steep = reflected > 0.25
    r = _PI * where(steep, 0.5 - reflected, reflected)
    s, c = reduced_sine(r), reduced_cosine(r)
    sine, cosine = where(steep, c, s), where(steep, s, c)
    return sine, where(fraction > 0.5, -cosine, cosine)


def stirling_rest(x: Expr) -> Expr:
    """lgamma(x) - ((x - 1/2) log(x) - x + log(2 pi) / 2) for x >= 8."""
    inverse = 1.0 / x
    table = by_dtype(x, tables.STIRLING_SINGLE, tables.STIRLING_DOUBLE)
    return inverse * polynomial(inverse * inverse, table)


def _lgamma_positive(x: Expr) -> Expr:
    far_x = x.max(8.0)
    logarithm = log(far_x)
    far = (far_x - 0.5) * (logarithm - 1.0) + (stirling_rest(far_x) + (HALF_LOG_2PI - 0.5))

    # To u = z - 2 in [-1/2, 1] with gamma(x) = gamma(z) times or over a product.
    small = x.min(8.0)
    below_half, below = small < 0.5, small < 1.5
    z = small
    product = x.like(1.0)
    for _ in range(5):
        above = z >= 3.0
        lower = z - 1.0
        product = where(above, product * lower, product)
        z = where(above, lower, z)
    u = where(below_half, small, where(below, small - 1.0, z - 2.0))
    divisor = where(below_half, small * (small + 1.0), small)
    series = u * polynomial(u, by_dtype(x, tables.LGAMMA_SINGLE, tables.LGAMMA_DOUBLE))
    logarithm = log(where(below, divisor, product))
    near = where(below, series - logarithm, series + logarithm)
    return where(x < 8.0, near, where(x < np.inf, far, x))


def lgamma(x: Expr) -> Expr:
    """log|gamma(x)|; infinite at the poles."""
    size = abs(x)
    value = _lgamma_positive(size)
    sine, _ = sin_pi_cos_pi(where(size < np.inf, size, 0.0))
    # So near 0 that the product below would vanish, gamma(x) is 1 / x.
    tiny = size < by_dtype(x, 1e-15, 1e-100)
    reflected = (_LOG_PI - log(size * sine)) - value
    reflected = where(tiny, -log(size), reflected)
    return where(x < 0.0, where(x.floor().eq(x), np.inf, reflected), value)


def gamma_of_whole(x: Expr) -> Expr:
    """The gamma function of whole numbers x >= 1 (of others to some 16 ulp)."""
    product, z = x.like(1.0), x
    for _ in range(7):
        small = z < 8.0
        product = where(small, product * z, product)
        z = where(small, z + 1.0, z)
    # The power in two halves: alone it overflows before the product with exp(-z) does.
    root = pow(z, 0.5 * z - 0.25)
    value = root * exp(-z) * root * exp(stirling_rest(z)) * float(np.sqrt(2 * np.pi))
    return where(x.eq(np.inf), np.inf, value / product)


_ROOT_DOUBLE = (1.4616321449683622, 9.549995429965697e-17)
_ROOT_SINGLE = (1.4616321325302124, 1.2438149938918909e-08)


def digamma(x: Expr) -> Expr:
    """The derivative of lgamma.

    Near its root 1.46..., which no floating number is, the polynomial has the root as a factor.
    """
    reflect, low = x < -0.5, x < 1.0
    negative = x < 0.0
    moved = where(reflect, 1.0 - x, where(negative, x + 2.0, where(low, x + 1.0, x)))
    moved = moved.max(1.0)
    sine, cosine = sin_pi_cos_pi(where(reflect & (x > -np.inf), -x, 0.25))
    two_steps = (2.0 * x + 1.0) / (x * (x + 1.0))
    extra = where(negative, -two_steps, -1.0 / x)
    extra = where(reflect, (_PI * cosine) / sine, where(low, extra, 0.0))

    far_x = moved.max(8.0)
    inverse = 1.0 / far_x
    square = inverse * inverse
    table = by_dtype(x, tables.DIGAMMA_FAR_SINGLE, tables.DIGAMMA_FAR_DOUBLE)
    far = log(far_x) - (0.5 * inverse + square * polynomial(square, table))

    # Down to [1, 2) with the sum of 1 / (z - 1), 1 / (z - 2), ... as one fraction.
    z = moved.min(8.0)
    top, bottom = x.like(0.0), x.like(1.0)
    for _ in range(6):
        above = z >= 2.0
        lower = z - 1.0
        top = where(above, top * lower + bottom, top)
        bottom = where(above, bottom * lower, bottom)
        z = where(above, lower, z)
    high, rest = by_dtype(x, _ROOT_SINGLE, _ROOT_DOUBLE)
    table = by_dtype(x, tables.DIGAMMA_SINGLE, tables.DIGAMMA_DOUBLE)
    near = ((z - high) - rest) * polynomial(z - 1.5, table) + top / bottom
    value = where(moved < 8.0, near, where(moved < np.inf, far, moved)) + extra
    pole = negative & x.floor().eq(x)
    return where(pole | x.is_nan(), np.nan, value)
