"""The regularized incomplete gamma functions and their derivatives in the first argument.

For x < a + 1 the power series, else Legendre's continued fraction (NIST Digital Library of
Mathematical Functions, 8.7.1 and 8.9.2; the fraction by the modified method of Lentz), each with
its derivative carried along where that is wanted. The common factor x**a e**-x / gamma(a + 1) of
large a is taken by Loader's "saddle point" form (Fast and Accurate Computation of Binomial
Probabilities, 2000), which does not lose what a log(x) - x - lgamma(a) cancels.
"""

from __future__ import annotations

import numpy as np

from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.numerics import special_tables as tables
from xpr.lowering.numerics.exponential import LOG_DOUBLE, LOG_SINGLE, exp, expm1, log, log1p
from xpr.lowering.numerics.expr import Expr, by_dtype, polynomial, where
from xpr.lowering.numerics.gamma import HALF_LOG_2PI, digamma, lgamma, stirling_rest
from xpr.lowering.numerics.kernel import map_scalars
from xpr.lowering.numerics.while_loop import iterate_elements

_LIMIT = 20_000


def epsilon(x: Expr) -> float:
    """The distance from 1 to the next number of the dtype of x."""
    return float(np.finfo(x.dtype).eps)


def log_ratio_less_linear(ratio: Expr, difference: Expr) -> Expr:
    """log(ratio) - difference for difference = ratio - 1, both given accurately."""
    near = (difference > -0.29) & (difference < 0.41)
    d = where(near, difference, 0.0)
    s = d / (d + 2.0)
    z = s * s
    series = s * (z * polynomial(z, by_dtype(d, LOG_SINGLE, LOG_DOUBLE)) - d)
    return where(near, series, log(ratio) - difference)


def lgamma_one_more(a: Expr) -> Expr:
    """lgamma(1 + a) for a >= 0, accurate where it is near 0."""
    u = a.min(0.5)
    table = by_dtype(a, tables.LGAMMA_SINGLE, tables.LGAMMA_DOUBLE)
    return where(a < 0.5, u * polynomial(u, table) - log1p(u), lgamma(a + 1.0))


def stirling_error(a: Expr) -> Expr:
    """lgamma(a + 1) - ((a + 1/2) log(a) - a + log(2 pi) / 2) for a > 0."""
    direct = lgamma_one_more(a) - ((a + 0.5) * log(a) - a + HALF_LOG_2PI)
    return where(a < 8.0, direct, stirling_rest(a.max(8.0)))


def _common_factor(a: Expr, x: Expr) -> Expr:
    """x**a e**-x / gamma(a + 1)."""
    large = a.max(8.0)
    exponent = large * log_ratio_less_linear(x / large, (x - large) / large)
    saddle = exp(exponent - stirling_rest(large)) / (float(np.sqrt(2 * np.pi)) * large.sqrt())
    small = a.min(8.0)
    direct = exp(small * log(x) - x - lgamma_one_more(small))
    return where(a < 8.0, direct, saddle)


def _uses_series(a: Expr, x: Expr) -> Expr:
    return (x <= 1.0) | (x < a + 1.0)


def _is_regular(a: Expr, x: Expr) -> Expr:
    return (a > 0.0) & (a < np.inf) & (x > 0.0) & (x < np.inf)


def _is_step(a: Expr, x: Expr) -> Expr:
    """Whether all but P(a, a) = 1/2 rounds to 0 or 1: numbers lie 40 standard deviations apart.

    The deviation is the root of a, the distance a times epsilon, or the other one of x.
    """
    return _is_regular(a, x) & (a.max(x) > (40.0 / epsilon(x)) ** 2)


def _parts(ctx: LoweringContext, a: Value, x: Value, series: bool) -> tuple[Value, Value]:
    """The operands of the elements that take the series (or the fraction); harmless ones else."""

    def chosen(a: Expr, x: Expr) -> Expr:
        use = _uses_series(a, x)
        return _is_regular(a, x) & ~_is_step(a, x) & (use if series else ~use)

    return (
        map_scalars(ctx, lambda a, x: where(chosen(a, x), a, 1.0), [a, x]),
        map_scalars(ctx, lambda a, x: where(chosen(a, x), x, 0.5 if series else 100.0), [a, x]),
    )


def _series(ctx: LoweringContext, a: Value, x: Value) -> Value:
    """The sum of x**n / ((a + 1) ... (a + n))."""

    def step(n: Expr, term: Expr, total: Expr, a: Expr, x: Expr) -> list[Expr]:
        term = term * (x / (a + n))
        return [term, total + term]

    def unfinished(term: Expr, total: Expr, a: Expr, x: Expr) -> Expr:
        return term > total * (0.25 * epsilon(x))

    one = ctx.full_like(x, 1.0)
    return iterate_elements(ctx, step, unfinished, [one, one], [a, x], _LIMIT)[1]


def _fraction(ctx: LoweringContext, a: Value, x: Value) -> Value:
    """1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / (x + 5 - a - ...)))."""

    def step(n: Expr, c: Expr, d: Expr, h: Expr, change: Expr, a: Expr, x: Expr) -> list[Expr]:
        b = x + (2.0 * n + 1.0) - a
        numerator = n * (a - n)
        d = 1.0 / (numerator * d + b)
        c = b + numerator / c
        change = c * d
        return [c, d, h * change, change]

    def unfinished(c: Expr, d: Expr, h: Expr, change: Expr, a: Expr, x: Expr) -> Expr:
        return abs(change - 1.0) > 0.5 * epsilon(x)

    first = map_scalars(ctx, lambda a, x: 1.0 / (x + 1.0 - a), [a, x])
    huge = ctx.full_like(x, float(np.finfo(x.dtype).max) / 16)
    zero = ctx.full_like(x, 0.0)
    return iterate_elements(ctx, step, unfinished, [huge, first, first, zero], [a, x], _LIMIT)[2]


def _small_upper(a: Expr, x: Expr) -> Expr:
    """Q(a, x) for x <= 1.1, where 1 - P(a, x) would cancel.

    1 - x**a / gamma(a + 1) (1 + a sum of (-x)**n / ((a + n) n!) over n >= 1), as in Gautschi's
    "A Computational Procedure for Incomplete Gamma Functions", 1979.
    """
    term, total = x.like(1.0), x.like(0.0)
    for n in range(1, by_dtype(x, 12, 20)):
        term = term * (x * (-1.0 / n))
        total = total + term / (a + float(n))
    exponent = a * log(x) - lgamma_one_more(a)
    return -expm1(exponent) - exp(exponent) * (a * total)


def igamma_pair(ctx: LoweringContext, a: Value, x: Value, upper: bool) -> Value:
    """P(a, x), or Q(a, x) when `upper`."""
    a, x = ctx.match(a, x)
    series = _series(ctx, *_parts(ctx, a, x, True))
    fraction = _fraction(ctx, *_parts(ctx, a, x, False))

    def combined(a: Expr, x: Expr, series: Expr, fraction: Expr) -> Expr:
        regular, step = _is_regular(a, x), _is_step(a, x)
        usual = regular & ~step
        sa, sx = where(usual, a, 1.0), where(usual, x, 1.0)
        factor = _common_factor(sa, sx)
        use_series = _uses_series(sa, sx)
        by_series, by_fraction = factor * series, factor * sa * fraction
        if upper:
            bounded = sx.min(1.1)
            little = -0.4 / log(bounded.min(0.5))
            small = (sx <= 1.1) & (where(sx <= 0.5, little, 1.1 * sx) >= sa)
            value = where(use_series, 1.0 - by_series, by_fraction)
            value = where(small, _small_upper(sa.min(2.0), bounded), value)
        else:
            value = where(use_series, by_series, 1.0 - by_fraction)
        # The limits at the borders: P is 0 at x = 0 and for infinite a, and 1 at infinite x.
        at_zero, at_one = (x.eq(0.0) | a.eq(np.inf)), (x.eq(np.inf) | a.eq(0.0))
        border = where(at_zero, x.like(1.0 if upper else 0.0), 0.0 if upper else 1.0)
        defined = (a >= 0.0) & (x >= 0.0) & ~(at_zero & at_one)
        low, high = (1.0, 0.0) if upper else (0.0, 1.0)
        stepped = where(x.eq(a), x.like(0.5), where(x < a, x.like(low), high))
        value = where(step, stepped, value)
        return where(defined, where(regular, value, border), np.nan)

    return map_scalars(ctx, combined, [a, x, series, fraction])


# ---- derivatives in a


def _series_with_slope(ctx: LoweringContext, a: Value, x: Value) -> tuple[Value, Value]:
    """The series and its derivative in a."""

    def step(n: Expr, *values: Expr) -> list[Expr]:
        term, slope, total, slope_total, a, x = values
        inverse = 1.0 / (a + n)
        ratio = x * inverse
        slope = (slope - term * inverse) * ratio
        term = term * ratio
        return [term, slope, total + term, slope_total + slope]

    def unfinished(*values: Expr) -> Expr:
        term, slope, total, slope_total, _, x = values
        small = 0.25 * epsilon(x)
        return (term > total * small) | (abs(slope) > abs(slope_total) * small)

    one, zero = ctx.full_like(x, 1.0), ctx.full_like(x, 0.0)
    state = [one, zero, one, zero]
    found = iterate_elements(ctx, step, unfinished, state, [a, x], _LIMIT)
    return found[2], found[3]


def _fraction_with_slope(ctx: LoweringContext, a: Value, x: Value) -> tuple[Value, Value]:
    """The continued fraction and the derivative in a of its logarithm."""

    def step(n: Expr, *values: Expr) -> list[Expr]:
        c, c_slope, d, d_slope, h, slope, _, a, x = values
        b = x + (2.0 * n + 1.0) - a
        numerator = n * (a - n)
        bottom = numerator * d + b
        bottom_slope = (n * d + numerator * d_slope) - 1.0
        d = 1.0 / bottom
        d_slope = -(bottom_slope * d) * d
        c_slope = ((n - numerator * (c_slope / c)) / c) - 1.0
        c = b + numerator / c
        gain = c_slope / c + d_slope / d
        change = abs(c * d - 1.0).max(abs(gain) / (abs(slope) + 1.0))
        return [c, c_slope, d, d_slope, h * (c * d), slope + gain, change]

    def unfinished(*values: Expr) -> Expr:
        return values[6] > 0.5 * epsilon(values[8])

    first = map_scalars(ctx, lambda a, x: 1.0 / (x + 1.0 - a), [a, x])
    first_square = ctx.mul(first, first)
    huge = ctx.full_like(x, float(np.finfo(x.dtype).max) / 16)
    zero, one = ctx.full_like(x, 0.0), ctx.full_like(x, 1.0)
    state = [huge, zero, first, first_square, first, first, one]
    found = iterate_elements(ctx, step, unfinished, state, [a, x], _LIMIT)
    return found[4], found[5]


def igamma_derivative(ctx: LoweringContext, a: Value, x: Value, of_sample: bool) -> Value:
    """dP/da, or with `of_sample` the derivative -dP/da / (dP/dx) of a gamma sample."""
    a, x = ctx.match(a, x)
    series, series_slope = _series_with_slope(ctx, *_parts(ctx, a, x, True))
    fraction, fraction_slope = _fraction_with_slope(ctx, *_parts(ctx, a, x, False))

    def combined(a: Expr, x: Expr, *values: Expr) -> Expr:
        s, ds, f, df = values
        regular = _is_regular(a, x)
        sa, sx = where(regular, a, 1.0), where(regular, x, 1.0)
        use_series = _uses_series(sa, sx)
        psi = digamma(where(use_series, sa + 1.0, sa))
        rate = log(sx) - psi
        # dP/da over x**(a - 1) e**-x / gamma(a).
        ratio = where(use_series, (sx / sa) * (ds + s * rate), -(sx * f) * (df + rate))
        value = -ratio if of_sample else (sa * ratio) * (_common_factor(sa, sx) / sx)
        limit = (a > 0.0) & x.eq(0.0)
        if not of_sample:
            limit = limit | ((a > 0.0) & (a < np.inf) & x.eq(np.inf))
        return where(regular, value, where(limit, x.like(0.0), np.nan))

    return map_scalars(ctx, combined, [a, x, series, series_slope, fraction, fraction_slope])
