"""The regularized incomplete beta function.

Its continued fraction (NIST Digital Library of Mathematical Functions, 8.17.22) by the modified
method of Lentz, on the side where it converges quickly, times a factor in Loader's form.
"""

from __future__ import annotations

import numpy as np

from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.numerics.exponential import exp
from xpr.lowering.numerics.expr import Expr, where
from xpr.lowering.numerics.incomplete_gamma import (
    epsilon,
    log_ratio_less_linear,
    stirling_error,
)
from xpr.lowering.numerics.kernel import map_scalars
from xpr.lowering.numerics.while_loop import iterate_elements

_LIMIT = 20_000


def _is_regular(a: Expr, b: Expr, x: Expr) -> Expr:
    return (a > 0.0) & (b > 0.0) & (a < np.inf) & (b < np.inf) & (x > 0.0) & (x < 1.0)


def _is_swapped(a: Expr, b: Expr, x: Expr) -> Expr:
    """Whether I_x(a, b) is taken as 1 - I_(1-x)(b, a)."""
    return x * (a + b + 2.0) > a + 1.0


def _front(a: Expr, b: Expr, x: Expr, y: Expr) -> Expr:
    """x**a y**b / B(a, b) for y = 1 - x."""
    total = a + b
    gap = x * b - y * a
    exponent = a * log_ratio_less_linear(x * (total / a), gap / a)
    exponent = exponent + b * log_ratio_less_linear(y * (total / b), -(gap / b))
    rest = stirling_error(total) - stirling_error(a) - stirling_error(b)
    return exp(exponent + rest) * (a * (b / total) * float(0.5 / np.pi)).sqrt()


def _fraction(ctx: LoweringContext, a: Value, b: Value, x: Value) -> Value:
    def step(n: Expr, *values: Expr) -> list[Expr]:
        c, d, h, _, a, b, x = values
        twice = a + 2.0 * n
        even = n * (b - n) * x / ((twice - 1.0) * twice)
        d = 1.0 / (even * d + 1.0)
        c = 1.0 + even / c
        h = h * (c * d)
        odd = -(a + n) * (a + b + n) * x / (twice * (twice + 1.0))
        d = 1.0 / (odd * d + 1.0)
        c = 1.0 + odd / c
        return [c, d, h * (c * d), c * d]

    def unfinished(*values: Expr) -> Expr:
        return abs(values[3] - 1.0) > 0.5 * epsilon(values[6])

    first = map_scalars(ctx, lambda a, b, x: 1.0 / (1.0 - (a + b) * x / (a + 1.0)), [a, b, x])
    one, zero = ctx.full_like(x, 1.0), ctx.full_like(x, 0.0)
    state = [one, first, first, zero]
    return iterate_elements(ctx, step, unfinished, state, [a, b, x], _LIMIT)[2]


def betainc(ctx: LoweringContext, a: Value, b: Value, x: Value) -> Value:
    """I_x(a, b)."""
    a, b, x = ctx.match(a, b, x)

    def pick(index: int) -> Value:
        def formula(a: Expr, b: Expr, x: Expr) -> Expr:
            regular = _is_regular(a, b, x)
            a, b, x = (where(regular, v, safe) for v, safe in ((a, 1.0), (b, 1.0), (x, 0.25)))
            swapped = _is_swapped(a, b, x)
            return where(swapped, (b, a, 1.0 - x)[index], (a, b, x)[index])

        return map_scalars(ctx, formula, [a, b, x])

    fraction = _fraction(ctx, pick(0), pick(1), pick(2))

    def combined(a: Expr, b: Expr, x: Expr, fraction: Expr) -> Expr:
        regular = _is_regular(a, b, x)
        sa, sb, sx = (where(regular, v, safe) for v, safe in ((a, 1.0), (b, 1.0), (x, 0.25)))
        swapped = _is_swapped(sa, sb, sx)
        value = _front(sa, sb, sx, 1.0 - sx) * fraction / where(swapped, sb, sa)
        value = where(swapped, 1.0 - value, value)
        # Limits: all the weight lies at 0 for a = 0 or infinite b, at 1 for the reverse.
        at_zero, at_one = a.eq(0.0) | b.eq(np.inf), b.eq(0.0) | a.eq(np.inf)
        border = where(x.eq(0.0) | (at_one & x.ne(1.0)), x.like(0.0), 1.0)
        defined = (a >= 0.0) & (b >= 0.0) & (x >= 0.0) & (x <= 1.0) & ~(at_zero & at_one)
        return where(defined, where(regular, value, border), np.nan)

    return map_scalars(ctx, combined, [a, b, x, fraction])
