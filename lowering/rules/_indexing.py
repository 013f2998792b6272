"""Guards that gather, scatter and dynamic slices share: no index leaves the array."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xpr.core import dtypes
from xpr.lowering.context import LoweringContext, Value

_INT32 = np.dtype(np.int32)
_INT64 = np.dtype(np.int64)
_BOOL = np.dtype(np.bool_)


def clamped_index(ctx: LoweringContext, index: Value, limit: int) -> Value:
    """`index` moved into 0 .. limit, as a signed tensor of 32 bits (64 where limit needs them).

    It is clamped in its own type first: a great unsigned index must not turn negative.
    """
    if limit == 0:
        return ctx.constant(0, _INT32, index.shape)
    if dtypes.kind(index.dtype) == "i":
        index = ctx.maximum(index, 0)
    if limit < np.iinfo(index.dtype).max:
        index = ctx.minimum(index, limit)
    return ctx.convert(index, _INT32 if limit <= np.iinfo(_INT32).max else _INT64)


def index_columns(ctx: LoweringContext, indices: Value) -> list[Value]:
    """The components of index vectors (last axis), each without that axis.

    Those that were joined for the vectors are taken as they are: read at a distance of the others'
    they would be copied to there first, and read one by one.
    """
    *batch, count = indices.shape
    joined = indices.op
    if (
        joined is not None
        and joined.name == "stablehlo.concatenate"
        and joined.attributes["dim"] == len(batch)
        and len(joined.operands) == count
    ):
        parts: list[Value] = list(joined.operands)
    else:
        low = [0] * len(batch)
        parts = [ctx.slice(indices, [*low, k], [*batch, k + 1]) for k in range(count)]
    return [ctx.reshape(x, batch) for x in parts]


def columns_inside(
    ctx: LoweringContext, columns: Sequence[Value], limits: Sequence[int]
) -> Value | None:
    """Where 0 <= component k <= limits[k] for all k; None without components."""
    ok = None
    for column, limit in zip(columns, limits, strict=True):
        most = min(limit, np.iinfo(column.dtype).max)
        inside = ctx.compare("LE", column, most)
        if dtypes.kind(column.dtype) == "i":
            inside = ctx.and_(inside, ctx.compare("GE", column, 0))
        ok = inside if ok is None else ctx.and_(ok, inside)
    return ok


def _bounds(ctx: LoweringContext, indices: Value, limits: Sequence[int]) -> Value:
    """Upper limits of the components of index vectors (their last axis), in the indices' type."""
    most = np.iinfo(indices.dtype).max
    row = np.array([min(limit, most) for limit in limits], indices.dtype)
    if len(set(row.tolist())) == 1:
        return ctx.constant(row[0], indices.dtype, indices.shape)
    return ctx.broadcast_in_dim(ctx.dense(row), indices.shape, (len(indices.shape) - 1,))


def clamped_starts(ctx: LoweringContext, indices: Value, limits: Sequence[int]) -> Value:
    """Index vectors (last axis) with component k moved into 0 .. limits[k]."""
    if not any(limits):
        return ctx.constant(0, _INT32, indices.shape)
    if dtypes.kind(indices.dtype) == "i":
        indices = ctx.maximum(indices, 0)
    indices = ctx.minimum(indices, _bounds(ctx, indices, limits))
    wide = max(limits) > np.iinfo(_INT32).max
    return ctx.convert(indices, _INT64 if wide else _INT32)


def windows_inside(ctx: LoweringContext, indices: Value, limits: Sequence[int]) -> Value:
    """For each index vector whether 0 <= component k <= limits[k] for all k."""
    shape = indices.shape[:-1]
    if not limits:
        return ctx.constant(True, _BOOL, shape)
    ok = ctx.compare("LE", indices, _bounds(ctx, indices, limits))
    if dtypes.kind(indices.dtype) == "i":
        ok = ctx.and_(ok, ctx.compare("GE", indices, 0))
    if len(limits) == 1:
        return ctx.reshape(ok, shape)
    (every,) = ctx.reduce(
        [ok], [ctx.constant(True, _BOOL)], [len(shape)], lambda c, a, b: [c.and_(a, b)]
    )
    return every


def dynamic_slice(
    ctx: LoweringContext, x: Value, starts: Sequence[Value], sizes: Sequence[int]
) -> Value:
    """`stablehlo.dynamic_slice` at starts that lie inside."""
    sizes = tuple(sizes)
    if sizes == x.shape:
        return x
    found = _same_type(ctx, starts)
    operands = (x, *found)
    return ctx.assign("stablehlo.dynamic_slice", operands, sizes, x.dtype, {"sizes": sizes})


def dynamic_update_slice(
    ctx: LoweringContext, x: Value, update: Value, starts: Sequence[Value]
) -> Value:
    """`stablehlo.dynamic_update_slice` at starts that lie inside."""
    if update.shape == x.shape:
        return update
    found = _same_type(ctx, starts)
    operands = (x, update, *found)
    return ctx.assign("stablehlo.dynamic_update_slice", operands, x.shape, x.dtype)


def select_at(
    ctx: LoweringContext, x: Value, update: Value, starts: Sequence[Value]
) -> Value | None:
    """`dynamic_update_slice` as a choice for every element, for the bodies of loops.

    There IREE copies the array for an update in place. None unless the update has size 1 or all of
    `x` on each axis.
    """
    chosen: Value | None = None
    for axis, (start, size) in enumerate(zip(starts, update.shape, strict=True)):
        if size == x.shape[axis]:
            continue
        if size != 1:
            return None
        index = ctx.iota(start.dtype, x.shape, axis)
        here = ctx.compare("EQ", index, ctx.broadcast_in_dim(start, x.shape, ()))
        chosen = here if chosen is None else ctx.and_(chosen, here)
    if chosen is None:
        return update
    kept = [i for i, size in enumerate(update.shape) if size == x.shape[i]]
    part = ctx.reshape(update, [update.shape[i] for i in kept])
    return ctx.select(chosen, ctx.broadcast_in_dim(part, x.shape, kept), x)


def _same_type(ctx: LoweringContext, starts: Sequence[Value]) -> list[Value]:
    if len({i.dtype for i in starts}) > 1:
        return [ctx.convert(i, _INT64) for i in starts]
    return list(starts)
