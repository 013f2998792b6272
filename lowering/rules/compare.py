"""Comparisons and choices between values."""

from __future__ import annotations

import numpy as np

from xpr.core import dtypes
from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.ir.stablehlo import I1
from xpr.lowering.numerics.small_floats import widened
from xpr.lowering.registry import LoweringRule, register
from xpr.primitives import compare as p


def _compare(direction: str) -> LoweringRule:
    def lower(ctx: LoweringContext, x: Value, y: Value) -> Value:
        return ctx.compare(direction, widened(ctx, x), widened(ctx, y))

    return lower


def _order_key(ctx: LoweringContext, x: Value) -> Value:
    """Signed integers in the total order of IEEE 754; integers are their own."""
    if not dtypes.is_float(x.dtype):
        return x
    bits = ctx.bitcast(x, np.dtype(f"i{x.dtype.itemsize}"))
    flipped = ctx.xor(bits, int(np.iinfo(bits.dtype).max))
    return ctx.select(ctx.compare("LT", bits, 0), flipped, bits)


def _compare_total(direction: str) -> LoweringRule:
    def lower(ctx: LoweringContext, x: Value, y: Value) -> Value:
        return ctx.compare(direction, _order_key(ctx, x), _order_key(ctx, y))

    return lower


def _is_finite_lower(ctx: LoweringContext, x: Value) -> Value:
    wide = widened(ctx, x)
    return ctx.compare("LT", ctx.abs(wide), np.inf)


def _select_n_lower(ctx: LoweringContext, which: Value, *cases: Value) -> Value:
    if len(cases) == 1:
        return cases[0]
    if which.dtype == I1:
        return ctx.select(which, cases[1], cases[0])
    # Numbers below 0 fall to the first case, too great ones to the last.
    result = cases[-1]
    for i in range(len(cases) - 2, -1, -1):
        result = ctx.select(ctx.compare("LE", which, i), cases[i], result)
    return result


def lexicographic(ctx: LoweringContext, direction: str, x: Value, y: Value) -> Value:
    """The greater ("GT") or lesser ("LT") complex number by real, then imaginary part, or a NaN."""
    (xr, xi), (yr, yi) = ctx.parts(x), ctx.parts(y)
    by_imag = ctx.compare(direction[0] + "E", xi, yi)
    first = ctx.select(ctx.compare("EQ", xr, yr), by_imag, ctx.compare(direction, xr, yr))
    x_nan, y_nan = (
        ctx.or_(ctx.compare("NE", re, re), ctx.compare("NE", im, im))
        for re, im in ((xr, xi), (yr, yi))
    )
    take_x = ctx.or_(x_nan, ctx.and_(first, ctx.not_(y_nan)))
    return ctx.select(take_x, x, y)


def extreme(ctx: LoweringContext, direction: str, x: Value, y: Value) -> Value:
    """The greater ("GT") or lesser ("LT") of two values of one type; NaN if either is."""
    x, y = ctx.match(x, y)
    if dtypes.is_complex(x.dtype):
        return lexicographic(ctx, direction, x, y)
    return ctx.maximum(x, y) if direction == "GT" else ctx.minimum(x, y)


def _clamp_lower(ctx: LoweringContext, low: Value, x: Value, high: Value) -> Value:
    low, x, high = ctx.match(low, x, high)
    return extreme(ctx, "LT", extreme(ctx, "GT", low, x), high)


_RULES: dict[Primitive, LoweringRule] = {
    p.eq_p: _compare("EQ"),
    p.ne_p: _compare("NE"),
    p.lt_p: _compare("LT"),
    p.le_p: _compare("LE"),
    p.gt_p: _compare("GT"),
    p.ge_p: _compare("GE"),
    p.eq_to_p: _compare_total("EQ"),
    p.lt_to_p: _compare_total("LT"),
    p.le_to_p: _compare_total("LE"),
    p.is_finite_p: _is_finite_lower,
    p.select_n_p: _select_n_lower,
    p.clamp_p: _clamp_lower,
}

for _primitive, _rule in _RULES.items():
    register(_primitive, _rule)
