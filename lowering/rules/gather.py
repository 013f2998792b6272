"""Gather, with start indices that can never reach outside the operand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.lowering.context import LoweringContext, Shape, Value
from xpr.lowering.ir.attributes import GatherNumbers
from xpr.lowering.loops.memory.dispatch import one_pass
from xpr.lowering.loops.refusal import NotInMemory
from xpr.lowering.registry import register
from xpr.lowering.rules._indexing import (
    clamped_index,
    clamped_starts,
    columns_inside,
    index_columns,
    windows_inside,
)
from xpr.primitives import gather as p

# Fewer elements take less time than a dispatch that is written by hand takes to compile, and
# shorter rows fill no vectors.
_LEAST_IN_MEMORY = 1 << 14
_LEAST_ROW = 8


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
    if _takes_rows(ctx, x, dims, slice_sizes):
        rows = _rows_in_memory(ctx, x, index_columns(ctx, indices), dims, limits, fill)
        if rows is not None:
            return rows
    batch = [i for i in range(len(out.shape)) if i not in dims.offset_dims]
    if _takes_elements(dims, slice_sizes):
        columns = index_columns(ctx, indices)
        found = _rows(ctx, x, columns, dims, slice_sizes)
        ok = None if fill is None else columns_inside(ctx, columns, limits)
    else:
        found = _gathered(ctx, x, clamped_starts(ctx, indices, limits), dims, slice_sizes)
        ok = None if fill is None else windows_inside(ctx, indices, limits)
    if ok is None or fill is None:
        return found
    return ctx.select(ctx.broadcast_in_dim(ok, out.shape, batch), found, fill)


def _gathered(
    ctx: LoweringContext,
    x: Value,
    starts: Value,
    dims: p.GatherDimensionNumbers,
    slice_sizes: Shape,
) -> Value:
    """`stablehlo.gather` with index vectors, along the last axis, that lie inside."""
    (out,) = ctx.out_avals
    numbers = GatherNumbers(
        dims.offset_dims,
        dims.collapsed_slice_dims,
        dims.start_index_map,
        len(starts.shape) - 1,
        dims.operand_batching_dims,
        dims.start_indices_batching_dims,
    )
    return ctx.assign(
        "stablehlo.gather",
        [x, starts],
        out.shape,
        out.dtype,
        {"dimension_numbers": numbers, "slice_sizes": slice_sizes, "indices_are_sorted": False},
    )


def _takes_elements(dims: p.GatherDimensionNumbers, slice_sizes: Shape) -> bool:
    """Whether several indices choose one element each of as many first axes."""
    indexed = sorted(dims.start_index_map)
    return (
        len(indexed) > 1
        and indexed == list(range(len(indexed)))
        and all(slice_sizes[a] == 1 and a in dims.collapsed_slice_dims for a in indexed)
        and not dims.operand_batching_dims
    )


def _takes_rows(
    ctx: LoweringContext, x: Value, dims: p.GatherDimensionNumbers, slice_sizes: Shape
) -> bool:
    """Whether whole rows are taken, that stand beside each other in the result, and many."""
    (out,) = ctx.out_avals
    count = len(dims.start_index_map)
    rest = x.shape[count:]
    return (
        ctx.target.single_dispatch_loops
        and out.size >= _LEAST_IN_MEMORY
        and math.prod(rest) >= _LEAST_ROW
        and count > 0
        and dims.collapsed_slice_dims == tuple(range(count))
        and sorted(dims.start_index_map) == list(range(count))
        and slice_sizes == (*[1] * count, *rest)
        and dims.offset_dims == tuple(range(len(out.shape) - len(rest), len(out.shape)))
    )


def _rows_in_memory(
    ctx: LoweringContext,
    x: Value,
    columns: Sequence[Value],
    dims: p.GatherDimensionNumbers,
    limits: Sequence[int],
    fill: Any,
) -> Value | None:
    """Such rows by a dispatch that is written by hand; None if that does not do.

    IREE's own takes each element of a row by itself.
    """
    (out,) = ctx.out_avals
    count = len(columns)
    number = _row_numbers(ctx, x, columns, dims)
    if fill is not None:
        ok = columns_inside(ctx, columns, limits)
        number = number if ok is None else ctx.select(ok, number, -1)
    rows, width = math.prod(x.shape[:count]), math.prod(x.shape[count:])
    size = math.prod(number.shape)
    params = {
        "dimension_numbers": p.GatherDimensionNumbers((1,), (0,), (0,)),
        "slice_sizes": (1, width),
        "indices_are_sorted": False,
        "unique_indices": False,
        "mode": p.GatherScatterMode.FILL_OR_DROP
        if fill is not None
        else p.GatherScatterMode.PROMISE_IN_BOUNDS,
        "fill_value": fill,
    }
    operands = [ctx.reshape(x, (rows, width)), ctx.reshape(number, (size, 1))]

    def program(*values: Any) -> list[Any]:
        return [p.gather_p.bind(*values, **params)]

    try:
        (found,) = one_pass(ctx, trace_to_jaxpr(program, [v.aval for v in operands]), operands)
    except NotInMemory:
        return None
    return ctx.reshape(found, out.shape)


def _row_numbers(
    ctx: LoweringContext, x: Value, columns: Sequence[Value], dims: p.GatherDimensionNumbers
) -> Value:
    """The number of a row for indices of the first axes, where these are made one."""
    count = len(columns)
    rows = math.prod(x.shape[:count])
    dtype = np.dtype(np.int32 if rows <= np.iinfo(np.int32).max else np.int64)
    number: Value | None = None
    for column, axis in zip(columns, dims.start_index_map, strict=True):
        place = ctx.convert(clamped_index(ctx, column, x.shape[axis] - 1), dtype)
        stride = math.prod(x.shape[axis + 1 : count])
        term = place if stride == 1 else ctx.mul(place, stride)
        number = term if number is None else ctx.add(number, term)
    if number is None:
        raise AssertionError("a gather of rows has indices")
    return number


def _rows(
    ctx: LoweringContext,
    x: Value,
    columns: Sequence[Value],
    dims: p.GatherDimensionNumbers,
    slice_sizes: Shape,
) -> Value:
    """The same with one index: the number of a row, where the indexed axes are made one.

    The indices need no place beside each other then, from where they would be read one by one.
    """
    count = len(columns)
    rows, rest = math.prod(x.shape[:count]), x.shape[count:]
    number = _row_numbers(ctx, x, columns, dims)
    one = p.GatherDimensionNumbers(
        offset_dims=dims.offset_dims,
        # Axes of the slices that are dropped and not indexed stand behind those that are.
        collapsed_slice_dims=(
            0,
            *(a - count + 1 for a in dims.collapsed_slice_dims if a >= count),
        ),
        start_index_map=(0,),
    )
    sizes = (1, *slice_sizes[count:])
    starts = ctx.reshape(number, (*number.shape, 1))
    return _gathered(ctx, ctx.reshape(x, (rows, *rest)), starts, one, sizes)


register(p.gather_p, _gather_lower)
