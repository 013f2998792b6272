"""Counting arrays and arrays of zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.lowering.context import LoweringContext, Shape, Value
from xpr.lowering.registry import register
from xpr.primitives import creation as p

_INT32 = np.dtype(np.int32)
_INT64 = np.dtype(np.int64)


def _iota_lower(
    ctx: LoweringContext, *, dtype: np.dtype[Any], shape: Shape, dimension: int, sharding: Any
) -> Value:
    # Small types cannot hold every count, so the count is made in a wide one: integers then wrap
    # and floats round once.
    wide = _INT64 if shape[dimension] > np.iinfo(_INT32).max else _INT32
    if dtypes.is_integer(dtype) and dtype.itemsize >= 4:
        return ctx.iota(dtype, shape, dimension)
    return ctx.convert(ctx.iota(wide, shape, dimension), dtype)


def _empty_lower(
    ctx: LoweringContext, *, dtype: np.dtype[Any], shape: Shape, out_sharding: Any
) -> Value:
    return ctx.constant(0, dtype, shape)


register(p.iota_p, _iota_lower)
register(p.empty_p, _empty_lower)
