"""Rounding to bfloat16 by integer arithmetic, for targets that do not round what was an integer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from xpr.lowering.context import LoweringContext, Value

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_U16, _U32 = np.dtype(np.uint16), np.dtype(np.uint32)
_INFINITY = 0x7F800000
_QUIET = 0x40


def round_to_bfloat16(ctx: LoweringContext, x: Value) -> Value:
    """A float32 rounded to bfloat16, halves to even; NaNs stay NaN."""
    bits = ctx.bitcast(x, _U32)
    upper = ctx.binary("shift_right_logical", bits, 16)
    rounded = ctx.add(ctx.add(bits, ctx.and_(upper, 1)), 0x7FFF)
    near = ctx.binary("shift_right_logical", rounded, 16)
    is_nan = ctx.compare("GT", ctx.and_(bits, 0x7FFFFFFF), _INFINITY)
    kept = ctx.select(is_nan, ctx.or_(upper, _QUIET), near)
    return ctx.bitcast(ctx.convert(kept, _U16), BFLOAT16)
