"""Bitwise operations, shifts and the high half of products."""

from __future__ import annotations

import numpy as np

from xpr.core import dtypes
from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.numerics.small_integers import is_small
from xpr.lowering.registry import LoweringRule, register
from xpr.primitives import integer as p


def _unary(op: str) -> LoweringRule:
    def lower(ctx: LoweringContext, x: Value) -> Value:
        return ctx.unary(op, x)

    return lower


def _bits(x: Value) -> int:
    """The width of an element; those of less than a byte lie in one, sign-extended."""
    return int(dtypes.iinfo(x.dtype).bits)


def _lower_bits(ctx: LoweringContext, x: Value) -> Value:
    """`x` without the copies of its sign in a byte that it does not fill."""
    return ctx.and_(x, (1 << _bits(x)) - 1) if is_small(x.dtype) else x


def _popcnt_lower(ctx: LoweringContext, x: Value) -> Value:
    return ctx.unary("popcnt", _lower_bits(ctx, x))


def _clz_lower(ctx: LoweringContext, x: Value) -> Value:
    found = ctx.unary("count_leading_zeros", _lower_bits(ctx, x))
    unused = 8 * x.dtype.itemsize - _bits(x)
    return ctx.sub(found, unused) if unused else found


def _binary(op: str) -> LoweringRule:
    def lower(ctx: LoweringContext, x: Value, y: Value) -> Value:
        return ctx.binary(op, x, y)

    return lower


def _shift(op: str) -> LoweringRule:
    """A shift whose amount is made safe: LLVM leaves one beyond the width undefined."""

    def lower(ctx: LoweringContext, x: Value, y: Value) -> Value:
        x, y = ctx.match(x, y)
        bits = _bits(x)
        unsigned = np.dtype(f"u{x.dtype.itemsize}")
        amount = ctx.bitcast(y, unsigned) if y.dtype != unsigned else y
        inside = ctx.compare("LT", amount, bits)
        if op == "shift_right_arithmetic":
            last = ctx.select(inside, y, bits - 1)
            if is_small(x.dtype) and dtypes.kind(x.dtype) == "u":
                signed = np.dtype(str(x.dtype)[1:])
                moved = ctx.binary(op, ctx.convert(x, signed), ctx.convert(last, signed))
                return ctx.convert(moved, x.dtype)
            return ctx.binary(op, x, last)
        if op == "shift_right_logical":
            x = _lower_bits(ctx, x)
        return ctx.select(inside, ctx.binary(op, x, ctx.select(inside, y, 0)), 0)

    return lower


def _mulhi_lower(ctx: LoweringContext, x: Value, y: Value) -> Value:
    x, y = ctx.match(x, y)
    dtype, bits = x.dtype, _bits(x)
    if is_small(dtype):
        wide = np.dtype(np.int32)
        product = ctx.mul(ctx.convert(x, wide), ctx.convert(y, wide))
        return ctx.convert(ctx.binary("shift_right_arithmetic", product, bits), dtype)
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
    p.shift_right_logical_p: _shift("shift_right_logical"),
    p.shift_right_arithmetic_p: _shift("shift_right_arithmetic"),
    p.population_count_p: _popcnt_lower,
    p.clz_p: _clz_lower,
    p.mulhi_p: _mulhi_lower,
}

for _primitive, _rule in _RULES.items():
    register(_primitive, _rule)
