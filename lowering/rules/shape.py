"""Reshape, transpose, broadcast, reverse and pad."""

from __future__ import annotations

from typing import Any

from xpr.core import dtypes
from xpr.lowering.context import LoweringContext, Shape, Value
from xpr.lowering.registry import register
from xpr.primitives import shape as p


def _broadcast_in_dim_lower(
    ctx: LoweringContext, x: Value, *, shape: Shape, broadcast_dimensions: Shape, sharding: Any
) -> Value:
    return ctx.broadcast_in_dim(x, shape, broadcast_dimensions)


def _reshape_lower(
    ctx: LoweringContext, x: Value, *, new_sizes: Shape, dimensions: Shape | None, sharding: Any
) -> Value:
    return ctx.reshape(x if dimensions is None else ctx.transpose(x, dimensions), new_sizes)


def _transpose_lower(ctx: LoweringContext, x: Value, *, permutation: Shape) -> Value:
    return ctx.transpose(x, permutation)


def _squeeze_lower(ctx: LoweringContext, x: Value, *, dimensions: Shape) -> Value:
    return ctx.reshape(x, ctx.out_avals[0].shape)


def _rev_lower(ctx: LoweringContext, x: Value, *, dimensions: Shape) -> Value:
    if not dimensions:
        return x
    # IREE's conversion of `reverse` refuses unsigned element types.
    y = ctx.bitcast(x, f"int{8 * x.dtype.itemsize}") if dtypes.kind(x.dtype) == "u" else x
    along = {"dims": dimensions}
    out = ctx.assign("stablehlo.reverse", (y,), y.shape, y.dtype, along)
    return ctx.bitcast(out, x.dtype) if y is not x else out


def _pad_lower(
    ctx: LoweringContext, x: Value, padding_value: Value, *, padding_config: p.PaddingConfig
) -> Value:
    if not x.shape:
        return x
    low, high, interior = zip(*padding_config, strict=True)
    return ctx.pad(x, padding_value, low, high, interior)


register(p.broadcast_in_dim_p, _broadcast_in_dim_lower)
register(p.reshape_p, _reshape_lower)
register(p.transpose_p, _transpose_lower)
register(p.squeeze_p, _squeeze_lower)
register(p.rev_p, _rev_lower)
register(p.pad_p, _pad_lower)
