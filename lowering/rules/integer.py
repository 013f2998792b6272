"""Bitwise operations, shifts and the high half of products."""

from __future__ import annotations

import numpy as np

from xpr.core import dtypes
from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import LoweringRule, register
from xpr.primitives import integer as p


def _unary(op: str) -> LoweringRule:
    def lower(ctx: LoweringContext, x: Value) -> Value:
        return ctx.unary(op, x)

    return lower


def _of_whole_bytes(name: str, rule: LoweringRule) -> LoweringRule:
    """`rule` for integers of which no bits are unused."""

    def lower(ctx: LoweringContext, x: Value, *rest: Value) -> Value:
        if x.dtype in dtypes.SMALL_INT_TYPES:
            raise TypeError(f"{name} does not accept dtype {x.dtype}; convert to int8 or uint8")
        return rule(ctx, x, *rest)

    return lower


def _binary(op: str) -> LoweringRule:
    def lower(ctx: LoweringContext, x: Value, y: Value) -> Value:
        return ctx.binary(op, x, y)

    return lower


def _shift(op: str) -> LoweringRule:
    """A shift whose amount is made safe: LLVM leaves one beyond the width undefined."""

    def lower(ctx: LoweringContext, x: Value, y: Value) -> Value:
        x, y = ctx.match(x, y)
        bits = 8 * x.dtype.itemsize
        unsigned = np.dtype(f"u{x.dtype.itemsize}")
        amount = ctx.bitcast(y, unsigned) if y.dtype != unsigned else y
        inside = ctx.compare("LT", amount, bits)
        if op == "shift_right_arithmetic":
            last = ctx.select(inside, y, bits - 1)
            return ctx.binary(op, x, last)
        return ctx.select(inside, ctx.binary(op, x, ctx.select(inside, y, 0)), 0)

    return lower


def _mulhi_lower(ctx: LoweringContext, x: Value, y: Value) -> Value:
    x, y = ctx.match(x, y)
    dtype, bits = x.dtype, 8 * x.dtype.itemsize
    logical, arithmetic = "shift_right_logical", "shift_right_arithmetic"
    right = logical if dtype.kind == "u" else arithmetic
    twice = f"{'uint' if dtype.kind == 'u' else 'int'}{2 * bits}"
    if bits < 64 and twice not in ctx.target.missing_types:
        wide = np.dtype(twice)
        product = ctx.mul(ctx.convert(x, wide), ctx.convert(y, wide))
        return ctx.convert(ctx.binary(right, product, bits), dtype)
    # Schoolbook multiplication of halves; the low ones are unsigned.
    half = bits // 2
    mask = (1 << half) - 1
    x1, x0 = ctx.binary(right, x, half), ctx.and_(x, mask)
    y1, y0 = ctx.binary(right, y, half), ctx.and_(y, mask)
    low = ctx.binary(logical, ctx.mul(x0, y0), half)
    middle = ctx.add(ctx.mul(x1, y0), low)
    cross = ctx.add(ctx.mul(x0, y1), ctx.and_(middle, mask))
    high = ctx.add(ctx.mul(x1, y1), ctx.binary(right, middle, half))
    return ctx.add(high, ctx.binary(right, cross, half))


_RULES: dict[Primitive, LoweringRule] = {
    p.and_p: _binary("and"),
    p.or_p: _binary("or"),
    p.xor_p: _binary("xor"),
    p.not_p: _unary("not"),
    p.shift_left_p: _shift("shift_left"),
    p.shift_right_logical_p: _of_whole_bytes("shift_right_logical", _shift("shift_right_logical")),
    p.shift_right_arithmetic_p: _shift("shift_right_arithmetic"),
    p.population_count_p: _of_whole_bytes("population_count", _unary("popcnt")),
    p.clz_p: _of_whole_bytes("clz", _unary("count_leading_zeros")),
    p.mulhi_p: _of_whole_bytes("mulhi", _mulhi_lower),
}

for _primitive, _rule in _RULES.items():
    register(_primitive, _rule)
