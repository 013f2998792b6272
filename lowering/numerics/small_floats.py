"""Floats of 8 and 16 bits: conversions by integer arithmetic, and computing in float32.

IREE decodes some bit patterns of the 8-bit types wrongly, so they are taken apart here. The formats
are those of the OCP "8-bit Floating Point Specification" (2023) and of "FP8 Formats for Deep
Learning" (Micikevicius et al., 2022).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from xpr.core import dtypes
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import LoweringRule

F32 = np.dtype(np.float32)
_U8 = np.dtype(np.uint8)


@dataclass(frozen=True)
class _Format:
    """An 8-bit format: a sign bit, an exponent and `mantissa` bits, unless `unsigned`.

    `largest` is the greatest finite magnitude as bits, `infinity` what is beyond it becomes, and
    `nan` the bits of NaN; all bits above `infinity` (or `largest`) are NaNs. Formats with
    `nan == 0x80` have no negative zero.
    """

    mantissa: int
    bias: int
    largest: int
    infinity: int
    nan: int
    unsigned: bool = False


_FORMATS: dict[np.dtype[Any], _Format] = {
    np.dtype(ml_dtypes.float8_e3m4): _Format(4, 3, 0x6F, 0x70, 0x78),
    np.dtype(ml_dtypes.float8_e4m3): _Format(3, 7, 0x77, 0x78, 0x7C),
    np.dtype(ml_dtypes.float8_e4m3fn): _Format(3, 7, 0x7E, 0x7F, 0x7F),
    np.dtype(ml_dtypes.float8_e4m3fnuz): _Format(3, 8, 0x7F, 0x80, 0x80),
    np.dtype(ml_dtypes.float8_e4m3b11fnuz): _Format(3, 11, 0x7F, 0x80, 0x80),
    np.dtype(ml_dtypes.float8_e5m2): _Format(2, 15, 0x7B, 0x7C, 0x7E),
    np.dtype(ml_dtypes.float8_e5m2fnuz): _Format(2, 16, 0x7F, 0x80, 0x80),
    np.dtype(ml_dtypes.float8_e8m0fnu): _Format(0, 127, 0xFE, 0xFF, 0xFF, unsigned=True),
}


def is_float8(dtype: np.dtype[Any]) -> bool:
    """Whether `dtype` is one of the 8-bit floats."""
    return dtype in _FORMATS


def decode_float8(ctx: LoweringContext, x: Value) -> Value:
    """An 8-bit float as float32, exactly."""
    form = _FORMATS[x.dtype]
    u32 = np.dtype(np.uint32)
    bits = ctx.convert(ctx.bitcast(x, _U8), u32)
    size = bits if form.unsigned else ctx.and_(bits, 0x7F)
    shifted = ctx.binary("shift_left", size, 23 - form.mantissa)
    value = ctx.bitcast(ctx.add(shifted, (127 - form.bias) << 23), F32)
    if form.mantissa:
        # With an exponent field of 0 the mantissa is a whole multiple of the least number.
        tiny = ctx.mul(ctx.convert(size, F32), 2.0 ** (1 - form.bias - form.mantissa))
        value = ctx.select(ctx.compare("LT", size, 1 << form.mantissa), tiny, value)
    if form.unsigned:
        # Its exponent 0 is the subnormal 2**-127, which needs its bits set one by one.
        value = ctx.select(ctx.compare("EQ", size, 0), 2.0**-127, value)
        return ctx.select(ctx.compare("EQ", bits, form.nan), np.nan, value)
    if form.infinity < form.nan:
        value = ctx.select(ctx.compare("EQ", size, form.infinity), np.inf, value)
    value = ctx.select(ctx.compare("NE", ctx.and_(bits, 0x80), 0), ctx.neg(value), value)
    if form.nan == 0x80:
        return ctx.select(ctx.compare("EQ", bits, 0x80), np.nan, value)
    return ctx.select(ctx.compare("GT", size, min(form.infinity, form.nan - 1)), np.nan, value)


def encode_float8(ctx: LoweringContext, x: Value, dtype: np.dtype[Any]) -> Value:
    """A float32 or float64 value rounded to an 8-bit float, halves to even."""
    form = _FORMATS[dtype]
    wide = np.dtype(f"u{x.dtype.itemsize}")
    stored = 23 if x.dtype == F32 else 52
    bias = 127 if x.dtype == F32 else 1023
    bits = ctx.bitcast(x, wide)
    size_bits = ctx.and_(bits, (1 << (8 * x.dtype.itemsize - 1)) - 1)
    size = ctx.bitcast(size_bits, x.dtype)
    # Round to the format's mantissa by adding just under one half, and one more when odd.
    drop = stored - form.mantissa
    odd: Value | int = 1  # without a mantissa the only digit is 1, so that halves go up
    if form.mantissa:
        odd = ctx.and_(ctx.binary("shift_right_logical", size_bits, drop), 1)
    rounded = ctx.add(ctx.add(size_bits, odd), (1 << (drop - 1)) - 1)
    kept = ctx.binary("shift_right_logical", rounded, drop)
    offset = (bias - form.bias) << form.mantissa
    code = ctx.sub(kept, offset)
    if form.mantissa:
        # Below the normal numbers, adding this constant makes the sum's last place the least
        # number, so that the addition itself rounds.
        anchor = x.dtype.type(2.0 ** (stored + 1 - form.bias - form.mantissa))
        raised = ctx.bitcast(ctx.add(size, anchor), wide)
        tiny = ctx.sub(raised, int(anchor.view(wide)))
        code = ctx.select(ctx.compare("LT", size, 2.0 ** (1 - form.bias)), tiny, code)
    beyond = ctx.compare("GT", kept, offset + form.largest)
    code = ctx.select(beyond, form.infinity, code)
    if form.unsigned:
        # Neither zero nor a negative number can be stored.
        low = ctx.compare("LT", kept, offset)
        code = ctx.select(low, 0, code)
        valid = ctx.compare("GT", ctx.bitcast(x, np.dtype(f"i{x.dtype.itemsize}")), 0)
        code = ctx.select(valid, code, form.nan)
        return ctx.bitcast(ctx.convert(code, _U8), dtype)
    sign = ctx.binary("shift_right_logical", bits, 8 * x.dtype.itemsize - 8)
    sign = ctx.and_(sign, 0x80)
    if form.nan == 0x80:
        sign = ctx.select(ctx.compare("EQ", code, 0), 0, sign)
    code = ctx.select(ctx.compare("NE", x, x), form.nan, code)
    return ctx.bitcast(ctx.convert(ctx.or_(code, sign), _U8), dtype)


def widened(ctx: LoweringContext, x: Value) -> Value:
    """8-bit floats as float32; other values as they are."""
    return decode_float8(ctx, x) if is_float8(x.dtype) else x


def in_float32(rule: Callable[..., Value]) -> LoweringRule:
    """A rule that computes 16-bit floats in float32 and rounds the result once."""

    def lower(ctx: LoweringContext, *operands: Value, **params: Any) -> Value:
        dtype = operands[0].dtype
        if not (dtypes.is_float(dtype) and dtype.itemsize == 2):
            return rule(ctx, *operands, **params)
        wide = [ctx.convert(v, F32) if v.dtype == dtype else v for v in operands]
        result = rule(ctx, *wide, **params)
        return ctx.convert(result, dtype) if result.dtype == F32 else result

    return lower
