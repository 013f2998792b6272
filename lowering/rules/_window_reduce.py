"""What lowering rules of windows and convolutions share: padding, reductions, interleaving."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.ir.attributes import Padding
from xpr.primitives._window_dims import WindowDims, dilated

Combine = Callable[..., Sequence[Value]]


def padded(ctx: LoweringContext, x: Value, value: Value, dims: WindowDims) -> Value:
    """`x` with its elements dilated and padded as `dims` says, filled with the rank-0 `value`."""
    low = [edges[0] for edges in dims.padding]
    high = [edges[1] for edges in dims.padding]
    interior = [d - 1 for d in dims.base_dilation]
    if not any((*low, *high, *interior)):
        return x
    wide = ctx.pad(
        x,
        value,
        [n if n > 0 else 0 for n in low],
        [n if n > 0 else 0 for n in high],
        interior,
    )
    # Negative padding, which removes elements, is a slice.
    start = [-n if n < 0 else 0 for n in low]
    limit = [n + e if e < 0 else n for n, e in zip(wide.shape, high, strict=True)]
    if not any(start) and tuple(limit) == wide.shape:
        return wide
    limit = [a if b < a else b for a, b in zip(start, limit, strict=True)]
    return ctx.slice(wide, start, limit)


# ---- reductions


def reduce_directly(
    ctx: LoweringContext,
    xs: Sequence[Value],
    inits: Sequence[Value],
    body: Combine,
    dims: WindowDims,
) -> list[Value]:
    """One `stablehlo.reduce_window` of padded operands."""
    rank = len(xs[0].shape)
    shape = tuple(
        (n - dilated(w, d)) // s + 1
        for n, w, d, s in zip(
            xs[0].shape, dims.dimensions, dims.window_dilation, dims.strides, strict=True
        )
    )
    # Of an axis with a single window IREE drops the stride, and then reads as far as the operand
    # reaches: with elements beyond the window the results are other memory.
    ends = [
        dilated(w, d) if count == 1 else n
        for n, w, d, count in zip(
            xs[0].shape, dims.dimensions, dims.window_dilation, shape, strict=True
        )
    ]
    read = [ctx.slice(x, (0,) * rank, ends) if x.shape != tuple(ends) else x for x in xs]
    scalars = [((), x.dtype) for x in xs]
    region = ctx.region([*scalars, *scalars], body)
    return ctx.op(
        "stablehlo.reduce_window",
        [*read, *inits],
        [(shape, x.dtype) for x in xs],
        {
            "window_dimensions": tuple(dims.dimensions),
            "window_strides": tuple(dims.strides),
            "window_dilations": tuple(dims.window_dilation),
            "padding": Padding(((0, 0),) * rank),
        },
        [region],
    )


def reduce_by_axes(
    ctx: LoweringContext,
    xs: Sequence[Value],
    inits: Sequence[Value],
    combine: Combine,
    region_body: Combine,
    dims: WindowDims,
) -> list[Value]:
    """Reductions of padded operands along one axis after another, the last one first.

    `combine` combines whole arrays, `region_body` scalars in a region.
    """
    found = list(xs)
    for axis in reversed(range(len(xs[0].shape))):
        size, apart, stride = (
            part[axis] for part in (dims.dimensions, dims.window_dilation, dims.strides)
        )
        n = found[0].shape[axis]
        count = (n - dilated(size, apart)) // stride + 1
        if size == 1:
            found = [_part(ctx, x, axis, 0, (count - 1) * stride + 1, stride) for x in found]
        elif apart == 1 and (count == 1 or stride >= size):
            # No two windows share elements: they are the rows of a reshaped array.
            rows = _rows(ctx, found, axis, count, stride if count > 1 else size, size)
            found = ctx.reduce(rows, inits, (axis + 1,), region_body)
        else:
            found = _doubled(ctx, found, axis, combine, size, apart)
            found = [_part(ctx, x, axis, 0, (count - 1) * stride + 1, stride) for x in found]
    return found


def _rows(
    ctx: LoweringContext, xs: Sequence[Value], axis: int, count: int, stride: int, size: int
) -> list[Value]:
    """Windows of `size` elements, `stride` apart, as an axis after `axis`."""
    rows = []
    for x in xs:
        missing = count * stride - x.shape[axis]
        if missing > 0:
            # The last stride may reach beyond the array; what it reads there is cut off below.
            tail = _part(ctx, x, axis, 0, missing)
            whole = ctx.concatenate([x, tail], axis)
        else:
            whole = _part(ctx, x, axis, 0, count * stride)
        shape = (*x.shape[:axis], count, stride, *x.shape[axis + 1 :])
        rows.append(_part(ctx, ctx.reshape(whole, shape), axis + 1, 0, size))
    return rows


def _doubled(
    ctx: LoweringContext, xs: Sequence[Value], axis: int, combine: Combine, size: int, apart: int
) -> list[Value]:
    """Reductions of `size` elements `apart` from every start, of 1, 2, 4, ... elements."""
    count = xs[0].shape[axis] - dilated(size, apart) + 1
    power, length, at = list(xs), 1, 0
    total: list[Value] | None = None
    while size:
        if size & 1:
            piece = [_part(ctx, x, axis, at, at + count) for x in power]
            total = piece if total is None else list(combine(*total, *piece))
            at += length * apart
        size >>= 1
        if size:
            step, n = length * apart, power[0].shape[axis]
            power = list(
                combine(
                    *(_part(ctx, x, axis, 0, n - step) for x in power),
                    *(_part(ctx, x, axis, step, n) for x in power),
                )
            )
            length *= 2
    if total is None:
        raise AssertionError("a window has at least one element")
    return total


def _part(
    ctx: LoweringContext, x: Value, axis: int, start: int, stop: int, stride: int = 1
) -> Value:
    if start == 0 and stop == x.shape[axis] and stride == 1:
        return x
    starts, stops, strides = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
    starts[axis], stops[axis], strides[axis] = start, stop, stride
    return ctx.slice(x, starts, stops, strides)


def interleave(
    ctx: LoweringContext,
    parts: dict[tuple[int, ...], Value],
    strides: Sequence[int],
    quotients: Sequence[int],
) -> Value:
    """The array whose element s * q + r is element q of the part of phase r."""
    current = parts
    sizes = list(quotients)
    for axis in reversed(range(len(strides))):
        stride = strides[axis]
        merged: dict[tuple[int, ...], Value] = {}
        for phase in itertools.product(*map(range, strides[:axis])):
            if stride == 1:
                merged[phase] = current[(*phase, 0)]
                continue
            rows = (*sizes[: axis + 1], 1, *sizes[axis + 1 :])
            pieces = [ctx.reshape(current[(*phase, r)], rows) for r in range(stride)]
            shape = (*sizes[:axis], sizes[axis] * stride, *sizes[axis + 1 :])
            merged[phase] = ctx.reshape(ctx.concatenate(pieces, axis + 1), shape)
        sizes[axis] *= stride
        current = merged
    return current[()]
