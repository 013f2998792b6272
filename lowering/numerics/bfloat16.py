"""Rounding to bfloat16 by integer arithmetic, for targets that do not round what was an integer."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from xpr.lowering.ir.graph import Value
from xpr.lowering.ir.writer import Writer

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_U16, _U32 = np.dtype(np.uint16), np.dtype(np.uint32)
_INFINITY = 0x7F800000
_QUIET = 0x40


def round_to_bfloat16(w: Writer, x: Value) -> Value:
    """A float32 rounded to bfloat16, halves to even; NaNs stay NaN."""
    bits = w.bitcast(x, _U32)
    upper = w.binary("shift_right_logical", bits, 16)
    rounded = w.add(w.add(bits, w.and_(upper, 1)), 0x7FFF)
    near = w.binary("shift_right_logical", rounded, 16)
    is_nan = w.compare("GT", w.and_(bits, 0x7FFFFFFF), _INFINITY)
    kept = w.select(is_nan, w.or_(upper, _QUIET), near)
    return w.bitcast(w.convert(kept, _U16), BFLOAT16)
