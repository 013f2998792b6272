"""Static and dynamic slices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xpr.lowering.context import LoweringContext, Shape, Value
from xpr.lowering.registry import register
from xpr.lowering.rules._in_memory import bits, in_memory, is_sparse
from xpr.lowering.rules._indexing import (
    clamped_index,
    dynamic_slice,
    dynamic_update_slice,
    select_at,
)
from xpr.primitives import slicing as p


def _starts(ctx: LoweringContext, x: Value, sizes: Shape, starts: tuple[Value, ...]) -> list[Value]:
    limits = [total - size for total, size in zip(x.shape, sizes, strict=True)]
    return [clamped_index(ctx, i, limit) for i, limit in zip(starts, limits, strict=True)]


def _slice_lower(
    ctx: LoweringContext,
    x: Value,
    *,
    start_indices: Shape,
    limit_indices: Shape,
    strides: Shape | None,
) -> Value:
    return ctx.slice(x, start_indices, limit_indices, strides)


def _dynamic_slice_lower(
    ctx: LoweringContext, x: Value, *starts: Value, slice_sizes: Shape
) -> Value:
    if slice_sizes == x.shape:
        return x
    if 0 in slice_sizes:
        return ctx.constant(0, x.dtype, slice_sizes)
    return dynamic_slice(ctx, x, _starts(ctx, x, slice_sizes, starts), slice_sizes)


def _dynamic_update_slice_lower(
    ctx: LoweringContext, x: Value, update: Value, *starts: Value
) -> Value:
    if update.shape == x.shape:
        return update
    if 0 in update.shape:
        return x
    numbers = [i.number for i in starts]
    if x.dtype.kind != "c" and 2 * update.aval.size >= x.aval.size and None not in numbers:
        places = [
            min(max(n or 0, 0), total - size)
            for n, total, size in zip(numbers, x.shape, update.shape, strict=True)
        ]
        return _select_inside(ctx, x, update, places)
    if ctx.target.single_dispatch_loops and is_sparse(ctx, x, update):
        operands = [bits(ctx, x), bits(ctx, update), *starts]
        found = in_memory(ctx, p.dynamic_update_slice_p, operands)
        if found is not None:
            return ctx.bitcast(found, x.dtype)
    inside = _starts(ctx, x, update.shape, starts)
    chosen = select_at(ctx, x, update, inside) if ctx.in_region else None
    return chosen or dynamic_update_slice(ctx, x, update, inside)


def _select_inside(ctx: LoweringContext, x: Value, update: Value, places: Sequence[int]) -> Value:
    """Most of an array written at a place known now: one pass over memory.

    As an update in place it would take two: one for the update, which may be computed from the
    array itself, and one to copy it.
    """
    after = [t - p - s for p, t, s in zip(places, x.shape, update.shape, strict=True)]
    padded = ctx.pad(update, ctx.constant(0, x.dtype), places, after, [0] * len(places))
    inside: Value | None = None
    for axis, (place, size) in enumerate(zip(places, update.shape, strict=True)):
        if size == x.shape[axis]:
            continue
        index = ctx.iota(np.int32, x.shape, axis)
        here = ctx.and_(ctx.compare("GE", index, place), ctx.compare("LT", index, place + size))
        inside = here if inside is None else ctx.and_(inside, here)
    assert inside is not None  # the update is smaller than the array
    return ctx.select(inside, padded, x)


register(p.slice_p, _slice_lower)
register(p.dynamic_slice_p, _dynamic_slice_lower)
register(p.dynamic_update_slice_p, _dynamic_update_slice_lower)
