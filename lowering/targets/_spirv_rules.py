"""Lowering rules for Vulkan and Metal, in place of the common ones that come out wrong there.

Each has a test in `tests/lowering/test_vulkan_hazards.py` that fails when it is needed no more.
"""

from __future__ import annotations

import numpy as np

from xpr.core import dtypes
from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.numerics.small_integers import is_small
from xpr.lowering.registry import LoweringRule, rules
from xpr.lowering.rules.cumulative import Scan, by_doubling
from xpr.lowering.targets._spirv import OVERRIDES
from xpr.primitives.cumulative import cumprod_p, cumsum_p
from xpr.primitives.elementwise import div_p, rem_p
from xpr.primitives.integer import clz_p

_I32, _U32 = np.dtype(np.int32), np.dtype(np.uint32)


def _div_lower(ctx: LoweringContext, x: Value, y: Value) -> Value:
    """By division with a sign: IREE does not compile the other one where an invocation has one
    element, which is then a vector.

    What fits into 31 bits has the same quotient. Otherwise that of half of `x` is half of it, to
    the next lower number, as in section 9-3 of Warren's "Hacker's Delight"; and if the upper bit
    of `y` is set, it is 0 or 1. Division by 0 gives ones only, as elsewhere.
    """
    if dtypes.kind(x.dtype) != "u" or is_small(x.dtype):
        return rules[div_p.name](ctx, x, y)
    bits = 8 * x.dtype.itemsize
    if bits < 32:
        return ctx.convert(ctx.div(ctx.convert(x, _I32), ctx.convert(y, _I32)), x.dtype)
    signed = np.dtype(f"i{x.dtype.itemsize}")
    half = ctx.bitcast(ctx.binary("shift_right_logical", x, 1), signed)
    divisor = ctx.bitcast(y, signed)
    found = ctx.bitcast(ctx.binary("shift_left", ctx.div(half, divisor), 1), x.dtype)
    rest = ctx.sub(x, ctx.mul(found, y))
    found = ctx.add(found, ctx.convert(ctx.compare("GE", rest, y), x.dtype))
    at_most_one = ctx.convert(ctx.compare("GE", x, y), x.dtype)
    return ctx.select(ctx.compare("LT", divisor, 0), at_most_one, found)


def _rem_lower(ctx: LoweringContext, x: Value, y: Value) -> Value:
    """x - trunc(x / y) y: the operation itself is wrong for the least integer."""
    if dtypes.kind(x.dtype) not in "iu" or is_small(x.dtype):
        return rules[rem_p.name](ctx, x, y)
    return ctx.sub(x, ctx.mul(_div_lower(ctx, x, y), y))


def _clz_lower(ctx: LoweringContext, x: Value) -> Value:
    """Counted in 32 bits: other widths do not compile."""
    bits = 8 * x.dtype.itemsize
    if bits == 32 or is_small(x.dtype):
        return rules[clz_p.name](ctx, x)
    y = ctx.bitcast(x, np.dtype(f"u{x.dtype.itemsize}"))
    low = ctx.unary("count_leading_zeros", ctx.convert(y, _U32))
    if bits < 32:
        return ctx.convert(ctx.sub(low, 32 - bits), x.dtype)
    upper = ctx.convert(ctx.binary("shift_right_logical", y, 32), _U32)
    high = ctx.unary("count_leading_zeros", upper)
    empty = ctx.compare("EQ", upper, 0)
    return ctx.convert(ctx.select(empty, ctx.add(low, 32), high), x.dtype)


_PRODUCT = Scan(lambda ctx, a, b: ctx.mul(a, b), 1, 1)


def _cumsum_lower(ctx: LoweringContext, x: Value, *, axis: int, reverse: bool) -> Value:
    """Complex numbers by their parts: a scan of them ends the compiler's process."""
    common = rules[cumsum_p.name]
    if not dtypes.is_complex(x.dtype):
        return common(ctx, x, axis=axis, reverse=reverse)
    return ctx.by_parts(lambda part: common(ctx, part, axis=axis, reverse=reverse), x)


def _cumprod_lower(ctx: LoweringContext, x: Value, *, axis: int, reverse: bool) -> Value:
    """Complex numbers in whole arrays, for the same reason."""
    if not dtypes.is_complex(x.dtype) or x.aval.size == 0:
        return rules[cumprod_p.name](ctx, x, axis=axis, reverse=reverse)
    return by_doubling(ctx, x, axis, reverse, _PRODUCT)


_RULES: dict[Primitive, LoweringRule] = {
    div_p: _div_lower,
    rem_p: _rem_lower,
    clz_p: _clz_lower,
    cumsum_p: _cumsum_lower,
    cumprod_p: _cumprod_lower,
}

for _primitive, _rule in _RULES.items():
    OVERRIDES[_primitive.name] = _rule
