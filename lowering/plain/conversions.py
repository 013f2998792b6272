"""Conversions and roundings: one operation each."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.ir.attributes import Integer32
from xpr.lowering.registry import register_plain
from xpr.primitives import convert as p
from xpr.primitives._complex import real_dtype


def convert(ctx: LoweringContext, x: Value, dtype: np.dtype[Any]) -> Value:
    """`x` in another dtype; of complex numbers the real part, where it is no complex one."""
    old, new = dtypes.kind(x.dtype), dtypes.kind(dtype)
    if x.dtype == dtype:
        return x
    if new == "b":
        return ctx.compare("NE", x, ctx.full_like(x, 0))
    if old == "c" and new != "c":
        return convert(ctx, ctx.real(x), dtype)
    if new == "c" and old != "c":
        real = convert(ctx, x, real_dtype(dtype))
        return ctx.complex(real, ctx.full_like(real, 0.0))
    return ctx.convert(x, dtype)


def _convert_element_type(
    ctx: LoweringContext, x: Value, *, new_dtype: np.dtype[Any], weak_type: bool
) -> Value:
    return convert(ctx, x, new_dtype)


def _reduce_precision(
    ctx: LoweringContext, x: Value, *, exponent_bits: int, mantissa_bits: int
) -> Value:
    sizes = {
        "exponent_bits": Integer32(exponent_bits),
        "mantissa_bits": Integer32(mantissa_bits),
    }
    return ctx.assign("stablehlo.reduce_precision", [x], x.shape, x.dtype, sizes)


register_plain(p.convert_element_type_p, _convert_element_type)
register_plain(p.reduce_precision_p, _reduce_precision)
