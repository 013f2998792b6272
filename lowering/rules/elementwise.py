"""Elementwise arithmetic: signs, sums, products, quotients, extremes, parts and rounding."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.numerics import complex_arithmetic, remainder
from xpr.lowering.numerics.expr import Expr, where
from xpr.lowering.numerics.kernel import kernel, map_complex, map_scalars
from xpr.lowering.registry import LoweringRule, register
from xpr.lowering.rules.compare import extreme
from xpr.primitives import elementwise as p
from xpr.primitives._complex import real_dtype


def _unary(op: str) -> LoweringRule:
    def lower(ctx: LoweringContext, x: Value, **_: Any) -> Value:
        return ctx.unary(op, x)

    return lower


def _binary(op: str) -> LoweringRule:
    def lower(ctx: LoweringContext, x: Value, y: Value) -> Value:
        return ctx.binary(op, x, y)

    return lower


def _extreme(direction: str) -> LoweringRule:
    def lower(ctx: LoweringContext, x: Value, y: Value) -> Value:
        return extreme(ctx, direction, x, y)

    return lower


def _complex_lower(ctx: LoweringContext, x: Value, y: Value) -> Value:
    return ctx.complex(*ctx.match(x, y))


def _abs_lower(ctx: LoweringContext, x: Value) -> Value:
    if dtypes.is_complex(x.dtype):
        return map_complex(ctx, complex_arithmetic.absolute, [x], real_dtype(x.dtype))
    return ctx.abs(x)


def _conj_lower(ctx: LoweringContext, x: Value, *, input_dtype: Any) -> Value:
    if not dtypes.is_complex(x.dtype):
        return _complex_lower(ctx, x, ctx.full_like(x, 0.0))
    return ctx.complex(ctx.real(x), ctx.neg(ctx.imag(x)))


def _sign_lower(ctx: LoweringContext, x: Value) -> Value:
    kind = dtypes.kind(x.dtype)
    if kind == "u":
        return ctx.minimum(x, 1)
    if kind == "i":
        return ctx.unary("sign", x)
    if kind == "c":
        return map_complex(ctx, complex_arithmetic.sign, [x])
    # On the bits, since a comparison would take a denormal for 0: one with the sign of x, where x
    # is neither 0 nor NaN.
    bits_type = np.dtype(f"u{x.dtype.itemsize}")
    bits = ctx.bitcast(x, bits_type)
    size_bits = ctx.and_(bits, (1 << (8 * x.dtype.itemsize - 1)) - 1)
    one, infinity = (int(np.asarray(v, x.dtype).view(bits_type)) for v in (1.0, np.inf))
    unit = ctx.bitcast(ctx.or_(ctx.xor(bits, size_bits), one), x.dtype)
    # Zero wraps around to the greatest integer, which is beyond infinity as NaNs are.
    known = ctx.compare("LT", ctx.sub(size_bits, 1), infinity)
    return ctx.select(known, unit, x)


def _round_lower(ctx: LoweringContext, x: Value, *, rounding_method: p.RoundingMethod) -> Value:
    even = rounding_method == p.RoundingMethod.TO_NEAREST_EVEN
    return ctx.unary("round_nearest_even" if even else "round_nearest_afz", x)


def _rem_lower(ctx: LoweringContext, x: Value, y: Value) -> Value:
    if dtypes.is_integer(x.dtype):
        return ctx.rem(x, y)
    known = ctx.known_number(y)
    if known is not None and remainder.is_simple(known):
        return kernel(partial(remainder.fmod_simple, divisor=known))(ctx, x)
    return kernel(remainder.fmod)(ctx, x, y)


def divide_values(ctx: LoweringContext, x: Value, y: Value) -> Value:
    """`x / y` as the primitive computes it."""
    if dtypes.is_complex(x.dtype):
        return map_complex(ctx, complex_arithmetic.divide, [x, y])
    return ctx.div(x, y)


def _nextafter_lower(ctx: LoweringContext, x: Value, y: Value) -> Value:
    return map_scalars(ctx, _next_after, [x, y])


def _next_after(x: Expr, y: Expr) -> Expr:
    """Steps through the numbers by their bits, which order them like integers."""
    signed = np.dtype(f"i{x.dtype.itemsize}")
    sign_bit = int(np.iinfo(signed).min)
    bits, target = x.bits(signed), y.bits(signed)
    size, target_size = bits & ~sign_bit, target & ~sign_bit
    # Whole-number order of the numbers: negative ones count downwards from zero.
    order = where(bits < 0, -size, size)
    target_order = where(target < 0, -target_size, target_size)
    outwards = (target_order > order).eq(bits >= 0)
    away = where(outwards, bits + 1, bits - 1)
    from_zero = (target & sign_bit) | 1
    result = where(size.eq(0), from_zero, away)
    infinity = int(np.asarray(np.inf, x.dtype).view(signed))
    nan = (size > infinity) | (target_size > infinity)
    result = where(order.eq(target_order), target, result)
    return where(nan, np.nan, result.bits(x.dtype))


_RULES: dict[Primitive, LoweringRule] = {
    p.add_p: _binary("add"),
    p.add_any_p: _binary("add"),
    p.sub_p: _binary("subtract"),
    p.mul_p: _binary("multiply"),
    p.div_p: divide_values,
    p.rem_p: _rem_lower,
    p.max_p: _extreme("GT"),
    p.min_p: _extreme("LT"),
    p.neg_p: _unary("negate"),
    p.sign_p: _sign_lower,
    p.abs_p: _abs_lower,
    p.real_p: LoweringContext.real,
    p.imag_p: LoweringContext.imag,
    p.conj_p: _conj_lower,
    p.complex_p: _complex_lower,
    p.floor_p: _unary("floor"),
    p.ceil_p: _unary("ceil"),
    p.round_p: _round_lower,
    p.nextafter_p: _nextafter_lower,
}

for _primitive, _rule in _RULES.items():
    register(_primitive, _rule)
