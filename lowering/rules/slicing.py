"""Static and dynamic slices."""

from __future__ import annotations

from xpr.lowering.context import LoweringContext, Shape, Value
from xpr.lowering.registry import register
from xpr.lowering.rules._indexing import clamped_index, dynamic_slice, dynamic_update_slice
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
    return dynamic_update_slice(ctx, x, update, _starts(ctx, x, update.shape, starts))


register(p.slice_p, _slice_lower)
register(p.dynamic_slice_p, _dynamic_slice_lower)
register(p.dynamic_update_slice_p, _dynamic_update_slice_lower)
