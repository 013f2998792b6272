"""The Hurwitz zeta function and the polygamma functions, for float32 and float64.

Ten terms of the series are summed, the rest comes from the Euler-Maclaurin formula (NIST Digital
Library of Mathematical Functions, 25.11.5). The ten powers are computed along a further axis of
the array, so that the formula of a power stands in the program once.
"""

from __future__ import annotations

from fractions import Fraction
from math import factorial

import numpy as np

from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.numerics.exponential import exp, log
from xpr.lowering.numerics.expr import Expr, where
from xpr.lowering.numerics.gamma import digamma, gamma_of_whole, lgamma
from xpr.lowering.numerics.kernel import map_scalars
from xpr.lowering.numerics.power import pow

_TERMS = 10
_BERNOULLI = (
    Fraction(1, 6),
    Fraction(-1, 30),
    Fraction(1, 42),
    Fraction(-1, 30),
    Fraction(5, 66),
    Fraction(-691, 2730),
    Fraction(7, 6),
    Fraction(-3617, 510),
    Fraction(43867, 798),
    Fraction(-174611, 330),
    Fraction(854513, 138),
    Fraction(-236364091, 2730),
)


def _rest_of_series(s: Expr, q: Expr) -> Expr:
    """The sum of (q + k)**-s over k >= 10."""
    a = q + float(_TERMS)
    power = pow(a, -s)
    total = power * a / (s - 1.0) + 0.5 * power
    # The terms B_2j / (2j)! * s (s + 1) ... (s + 2j - 2) * a**(-s - 2j + 1).
    factor = power / a
    rising = s
    inverse_square = 1.0 / (a * a)
    for j, bernoulli in enumerate(_BERNOULLI, start=1):
        total = total + float(bernoulli / factorial(2 * j)) * (rising * factor)
        rising = rising * (s + float(2 * j - 1)) * (s + float(2 * j))
        factor = factor * inverse_square
    # Where the power vanishes its product with the great numbers above may be NaN.
    return where(power.eq(0.0), 0.0, total)


def _hurwitz_positive(ctx: LoweringContext, s: Value, q: Value) -> Value:
    """zeta(s, q) for s > 1 and q > 0."""
    shape, last = (*q.shape, _TERMS), len(q.shape)
    axes = tuple(range(last))
    steps = ctx.iota(q.dtype, shape, last)
    s_wide, q_wide = ctx.broadcast_in_dim(s, shape, axes), ctx.broadcast_in_dim(q, shape, axes)
    terms = map_scalars(ctx, lambda s, q, k: pow(q + k, -s), [s_wide, q_wide, steps])
    zero = ctx.constant(0.0, q.dtype)
    (total,) = ctx.reduce([terms], [zero], [last], lambda c, a, b: [c.add(a, b)])
    return ctx.add(total, map_scalars(ctx, _rest_of_series, [s, q]))


def zeta(ctx: LoweringContext, s: Value, q: Value) -> Value:
    """The sum of (q + k)**-s over k >= 0.

    For negative q and whole s, with q = f - m for a whole number m and 0 < f < 1, the terms of
    negative base are those of zeta(s, 1 - f) up to that of zeta(s, 1 - q), with the sign (-1)**s.
    """
    s, q = ctx.match(s, q)
    shape, rank = q.shape, len(q.shape)

    def usable(q: Expr) -> Expr:
        return where((abs(q) < np.inf) & q.floor().ne(q), q, 0.5)

    def positive(q: Expr) -> Expr:
        return where(q > 0.0, q, usable(q) - usable(q).floor())

    def below_start(q: Expr) -> Expr:
        return where(q > 0.0, 1.0, (usable(q).floor() + 1.0) - usable(q))

    def below_end(q: Expr) -> Expr:
        return where((q > 0.0) | (abs(q).eq(np.inf)), 1.0, 1.0 - q)

    bases = [
        ctx.reshape(map_scalars(ctx, f, [q]), (1, *shape))
        for f in (positive, below_start, below_end)
    ]
    stacked = ctx.concatenate(bases, 0)
    safe = map_scalars(ctx, lambda s: where(s > 1.0, s, 2.0), [s])
    wide = ctx.broadcast_in_dim(safe, (3, *shape), tuple(range(1, rank + 1)))
    values = _hurwitz_positive(ctx, wide, stacked)
    above, start, end = (
        ctx.reshape(ctx.slice(values, [i] + [0] * rank, [i + 1, *shape]), shape) for i in range(3)
    )

    def combined(s: Expr, q: Expr, above: Expr, start: Expr, end: Expr) -> Expr:
        half = 0.5 * s
        even = half.floor().eq(half)
        below = start - end
        value = where(q > 0.0, above, where(even, above + below, above - below))
        whole_q = q.floor().eq(q)
        value = where(
            q <= 0.0, where(whole_q, np.inf, where(s.floor().eq(s), value, np.nan)), value
        )
        value = where(s > 1.0, value, where(s.eq(1.0), np.inf, s.like(np.nan)))
        return where(s.is_nan() | q.is_nan(), np.nan, value)

    return map_scalars(ctx, combined, [s, q, above, start, end])


def polygamma(ctx: LoweringContext, m: Value, x: Value) -> Value:
    """The derivative of order m of digamma, (-1)**(m + 1) m! zeta(m + 1, x)."""
    m, x = ctx.match(m, x)
    series = zeta(ctx, ctx.add(m, 1.0), x)

    def combined(m: Expr, x: Expr, series: Expr) -> Expr:
        whole = (m >= 1.0) & m.floor().eq(m) & (m < np.inf)
        order = where(whole, m, 1.0) + 1.0
        # Where the factorial overflows, the product is taken of the logarithms.
        huge = order > (30.0 if m.dtype == np.float32 else 150.0)
        by_logarithm = exp(lgamma(order) + log(abs(series))).copysign(series)
        size = where(huge, by_logarithm, gamma_of_whole(order.min(150.0)) * series)
        half = 0.5 * m
        value = where(half.floor().eq(half), -size, size)
        return where(m.eq(0.0), digamma(x), where(whole, value, np.nan))

    return map_scalars(ctx, combined, [m, x, series])
