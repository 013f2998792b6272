"""Lowering of reductions over windows and of the selections in windows.

Small windows become one `stablehlo.reduce_window` on padded operands; a large window is reduced
axis by axis, in a number of steps that grows with the logarithm of its size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import LoweringRule, register
from xpr.lowering.rules._window_reduce import padded, reduce_by_axes, reduce_directly
from xpr.lowering.rules._window_select import add_at_selected, selected_payload
from xpr.lowering.rules.reduce import jaxpr_body
from xpr.primitives import window as p
from xpr.primitives._scalar_jaxpr import apply_elementwise, is_elementwise
from xpr.primitives._window_dims import WindowDims
from xpr.primitives.convert import convert_element_type
from xpr.primitives.elementwise import max, min
from xpr.primitives.reduce import limits

_F32 = np.dtype(np.float32)
_I8 = np.dtype(np.int8)

# Windows of up to this many elements are reduced at once, larger ones axis by axis.
_SMALL_WINDOW = 32


def _reduced(
    ctx: LoweringContext,
    x: Value,
    identity: Any,
    combine: Callable[[LoweringContext, Value, Value], Value],
    dims: WindowDims,
    small: bool = True,
) -> Value:
    """The reduction of each window of one operand; `small`: `combine` works in regions."""
    init = ctx.constant(identity, x.dtype)
    ready = padded(ctx, x, init, dims)

    def body(inner: LoweringContext, a: Value, b: Value) -> list[Value]:
        return [combine(inner, a, b)]

    if small and math.prod(dims.dimensions) <= _SMALL_WINDOW:
        return reduce_directly(ctx, [ready], [init], body, dims)[0]

    def whole(a: Value, b: Value) -> list[Value]:
        return [combine(ctx, a, b)]

    return reduce_by_axes(ctx, [ready], [init], whole, body, dims)[0]


def _named(op: str, identity: Callable[[np.dtype[Any]], Any]) -> LoweringRule:
    def combine(inner: LoweringContext, a: Value, b: Value) -> Value:
        return inner.binary(op, a, b)

    def lower(ctx: LoweringContext, x: Value, **params: Any) -> Value:
        dims = p.window_dims(**params)
        out = ctx.out_avals[0]
        start = identity(x.dtype)
        if out.size == 0 or x.aval.size == 0:
            return ctx.constant(start, out.dtype, out.shape)
        ctx.module.flops += out.size * (math.prod(dims.dimensions) - 1.0)
        kind = dtypes.kind(x.dtype)
        if kind == "c" and op != "add":
            return _complex_extreme(ctx, x, op, start, dims)
        if kind == "b":
            bits = _reduced(ctx, ctx.convert(x, _I8), int(start), combine, dims)
            return ctx.compare("NE", bits, 0)
        if kind == "f" and x.dtype.itemsize == 2:
            wide = _reduced(ctx, ctx.convert(x, _F32), start, combine, dims)
            return ctx.inline(convert_element_type, wide, new_dtype=x.dtype)
        if kind == "u":
            # IREE refuses some reductions of unsigned types. Flipping the sign bit keeps the order;
            # sums are the same bits.
            signed = np.dtype(f"i{x.dtype.itemsize}")
            flip = 0 if op == "add" else np.iinfo(signed).min
            bits = ctx.xor(ctx.bitcast(x, signed), flip)
            found = _reduced(ctx, bits, identity(signed), combine, dims)
            return ctx.bitcast(ctx.xor(found, flip), x.dtype)
        return _reduced(ctx, x, start, combine, dims)

    return lower


def _complex_extreme(
    ctx: LoweringContext, x: Value, op: str, start: complex, dims: WindowDims
) -> Value:
    function = max if op == "maximum" else min
    return _reduced(
        ctx, x, start, lambda inner, a, b: inner.inline(function, a, b), dims, small=False
    )


register(p.reduce_window_sum_p, _named("add", lambda d: 0))
register(p.reduce_window_max_p, _named("maximum", lambda d: limits(d)[0]))
register(p.reduce_window_min_p, _named("minimum", lambda d: limits(d)[1]))


def _reduce_window_lower(
    ctx: LoweringContext,
    *args: Value,
    jaxpr: ClosedJaxpr,
    consts: tuple[Any, ...],
    **params: Any,
) -> Sequence[Value]:
    half = len(args) // 2
    operands, inits = args[:half], args[half:]
    dims = p.window_dims(**params)
    out = ctx.out_avals
    starts = [ctx.broadcast_in_dim(i, o.shape, ()) for i, o in zip(inits, out, strict=True)]
    if out[0].size == 0:
        return starts
    ready = [padded(ctx, x, i, dims) for x, i in zip(operands, inits, strict=True)]
    body = jaxpr_body(jaxpr)
    simple = is_elementwise(jaxpr.jaxpr)
    if not simple or math.prod(dims.dimensions) <= _SMALL_WINDOW:
        return reduce_directly(ctx, ready, inits, body, dims)

    def combine(*values: Value) -> Sequence[Value]:
        return ctx.inline(
            lambda *arrays: tuple(apply_elementwise(jaxpr.jaxpr, jaxpr.consts, *arrays)), *values
        )

    return combine(*starts, *reduce_by_axes(ctx, ready, inits, combine, body, dims))


register(p.reduce_window_p, _reduce_window_lower)


# ---- selections


def _selection_operand(
    ctx: LoweringContext, operand: Value, select_prim: Primitive, dims: WindowDims
) -> tuple[Value, Value | None]:
    """The padded operand, and where it has elements of the operand (None: everywhere)."""
    if dtypes.is_float(operand.dtype) and operand.dtype.itemsize == 2:
        operand = ctx.convert(operand, _F32)
    outside = ctx.constant(p.outside_value(select_prim, operand.dtype), operand.dtype)
    ready = padded(ctx, operand, outside, dims)
    if ready is operand:
        return ready, None
    inside = ctx.constant(1, _I8, operand.shape)
    return ready, padded(ctx, inside, ctx.constant(0, _I8), dims)


def _select_and_gather_add_lower(
    ctx: LoweringContext, tangents: Value, operand: Value, *, select_prim: Primitive, **params: Any
) -> Value:
    dims = p.window_dims(**params)
    out = ctx.out_avals[0]
    if out.size == 0 or operand.aval.size == 0:
        return ctx.constant(0, out.dtype, out.shape)
    ready, inside = _selection_operand(ctx, operand, select_prim, dims)
    payload = padded(ctx, tangents, ctx.constant(0, tangents.dtype), dims)
    return selected_payload(ctx, ready, inside, payload, select_prim, dims, out.shape)


def _select_and_scatter_add_lower(
    ctx: LoweringContext, source: Value, operand: Value, *, select_prim: Primitive, **params: Any
) -> Value:
    dims = p.window_dims(**params)
    out = ctx.out_avals[0]
    if source.aval.size == 0 or operand.aval.size == 0:
        return ctx.constant(0, out.dtype, out.shape)
    ready, inside = _selection_operand(ctx, operand, select_prim, dims)
    narrow = dtypes.is_float(source.dtype) and source.dtype.itemsize == 2
    wide = ctx.convert(source, _F32) if narrow else source
    sums = add_at_selected(ctx, ready, inside, wide, select_prim, dims)
    # Padding undone: the operand's elements lie base_dilation apart behind the low padding.
    crop = WindowDims(
        dims.dimensions,
        dims.strides,
        tuple((-low, -high) for low, high in dims.padding),
        (1,) * len(out.shape),
        dims.window_dilation,
    )
    inner = padded(ctx, sums, ctx.constant(0, sums.dtype), crop)
    found = ctx.slice(inner, [0] * len(out.shape), inner.shape, dims.base_dilation)
    return ctx.inline(convert_element_type, found, new_dtype=out.dtype) if narrow else found


register(p.select_and_gather_add_p, _select_and_gather_add_lower)
register(p.select_and_scatter_add_p, _select_and_scatter_add_lower)
