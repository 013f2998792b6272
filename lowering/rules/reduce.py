"""Lowering of reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.jaxpr import ClosedJaxpr
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import LoweringRule, register
from xpr.lowering.rules._programs import inline_program
from xpr.primitives import reduce as p
from xpr.primitives.convert import convert_element_type

_F32 = np.dtype(np.float32)
_I8 = np.dtype(np.int8)
_I32 = np.dtype(np.int32)


def _reduce_once(
    ctx: LoweringContext, x: Value, op: str, identity: Any, axes: Sequence[int]
) -> Value:
    """One `stablehlo.reduce` with the operation `op`."""
    init = ctx.constant(identity, x.dtype)
    return ctx.reduce([x], [init], axes, lambda inner, a, b: [inner.binary(op, a, b)])[0]


# A reduction of rows that are longer counts as one of this length: they are cut into such.
_LONG_ROW = 1 << 13
# Blocks of rows are whole vectors on every device.
_STEP = 16


def reduce_in_blocks(
    ctx: LoweringContext, x: Value, op: str, identity: Any, axes: Sequence[int]
) -> Value:
    """A reduction in stages, each over a run of elements that one core reduces quickly and exactly.

    The target's `forms.reductions` say how long a run is. A float sum of n elements in one go has
    an error that grows with n; here it grows with the number of stages. On a CPU a full sum of 16M
    float32 values takes a tenth of the time of a single `stablehlo.reduce`, one of the columns of a
    4096 x 4096 matrix a third.
    """
    if x.aval.size <= ctx.target.forms.reductions.at_once:
        return _reduce_once(ctx, x, op, identity, axes)
    rest = list(axes)
    while rest:
        last = len(x.shape) - 1
        if last in rest and last - 1 in rest:
            # Trailing axes that are reduced both are one axis.
            x = ctx.reshape(x, (*x.shape[: last - 1], x.shape[last - 1] * x.shape[last]))
            rest.remove(last)
        elif last in rest:
            x = _reduce_rows(ctx, x, op, identity)
            rest.remove(last)
        else:
            return _reduce_leading(ctx, x, op, identity, rest)
    return x


def _reduce_rows(ctx: LoweringContext, x: Value, op: str, identity: Any) -> Value:
    """A reduction of the last axis."""
    axis = len(x.shape) - 1
    extent = x.shape[axis]
    sizes = ctx.target.forms.reductions
    whole = extent - extent % sizes.vector
    if math.prod(x.shape[:axis]) >= sizes.busy_rows:
        whole = extent
    elif extent > sizes.long_row:
        half = sizes.long_row // 2
        block = next((b for b in range(half, half // 8, -_STEP) if extent % b == 0), half)
        whole = extent - extent % block
        if whole == extent:
            rows = ctx.reshape(x, (*x.shape[:axis], extent // block, block))
            return _reduce_rows(ctx, _reduce_rows(ctx, rows, op, identity), op, identity)
    elif extent < 4 * sizes.vector:
        whole = extent
    if whole == extent:
        return _reduce_once(ctx, x, op, identity, (axis,))
    main, tail = _cut(ctx, x, axis, whole)
    return ctx.binary(
        op, _reduce_rows(ctx, main, op, identity), _reduce_rows(ctx, tail, op, identity)
    )


def _reduce_leading(
    ctx: LoweringContext, x: Value, op: str, identity: Any, axes: Sequence[int]
) -> Value:
    """A reduction over other axes than the last one, in blocks along the longest of them."""
    axis = max(axes, key=lambda a: x.shape[a])
    extent = x.shape[axis]
    sizes = ctx.target.forms.reductions
    block = sizes.block
    results = math.prod(n for i, n in enumerate(x.shape) if i not in axes)
    if extent < sizes.split or results >= sizes.busy_columns:
        return _reduce_once(ctx, x, op, identity, axes)
    if extent % block:
        # Padding would copy everything.
        main, tail = _cut(ctx, x, axis, extent - extent % block)
        found = _reduce_leading(ctx, main, op, identity, axes)
        return ctx.binary(op, found, _reduce_once(ctx, tail, op, identity, axes))
    shape = (*x.shape[:axis], extent // block, block, *x.shape[axis + 1 :])
    partial = _reduce_once(ctx, ctx.reshape(x, shape), op, identity, (axis + 1,))
    return _reduce_leading(ctx, partial, op, identity, axes)


def _cut(ctx: LoweringContext, x: Value, axis: int, at: int) -> tuple[Value, Value]:
    """The parts of `x` before and from index `at` of `axis`."""
    start, stop = [0] * len(x.shape), list(x.shape)
    start[axis] = stop[axis] = at
    return ctx.slice(x, [0] * len(x.shape), stop), ctx.slice(x, start, x.shape)


def _reduction(op: str, identity: Callable[[np.dtype[Any]], Any]) -> LoweringRule:
    def lower(ctx: LoweringContext, x: Value, *, axes: tuple[int, ...], **_: Any) -> Value:
        out = ctx.out_avals[0]
        if not axes:
            return x
        start = identity(x.dtype)
        if 0 in x.shape:
            return ctx.constant(start, out.dtype, out.shape)
        length = min(x.aval.size // max(out.size, 1), _LONG_ROW)
        ctx.module.note_reduction(length)
        ctx.module.flops += x.aval.size - out.size
        kind = dtypes.kind(x.dtype)
        if kind == "c" and op in ("maximum", "minimum"):
            return _complex_extremum(ctx, x, op, start, axes)
        if kind == "b":
            # Single bits are reduced one by one, bytes in vectors.
            name = {"maximum": "or", "minimum": "and"}.get(op, op)
            found = reduce_in_blocks(ctx, ctx.convert(x, _I8), name, int(start), axes)
            return ctx.compare("NE", found, 0)
        if kind == "f" and x.dtype.itemsize == 2:
            wide = reduce_in_blocks(ctx, ctx.convert(x, _F32), op, start, axes)
            return ctx.inline(convert_element_type, wide, new_dtype=x.dtype)
        return reduce_in_blocks(ctx, x, op, start, axes)

    return lower


def _complex_extremum(
    ctx: LoweringContext, x: Value, op: str, start: complex, axes: Sequence[int]
) -> Value:
    """By real part, then imaginary part; the first NaN wins. The parts are reduced as a pair."""
    parts = ctx.parts(x)
    # Infinite in both parts: an infinity with any imaginary part is kept against it.
    inits = [ctx.constant(start.real, parts[0].dtype)] * 2
    better = "GT" if op == "maximum" else "LT"

    def body(inner: LoweringContext, ar: Value, ai: Value, br: Value, bi: Value) -> list[Value]:
        a_nan = inner.or_(inner.compare("NE", ar, ar), inner.compare("NE", ai, ai))
        b_nan = inner.or_(inner.compare("NE", br, br), inner.compare("NE", bi, bi))
        tie = inner.and_(inner.compare("EQ", ar, br), inner.not_(inner.compare(better, bi, ai)))
        first = inner.or_(inner.compare(better, ar, br), tie)
        take = inner.or_(a_nan, inner.and_(first, inner.not_(b_nan)))
        return [inner.select(take, ar, br), inner.select(take, ai, bi)]

    real, imag = ctx.reduce(parts, inits, axes, body)
    return ctx.complex(real, imag)


register(p.reduce_sum_p, _reduction("add", lambda d: 0))
register(p.reduce_prod_p, _reduction("multiply", lambda d: 1))
register(p.reduce_max_p, _reduction("maximum", lambda d: p.limits(d)[0]))
register(p.reduce_min_p, _reduction("minimum", lambda d: p.limits(d)[1]))
register(p.reduce_and_p, _reduction("and", p.all_ones))
register(p.reduce_or_p, _reduction("or", lambda d: 0))
register(p.reduce_xor_p, _reduction("xor", lambda d: 0))


# ---- argmin and argmax


def _arg_reduction(op: str, index: int) -> LoweringRule:
    """The least index of an element equal to the extremum, or of a NaN if there is one.

    Two reductions of numbers are faster by far than one reduction of pairs.
    """

    def lower(
        ctx: LoweringContext, x: Value, *, axes: tuple[int, ...], index_dtype: np.dtype[Any]
    ) -> Value:
        (axis,) = axes
        out = ctx.out_avals[0]
        wide = np.dtype(np.int64) if x.shape[axis] > np.iinfo(_I32).max else _I32
        if 0 in x.shape:
            return ctx.constant(0, out.dtype, out.shape)
        if dtypes.kind(x.dtype) == "b":
            x = ctx.convert(x, _I8)
        is_float = dtypes.is_float(x.dtype)
        if is_float and x.dtype.itemsize == 2:
            x = ctx.convert(x, _F32)
        extremum = reduce_in_blocks(ctx, x, op, p.limits(x.dtype)[index], axes)
        kept = tuple(i for i in range(len(x.shape)) if i != axis)
        found = ctx.compare("EQ", x, ctx.broadcast_in_dim(extremum, x.shape, kept))
        if is_float:
            # NaN is its own extremum, and equal to nothing.
            found = ctx.or_(found, ctx.compare("NE", x, x))
        beyond = np.iinfo(wide).max
        places = ctx.select(found, ctx.iota(wide, x.shape, axis), beyond)
        return ctx.convert(reduce_in_blocks(ctx, places, "minimum", beyond, axes), index_dtype)

    return lower


register(p.argmin_p, _arg_reduction("minimum", 1))
register(p.argmax_p, _arg_reduction("maximum", 0))


# ---- the general reduction


def _reduce_lower(
    ctx: LoweringContext,
    *args: Value,
    jaxpr: ClosedJaxpr,
    dimensions: tuple[int, ...],
    out_sharding: Any = None,
) -> Sequence[Value]:
    half = len(args) // 2
    operands, inits = args[:half], args[half:]
    out = ctx.out_avals
    if 0 in operands[0].shape:
        return [ctx.broadcast_in_dim(i, o.shape, ()) for i, o in zip(inits, out, strict=True)]
    if not dimensions:
        # A reduction of one element each still combines it with the initial value.
        dimensions = (operands[0].aval.ndim,)
        operands = tuple(ctx.reshape(x, (*x.shape, 1)) for x in operands)
    return ctx.reduce(operands, inits, dimensions, jaxpr_body(jaxpr))


def jaxpr_body(jaxpr: ClosedJaxpr) -> Callable[..., list[Value]]:
    """`jaxpr`, a function of scalars, as the body of a region."""
    return lambda inner, *values: inline_program(inner, jaxpr, values)


register(p.reduce_p, _reduce_lower)
