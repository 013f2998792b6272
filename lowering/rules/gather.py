"""Gather, with start indices that can never reach outside the operand."""

from __future__ import annotations

from typing import Any

from xpr.lowering.context import LoweringContext, Shape, Value
from xpr.lowering.ir.attributes import GatherNumbers
from xpr.lowering.registry import register
from xpr.lowering.rules._indexing import clamped_starts, windows_inside
from xpr.primitives import gather as p


def _gather_lower(
    ctx: LoweringContext,
    x: Value,
    indices: Value,
    *,
    dimension_numbers: p.GatherDimensionNumbers,
    slice_sizes: Shape,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: p.GatherScatterMode,
    fill_value: Any,
) -> Value:
    dims = dimension_numbers
    (out,) = ctx.out_avals
    fill = p.gather_fill(x.dtype, fill_value) if mode is p.GatherScatterMode.FILL_OR_DROP else None
    if out.size == 0:
        return ctx.constant(0, out.dtype, out.shape)
    limits = [x.shape[a] - slice_sizes[a] for a in dims.start_index_map]
    starts = clamped_starts(ctx, indices, limits)
    numbers = GatherNumbers(
        dims.offset_dims,
        dims.collapsed_slice_dims,
        dims.start_index_map,
        len(indices.shape) - 1,
        dims.operand_batching_dims,
        dims.start_indices_batching_dims,
    )
    found = ctx.assign(
        "stablehlo.gather",
        [x, starts],
        out.shape,
        out.dtype,
        {"dimension_numbers": numbers, "slice_sizes": slice_sizes, "indices_are_sorted": False},
    )
    if fill is None:
        return found
    ok = windows_inside(ctx, indices, limits)
    batch = [i for i in range(len(out.shape)) if i not in dims.offset_dims]
    return ctx.select(ctx.broadcast_in_dim(ok, out.shape, batch), found, fill)


register(p.gather_p, _gather_lower)
