"""Conversions between dtypes, bit patterns and precisions; copies and barriers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.numerics.small_floats import decode_float8, encode_float8, is_float8
from xpr.lowering.registry import LoweringRule, register
from xpr.primitives import convert as p
from xpr.primitives._complex import real_dtype

_F32 = np.dtype(np.float32)


def _float_to_integer(ctx: LoweringContext, x: Value, dtype: np.dtype[Any]) -> Value:
    """Truncation where what does not fit becomes the nearest integer and NaN becomes 0.

    `stablehlo.convert` leaves both undefined, so it only ever sees values that fit.
    """
    info = dtypes.iinfo(dtype)
    low, high = x.dtype.type(info.min), x.dtype.type(info.max)
    if int(high) > info.max:
        high = np.nextafter(high, x.dtype.type(0))
    known = ctx.select(ctx.compare("EQ", x, x), x, 0.0)
    inside = ctx.minimum(ctx.maximum(known, low), high)
    narrow = ctx.convert(inside, np.dtype(np.int32)) if info.bits < 32 else inside
    result = ctx.convert(narrow, dtype)
    if int(high) == info.max:
        return result
    return ctx.select(ctx.compare("GT", x, high), int(info.max), result)


def convert_value(ctx: LoweringContext, x: Value, dtype: np.dtype[Any]) -> Value:
    """`x` converted as the primitive does."""
    if x.dtype == dtype:
        return x
    old, new = dtypes.kind(x.dtype), dtypes.kind(dtype)
    if old == "c":
        real, imag = ctx.parts(x)
        if new == "b":
            return ctx.or_(ctx.compare("NE", real, 0.0), ctx.compare("NE", imag, 0.0))
        if new != "c":
            return convert_value(ctx, real, dtype)
        part = real_dtype(dtype)
        return ctx.complex(ctx.convert(real, part), ctx.convert(imag, part))
    if new == "c":
        part = real_dtype(dtype)
        real = convert_value(ctx, x, part)
        return ctx.complex(real, ctx.full_like(real, 0.0))
    if is_float8(x.dtype):
        return convert_value(ctx, decode_float8(ctx, x), dtype)
    if is_float8(dtype):
        wide = x if x.dtype == np.float64 else convert_value(ctx, x, _F32)
        return encode_float8(ctx, wide, dtype)
    if new == "b":
        return ctx.compare("NE", x, 0)
    if old == "f" and new in "iu":
        wide = ctx.convert(x, _F32) if x.dtype.itemsize == 2 else x
        return _float_to_integer(ctx, wide, dtype)
    if old in "iu" and new == "f" and dtype.itemsize == 2:
        return ctx.convert(ctx.convert(x, _F32), dtype)
    return ctx.convert(x, dtype)


def _convert_element_type_lower(
    ctx: LoweringContext, x: Value, *, new_dtype: np.dtype[Any], weak_type: bool
) -> Value:
    return convert_value(ctx, x, new_dtype)


def _bitcast_convert_type_lower(
    ctx: LoweringContext, x: Value, *, new_dtype: np.dtype[Any]
) -> Value:
    if x.dtype == new_dtype:
        return x
    return ctx.assign("stablehlo.bitcast_convert", [x], ctx.out_avals[0].shape, new_dtype)


def _reduce_precision_lower(
    ctx: LoweringContext, x: Value, *, exponent_bits: int, mantissa_bits: int
) -> Value:
    """Rounding by integer arithmetic on the bits, which denormals and NaNs survive."""
    info = dtypes.finfo(x.dtype)
    bits_type = np.dtype(f"u{x.dtype.itemsize}")
    stored = int(info.nmant)
    own_exponent = 8 * x.dtype.itemsize - stored - 1
    bits = ctx.bitcast(x, bits_type)
    size_mask = (1 << (8 * x.dtype.itemsize - 1)) - 1
    infinity = ((1 << own_exponent) - 1) << stored
    size = ctx.and_(bits, size_mask)
    sign = ctx.xor(bits, size)
    special = ctx.compare("GE", size, infinity)
    if mantissa_bits < stored:
        drop = stored - mantissa_bits
        odd = ctx.and_(ctx.binary("shift_right_logical", size, drop), 1)
        size = ctx.add(ctx.add(size, odd), (1 << (drop - 1)) - 1)
        size = ctx.and_(size, size_mask & ~((1 << drop) - 1))
    if exponent_bits < own_exponent:
        bias = (1 << (own_exponent - 1)) - 1
        new_bias = (1 << (exponent_bits - 1)) - 1
        beyond = ctx.compare("GE", size, (bias + new_bias + 1) << stored)
        below = ctx.compare("LT", size, (bias - new_bias + 1) << stored)
        size = ctx.select(below, 0, ctx.select(beyond, infinity, size))
    rounded = ctx.bitcast(ctx.or_(size, sign), x.dtype)
    return ctx.select(special, x, rounded)


def _copy_lower(ctx: LoweringContext, x: Value) -> Value:
    return x


def _device_put_lower(ctx: LoweringContext, x: Value, *, memory_space: str) -> Value:
    return x


def _optimization_barrier_lower(ctx: LoweringContext, *operands: Value) -> Sequence[Value]:
    if not operands:
        return []
    types = [(v.shape, v.dtype) for v in operands]
    return ctx.op("stablehlo.optimization_barrier", operands, types)


_RULES: dict[Primitive, LoweringRule] = {
    p.convert_element_type_p: _convert_element_type_lower,
    p.bitcast_convert_type_p: _bitcast_convert_type_lower,
    p.reduce_precision_p: _reduce_precision_lower,
    p.copy_p: _copy_lower,
    p.device_put_p: _device_put_lower,
    p.optimization_barrier_p: _optimization_barrier_lower,
}

for _primitive, _rule in _RULES.items():
    register(_primitive, _rule)
