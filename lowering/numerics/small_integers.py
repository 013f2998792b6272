"""Integers of less than a byte, which compiled programs hold one to a byte.

IREE packs types like `i4` and then fails on most programs. So their MLIR type is that of a byte,
and each value is within the range of its own type: what an operation gives is wrapped around.
NumPy's arrays hold such an integer in the lower bits of a byte whose upper bits are zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.lowering.context import LoweringContext, Value

_BYTE = 8
_SMALL = frozenset(dtypes.SMALL_INT_TYPES)


def is_small(dtype: np.dtype[Any]) -> bool:
    """Whether `dtype` is an integer of less than a byte."""
    return dtype in _SMALL


def wrapped(ctx: LoweringContext, x: Value) -> Value:
    """`x` with its lower bits alone, the sign from the highest of them; others as they are."""
    if not is_small(x.dtype):
        return x
    unused = _BYTE - dtypes.iinfo(x.dtype).bits
    signed = dtypes.kind(x.dtype) == "i"
    right = "shift_right_arithmetic" if signed else "shift_right_logical"
    return ctx.binary(right, ctx.binary("shift_left", x, unused), unused)


def as_numpy_holds(ctx: LoweringContext, x: Value) -> Value:
    """`x` with zeros for the upper bits."""
    if not is_small(x.dtype):
        return x
    return ctx.and_(x, (1 << dtypes.iinfo(x.dtype).bits) - 1)
