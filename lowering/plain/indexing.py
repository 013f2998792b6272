"""Gathers and scatters: one operation each, and what their modes ask for beside it.

StableHLO clamps the starts of a gather, and drops the windows of a scatter that reach outside.
"""

from __future__ import annotations

from typing import Any

from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.ir.attributes import GatherNumbers, ScatterNumbers
from xpr.lowering.registry import LoweringRule, register_plain
from xpr.lowering.rules._indexing import clamped_starts, windows_inside
from xpr.lowering.rules._programs import inline_program
from xpr.primitives import gather as g
from xpr.primitives import scatter as s


def _gather(
    ctx: LoweringContext,
    x: Value,
    indices: Value,
    *,
    dimension_numbers: g.GatherDimensionNumbers,
    slice_sizes: tuple[int, ...],
    indices_are_sorted: bool,
    mode: g.GatherScatterMode,
    fill_value: Any,
    **_: Any,
) -> Value:
    dims = dimension_numbers
    (out,) = ctx.out_avals
    if out.size == 0:
        return ctx.constant(0, out.dtype, out.shape)
    numbers = GatherNumbers(
        dims.offset_dims,
        dims.collapsed_slice_dims,
        dims.start_index_map,
        len(indices.shape) - 1,
        dims.operand_batching_dims,
        dims.start_indices_batching_dims,
    )
    about = {
        "dimension_numbers": numbers,
        "slice_sizes": tuple(slice_sizes),
        "indices_are_sorted": bool(indices_are_sorted),
    }
    found = ctx.assign("stablehlo.gather", [x, indices], out.shape, out.dtype, about)
    if mode is not g.GatherScatterMode.FILL_OR_DROP:
        return found
    limits = [x.shape[a] - slice_sizes[a] for a in dims.start_index_map]
    batch = [i for i in range(len(out.shape)) if i not in dims.offset_dims]
    inside = ctx.broadcast_in_dim(windows_inside(ctx, indices, limits), out.shape, batch)
    return ctx.select(inside, found, ctx.full_like(found, g.gather_fill(x.dtype, fill_value)))


def _scatter(name: str) -> LoweringRule:
    def lower(
        ctx: LoweringContext,
        x: Value,
        indices: Value,
        updates: Value,
        *,
        dimension_numbers: s.ScatterDimensionNumbers,
        update_jaxpr: ClosedJaxpr | None,
        indices_are_sorted: bool,
        unique_indices: bool,
        mode: s.GatherScatterMode,
        **_: Any,
    ) -> Value:
        if updates.aval.size == 0 or x.aval.size == 0:
            return x
        dims = dimension_numbers
        if mode is s.GatherScatterMode.CLIP:
            sizes = s.window_sizes(x.shape, updates.shape, dims)
            limits = [x.shape[a] - sizes[a] for a in dims.scatter_dims_to_operand_dims]
            indices = clamped_starts(ctx, indices, limits)
        numbers = ScatterNumbers(
            dims.update_window_dims,
            dims.inserted_window_dims,
            dims.scatter_dims_to_operand_dims,
            len(indices.shape) - 1,
            dims.operand_batching_dims,
            dims.scatter_indices_batching_dims,
        )

        def body(inner: LoweringContext, old: Value, new: Value) -> list[Value]:
            return (
                [new] if update_jaxpr is None else inline_program(inner, update_jaxpr, [old, new])
            )

        region = ctx.region([((), x.dtype), ((), x.dtype)], body)
        about = {
            "scatter_dimension_numbers": numbers,
            "indices_are_sorted": bool(indices_are_sorted),
            "unique_indices": bool(unique_indices),
        }
        types = [(x.shape, x.dtype)]
        return ctx.op("stablehlo.scatter", [x, indices, updates], types, about, [region])[0]

    return lower


_SCATTERS: tuple[Primitive, ...] = (
    s.scatter_p,
    s.scatter_add_p,
    s.scatter_sub_p,
    s.scatter_mul_p,
    s.scatter_min_p,
    s.scatter_max_p,
)

register_plain(g.gather_p, _gather)
for _primitive in _SCATTERS:
    register_plain(_primitive, _scatter(_primitive.name))
