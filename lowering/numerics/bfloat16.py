"""Rounding to bfloat16 by integer arithmetic, which no compiler takes away again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from xpr.lowering.ir.graph import Block, Value
from xpr.lowering.ir.writer import Writer

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_U16, _U32 = np.dtype(np.uint16), np.dtype(np.uint32)
_INFINITY = 0x7F800000
_QUIET = 0x40


def round_to_bfloat16(w: Writer, x: Value, *, short_nans: bool = False) -> Value:
    """A float32 rounded to bfloat16, halves to even; NaNs stay NaN.

    `short_nans` says that the NaNs among them are numbers of bfloat16, which takes half the time.
    """
    bits = w.bitcast(x, _U32)
    upper = w.binary("shift_right_logical", bits, 16)
    rounded = w.add(w.add(bits, w.and_(upper, 1)), 0x7FFF)
    near = w.binary("shift_right_logical", rounded, 16)
    if short_nans:
        return w.bitcast(w.convert(near, _U16), BFLOAT16)
    is_nan = w.compare("GT", w.and_(bits, 0x7FFFFFFF), _INFINITY)
    kept = w.select(is_nan, w.or_(upper, _QUIET), near)
    return w.bitcast(w.convert(kept, _U16), BFLOAT16)


def mapped(
    w: Writer,
    function: Callable[..., Value],
    operands: Sequence[Value],
    dtype: np.dtype[Any],
) -> Value:
    """`function(writer, *operands)` of one shape, in one operation where that is a dispatch's."""
    shape = operands[0].shape
    if not shape or not w.block.makes_dispatches:
        return function(w, *operands)
    region = Block([Value((), v.dtype) for v in operands])
    inner = Writer(region)
    inner.source = w.source
    inner.append("stablehlo.return", (function(inner, *region.arguments),))
    axes = {"dimensions": tuple(range(len(shape)))}
    return w.assign("stablehlo.map", tuple(operands), shape, dtype, axes, (region,))
