"""Derivative, transpose and batching rules of windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.primitive import DerivedRule, Primitive, Rule, get_primitive
from xpr.interpreters.batching import batch_flat
from xpr.interpreters.jvp import jvp_flat
from xpr.primitives import _ops as ops
from xpr.primitives._reduce_rules import combining
from xpr.primitives._window_dims import WindowDims, dilated, window_dims
from xpr.primitives.rules import BatchAxis, Dim, Zero, at_front, shape_of

# What a parameter says about an axis along which each element is a window of its own.
_TRIVIAL: dict[str, Any] = {
    "window_dimensions": 1,
    "window_strides": 1,
    "padding": (0, 0),
    "base_dilation": 1,
    "window_dilation": 1,
}


# ---- batching


def _with_axis(params: dict[str, Any], dim: int) -> dict[str, Any]:
    """The parameters for operands with one more axis at `dim`."""
    return {
        k: (*v[:dim], _TRIVIAL[k], *v[dim:]) if k in _TRIVIAL and v is not None else v
        for k, v in params.items()
    }


class WindowBatch(DerivedRule):
    """Windows over operands of one shape."""

    def rule_for(self, primitive: Primitive) -> Rule:
        def batch(
            axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], **params: Any
        ) -> tuple[Any, int]:
            place = next(d for d in dims if d is not None)
            if any(d != place for d in dims):
                place = 0
                args = [at_front(axis, x, d) for x, d in zip(args, dims, strict=True)]
            return primitive.bind(*args, **_with_axis(params, place)), place

        return batch


def reduce_window_batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], **params: Any
) -> tuple[list[Any], Sequence[Dim]]:
    half = len(args) // 2
    if any(d is not None for d in dims[half:]):
        return batch_flat(lambda *xs: reduce_window_by_slices(*xs, **params), axis, args, dims)
    operands = [at_front(axis, x, d) for x, d in zip(args[:half], dims, strict=False)]
    out = ops.bind("reduce_window", *operands, *args[half:], **_with_axis(params, 0))
    return out, [0] * half


# ---- sums


def window_sum_transpose(ct: Any, x: Any, **params: Any) -> list[Any]:
    """The sum of the cotangents of all windows that an element is in: windows over cotangents.

    Window o has element k at place o s + k w of the padded operand, in which element i is at
    l + i b (stride s, dilations w and b, low padding l). So the cotangents of i, spread s apart,
    are at l + i b - k w: windows of the same size and dilation, with stride b.
    """
    dims = window_dims(**params)
    shape, windows = shape_of(x), shape_of(ct)
    if 0 in shape or 0 in windows:
        return [Zero(x.aval)]
    padding = []
    for axis, (n, count) in enumerate(zip(shape, windows, strict=True)):
        reach = dilated(dims.dimensions[axis], dims.window_dilation[axis]) - 1
        low = reach - dims.padding[axis][0]
        needed = dilated(n, dims.base_dilation[axis]) + reach
        padding.append((low, needed - low - dilated(count, dims.strides[axis])))
    found = ops.bind(
        "reduce_window_sum",
        ct,
        window_dimensions=dims.dimensions,
        window_strides=dims.base_dilation,
        padding=tuple(padding),
        base_dilation=dims.strides,
        window_dilation=dims.window_dilation,
    )
    return [found]


# ---- extremes, and the selections that they are differentiated with


def selected_tangent(comparison: str) -> Rule:
    """The tangent of each window's extremum: that of the first element that is it."""

    def tangent(t: Any, out: Any, x: Any, **params: Any) -> Any:
        return ops.bind(
            "select_and_gather_add", t, x, select_prim=get_primitive(comparison), **params
        )

    return tangent


def gather_transpose(ct: Any, tangents: Any, operand: Any, **params: Any) -> list[Any]:
    return [ops.bind("select_and_scatter_add", ct, operand, **params), None]


def scatter_transpose(ct: Any, source: Any, operand: Any, **params: Any) -> list[Any]:
    ones = (1,) * len(shape_of(operand))
    full = {"base_dilation": ones, "window_dilation": ones, **params}
    return [ops.bind("select_and_gather_add", ct, operand, **full), None]


# ---- the general reduction


def reduce_window_by_slices(
    *args: Any, jaxpr: ClosedJaxpr, consts: tuple[Any, ...] = (), **params: Any
) -> list[Any]:
    """What `reduce_window` computes, from slices: along each axis, windows of 1, 2, 4, ... elements
    are made from each other.

    Unlike the primitive this can be differentiated in both modes, and its initial values batched.
    """
    half = len(args) // 2
    operands, inits = args[:half], args[half:]
    dims, combine = window_dims(**params), combining(jaxpr)
    shape = dims.out_shape(shape_of(operands[0]))
    starts = [ops.broadcast_in_dim(i, shape, ()) if shape else i for i in inits]
    if 0 in shape:
        return starts
    config = tuple(
        (low, high, apart - 1)
        for (low, high), apart in zip(dims.padding, dims.base_dilation, strict=True)
    )
    found = [
        ops.bind("pad", x, i, padding_config=config) if any(map(any, config)) else x
        for x, i in zip(operands, inits, strict=True)
    ]
    for axis in reversed(range(len(shape))):
        found = _reduce_axis(found, combine, axis, dims)
    return list(combine(starts, found))


def _reduce_axis(xs: list[Any], combine: Any, axis: int, dims: WindowDims) -> list[Any]:
    """The reduction of the windows along one axis."""
    size, apart = dims.dimensions[axis], dims.window_dilation[axis]
    stop = shape_of(xs[0])[axis]
    count = stop - dilated(size, apart) + 1
    # `power` has the reductions of `length` elements `apart`; they start at each of `stop` places.
    power, length, at, total = xs, 1, 0, None
    while size:
        if size & 1:
            piece = [_part(x, axis, at, at + count, dims.strides[axis]) for x in power]
            total = piece if total is None else list(combine(total, piece))
            at += length * apart
        size >>= 1
        if size:
            step = length * apart
            stop -= step
            power = list(
                combine(
                    [_part(x, axis, 0, stop) for x in power],
                    [_part(x, axis, step, step + stop) for x in power],
                )
            )
            length *= 2
    return total or xs


def _part(x: Any, axis: int, start: int, stop: int, step: int = 1) -> Any:
    """The part of `axis` that the slice start:stop:step means."""
    shape = shape_of(x)
    if (start, stop, step) == (0, shape[axis], 1):
        return x
    starts, limits, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], limits[axis], steps[axis] = start, stop, step
    return ops.bind(
        "slice",
        x,
        start_indices=tuple(starts),
        limit_indices=tuple(limits),
        strides=None if step == 1 else tuple(steps),
    )


def reduce_window_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], **params: Any
) -> tuple[list[Any], list[Any]]:
    out = ops.bind("reduce_window", *primals, **params)
    _, found = jvp_flat(lambda *xs: reduce_window_by_slices(*xs, **params), primals, tangents)
    return out, found
