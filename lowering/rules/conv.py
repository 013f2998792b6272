"""Lowering of convolutions.

IREE is quick at two-dimensional convolutions whose axes are batch, height, width, features and
height, width, input, output features; it takes up to a hundred times as long for others. So all are
brought into this form: with the axes transposed, the operand padded beforehand,
further spatial axes summed over tap by tap, and batch groups made feature
groups. One- and zero-dimensional convolutions, and those with more taps than results (the gradients
of kernels), become contractions. For GPUs IREE makes an implicit product of each convolution,
whatever the order of its axes: there they are left as they are (`ordered_convolutions` of a
target's forms).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.lowering.context import LoweringContext, Shape, Value
from xpr.lowering.ir.rewrite import BARRIER
from xpr.lowering.registry import register
from xpr.lowering.rules._direct_convolutions import (
    Places,
    direct_convolution,
    product_of_pixels,
)
from xpr.lowering.rules._window_reduce import interleave, padded
from xpr.lowering.rules.dot_general import are_narrow, contract
from xpr.primitives._conv_dims import ConvDimensionNumbers
from xpr.primitives._window_dims import WindowDims, dilated
from xpr.primitives.conv import conv_general_dilated_p
from xpr.primitives.convert import convert_element_type
from xpr.primitives.dot_general import DotDims, accumulation_dtype

_F32 = np.dtype(np.float32)

# Up to so many taps, or results, are written out one by one.
_UNROLLED = 16
_FEW_RESULTS = 64


@dataclass(frozen=True)
class _Windows:
    """How the kernel moves over the operand: strides, its dilation, and groups of features."""

    strides: Shape
    dilation: Shape
    groups: int

    def count(self, x: Value, kernel: Value) -> Shape:
        """The spatial sizes of the result; spatial axes follow the batch axis, and come first."""
        return tuple(
            (n - dilated(k, d)) // s + 1
            for n, k, s, d in zip(
                x.shape[1:-1], kernel.shape[:-2], self.strides, self.dilation, strict=True
            )
        )

    def without_first(self) -> _Windows:
        """The windows along the other spatial axes."""
        return _Windows(self.strides[1:], self.dilation[1:], self.groups)


def _conv_general_dilated_lower(
    ctx: LoweringContext,
    lhs: Value,
    rhs: Value,
    *,
    dimension_numbers: ConvDimensionNumbers,
    window_strides: Shape,
    padding: Any,
    lhs_dilation: Shape,
    rhs_dilation: Shape,
    feature_group_count: int,
    batch_group_count: int,
    **_: Any,
) -> Value:
    out = ctx.out_avals[0]
    if 0 in (*lhs.shape, *rhs.shape, *out.shape):
        return ctx.constant(0, out.dtype, out.shape)
    dims = dimension_numbers
    taps = math.prod(rhs.shape) // rhs.shape[dims.rhs_spec[0]]
    ctx.module.flops += (2.0 * taps - 1) * out.size
    wide = accumulation_dtype(lhs.dtype, rhs.dtype, out.dtype)
    summed = _F32 if dtypes.kind(wide) == "b" else wide
    windows = _Windows(window_strides, rhs_dilation, max(feature_group_count, batch_group_count))
    # IREE does not compile those of one input feature to a group unless the types are equal.
    is_depthwise = windows.groups > 1 and rhs.shape[dims.rhs_spec[1]] == 1
    if is_depthwise or not are_narrow(ctx, lhs, rhs, summed):
        lhs, rhs = ctx.convert(lhs, summed), ctx.convert(rhs, summed)
    ordered = ctx.target.forms.ordered_convolutions
    found = _of_pixels(ctx, lhs, rhs, windows, dims, padding, lhs_dilation)
    if found is not None:
        return ctx.inline(convert_element_type, found, new_dtype=out.dtype)
    if ordered and windows.groups == 1 and _has_few_results(rhs, out.shape, dims):
        ready = _padded(ctx, lhs, dims.lhs_spec[2:], padding, lhs_dilation)
        found = _by_results(ctx, ready, rhs, windows, dims, out.shape)
    else:
        x = _transposed(ctx, lhs, _last(dims.lhs_spec))
        # The kernel's features come last: input, then output ones.
        order = (*dims.rhs_spec[2:], dims.rhs_spec[1], dims.rhs_spec[0])
        kernel = _transposed(ctx, rhs, order)
        if batch_group_count > 1:
            x = _groups_of_batch(ctx, x, batch_group_count)
        results = tuple(out.shape[i] for i in dims.out_spec[2:])
        if _has_phases(windows, lhs_dilation):
            found = _by_phases(ctx, x, kernel, windows, padding, lhs_dilation, results)
        else:
            spatial = range(1, len(x.shape) - 1)
            ready = _padded(ctx, x, spatial, padding, lhs_dilation)
            found = _convolve(ctx, ready, kernel, windows)
    order = _last(dims.out_spec)
    result = ctx.transpose(found, sorted(range(len(order)), key=order.__getitem__))
    if dtypes.kind(wide) == "b":
        return ctx.compare("NE", result, 0)
    return ctx.inline(convert_element_type, result, new_dtype=out.dtype)


def _summed_in(x: Value) -> np.dtype[Any]:
    """The type of a sum of products of operands of this type."""
    return _F32 if dtypes.is_float(x.dtype) and x.dtype.itemsize == 2 else x.dtype


def _padded(
    ctx: LoweringContext, x: Value, axes: Sequence[int], padding: Any, dilation: Shape
) -> Value:
    rank = len(x.shape)
    pads, apart = [(0, 0)] * rank, [1] * rank
    for axis, pair, distance in zip(axes, padding, dilation, strict=True):
        pads[axis], apart[axis] = pair, distance
    ones = (1,) * rank
    edges = WindowDims(ones, ones, tuple(pads), tuple(apart), ones)
    return padded(ctx, x, ctx.constant(0, x.dtype), edges)


def _last(spec: Shape) -> Shape:
    """Batch axis, spatial axes, feature axis."""
    return (spec[0], *spec[2:], spec[1])


def _transposed(ctx: LoweringContext, x: Value, order: Sequence[int]) -> Value:
    if tuple(order) == tuple(range(len(order))):
        return x
    found = ctx.transpose(x, order)
    if dtypes.kind(found.dtype) in "uc" or not ctx.target.forms.ordered_convolutions:
        return found
    # Without the barrier IREE moves the transpose back into the convolution, which is slow on
    # processors, and the best there is for matrix units.
    return ctx.assign(BARRIER, (found,), found.shape, found.dtype)


def _groups_of_batch(ctx: LoweringContext, x: Value, groups: int) -> Value:
    """Each part of the batch as a group of features: it has output features of its own."""
    batch, *spatial, features = x.shape
    parts = ctx.reshape(x, (groups, batch // groups, *spatial, features))
    rank = len(parts.shape)
    moved = ctx.transpose(parts, (*range(1, rank - 1), 0, rank - 1))
    return ctx.reshape(moved, (batch // groups, *spatial, groups * features))


def _convolve(ctx: LoweringContext, x: Value, kernel: Value, windows: _Windows) -> Value:
    """The convolution of a padded operand; batch axis first, feature axes last."""
    taps = kernel.shape[:-2]
    if not taps:
        return _product(ctx, x, kernel, windows.groups)
    if not ctx.target.forms.ordered_convolutions:
        return _emit_convolution(ctx, x, kernel, windows)
    if len(taps) == 2:
        return _two_dimensional(ctx, x, kernel, windows)
    if len(taps) == 1 and windows.groups == 1 and taps[0] <= _UNROLLED:
        return _by_taps(ctx, x, kernel, windows)
    if len(taps) > 2 and taps[0] <= _UNROLLED:
        return _by_taps(ctx, x, kernel, windows)
    if len(taps) == 1:
        return _with_unit_axis(ctx, x, kernel, windows)
    return _emit_convolution(ctx, x, kernel, windows)


# ---- contractions


def _of_pixels(
    ctx: LoweringContext,
    x: Value,
    kernel: Value,
    windows: _Windows,
    dims: ConvDimensionNumbers,
    padding: Any,
    dilation: Shape,
) -> Value | None:
    """A convolution of single pixels whose features come before the spatial axes, as a product."""
    order = tuple(range(len(x.shape)))
    if not (dims.lhs_spec == dims.rhs_spec == dims.out_spec == order) or windows.groups != 1:
        return None
    plain = all(p == (0, 0) for p in map(tuple, padding)) and set(dilation) <= {1}
    if set(kernel.shape[2:]) != {1} or not plain or x.dtype != kernel.dtype:
        return None
    if set(windows.strides) != {1}:
        x = ctx.slice(x, [0] * len(order), x.shape, (1, 1, *windows.strides))
    return product_of_pixels(ctx, x, kernel)


def _product(ctx: LoweringContext, x: Value, kernel: Value, groups: int) -> Value:
    """A convolution without spatial axes: features times the kernel, in groups."""
    batch, features = x.shape
    outputs = kernel.shape[1]
    if groups == 1:
        return contract(ctx, x, kernel, DotDims((1,), (0,)), _summed_in(x))
    left = ctx.reshape(x, (batch, groups, features // groups))
    right = ctx.reshape(kernel, (features // groups, groups, outputs // groups))
    found = contract(ctx, left, right, DotDims((2,), (0,), (1,), (1,)), _summed_in(x))
    return ctx.reshape(ctx.transpose(found, (1, 0, 2)), (batch, outputs))


def _has_few_results(kernel: Value, out: Shape, dims: ConvDimensionNumbers) -> bool:
    """Whether there are fewer places than taps, as in the gradient of a kernel."""
    places = math.prod(out[i] for i in dims.out_spec[2:])
    taps = math.prod(kernel.shape[i] for i in dims.rhs_spec[2:])
    return places <= _FEW_RESULTS and taps > 4 * places


def _by_results(
    ctx: LoweringContext,
    x: Value,
    kernel: Value,
    windows: _Windows,
    dims: ConvDimensionNumbers,
    out: Shape,
) -> Value:
    """One contraction for each place of the kernel, in whatever order the axes are."""
    places = [out[i] for i in dims.out_spec[2:]]
    contraction = DotDims(
        (*dims.lhs_spec[2:], dims.lhs_spec[1]), (*dims.rhs_spec[2:], dims.rhs_spec[1])
    )
    batch, outputs = x.shape[dims.lhs_spec[0]], kernel.shape[dims.rhs_spec[0]]
    pieces = []
    for place in itertools.product(*map(range, places)):
        start, limit, steps = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
        for i, axis in enumerate(dims.lhs_spec[2:]):
            start[axis] = place[i] * windows.strides[i]
            size = kernel.shape[dims.rhs_spec[2 + i]]
            limit[axis] = start[axis] + dilated(size, windows.dilation[i])
            steps[axis] = windows.dilation[i]
        found = contract(ctx, ctx.slice(x, start, limit, steps), kernel, contraction, _summed_in(x))
        pieces.append(ctx.reshape(found, (1, batch, outputs)))
    whole = ctx.reshape(ctx.concatenate(pieces, 0), (*places, batch, outputs))
    count = len(places)
    return ctx.transpose(whole, (count, *range(count), count + 1))


def _by_taps(ctx: LoweringContext, x: Value, kernel: Value, windows: _Windows) -> Value:
    """The sum over the kernel's first spatial axis of convolutions over the others.

    The operand's first spatial axis becomes a part of the batch.
    """
    count = windows.count(x, kernel)[0]
    stride, apart = windows.strides[0], windows.dilation[0]
    total: Value | None = None
    for tap in range(kernel.shape[0]):
        start, limit = [0] * len(x.shape), list(x.shape)
        start[1], limit[1] = tap * apart, tap * apart + (count - 1) * stride + 1
        part = ctx.slice(x, start, limit, (1, stride, *(1,) * (len(x.shape) - 2)))
        rows = ctx.reshape(part, (x.shape[0] * count, *x.shape[2:]))
        low, high = [0] * len(kernel.shape), list(kernel.shape)
        low[0], high[0] = tap, tap + 1
        weights = ctx.reshape(ctx.slice(kernel, low, high), kernel.shape[1:])
        term = _convolve(ctx, rows, weights, windows.without_first())
        total = term if total is None else ctx.add(total, term)
    if total is None:
        raise AssertionError("a kernel has at least one tap")
    return ctx.reshape(total, (x.shape[0], count, *total.shape[1:]))


# ---- dilated operands


def _has_phases(windows: _Windows, dilation: Shape) -> bool:
    """Whether the results fall into a few phases by the taps that meet elements, not gaps."""
    simple = all(
        d == 1 or (s == 1 and r == 1)
        for d, s, r in zip(dilation, windows.strides, windows.dilation, strict=True)
    )
    return simple and 1 < math.prod(dilation) <= _UNROLLED


def _by_phases(
    ctx: LoweringContext,
    x: Value,
    kernel: Value,
    windows: _Windows,
    padding: Any,
    dilation: Shape,
    results: Shape,
) -> Value:
    """A convolution of a dilated operand as one convolution of the operand for each phase.

    Result d * q + r meets elements of the operand, not gaps, at every d-th tap only: at those
    that are congruent to low - r. So the kernel is cut up, and the results are interleaved.
    """
    counts = [-(-n // d) for n, d in zip(results, dilation, strict=True)]
    full = (x.shape[0], *counts, kernel.shape[-1])
    parts: dict[tuple[int, ...], Value] = {}
    for phase in itertools.product(*map(range, dilation)):
        low, high, edges = [0] * len(kernel.shape), list(kernel.shape), []
        for i, (r, d, (before, after)) in enumerate(zip(phase, dilation, padding, strict=True)):
            if d == 1:
                edges.append((before, after))
                continue
            low[i] = (before - r) % d
            taps = -(-(kernel.shape[i] - low[i]) // d)
            start = (r + low[i] - before) // d
            edges.append((-start, start + counts[i] - 1 + taps - x.shape[1 + i]))
        steps = (*dilation, 1, 1)
        if any(a >= b for a, b in zip(low, high, strict=True)):
            found = ctx.constant(0, _summed_in(x), full)
        else:
            ready = _padded(ctx, x, range(1, len(x.shape) - 1), edges, (1,) * len(dilation))
            found = _convolve(ctx, ready, ctx.slice(kernel, low, high, steps), windows)
        parts[(0, *phase, 0)] = found
    whole = interleave(ctx, parts, (1, *dilation, 1), full)
    return ctx.slice(whole, [0] * len(full), (x.shape[0], *results, kernel.shape[-1]))


# ---- stablehlo.convolution


def _two_dimensional(ctx: LoweringContext, x: Value, kernel: Value, windows: _Windows) -> Value:
    strides, dilation = windows.strides, windows.dilation
    places = Places((strides[0], strides[1]), (dilation[0], dilation[1]), windows.groups)
    shape = (x.shape[0], *windows.count(x, kernel), kernel.shape[-1])
    found = direct_convolution(ctx, x, kernel, places, shape)
    if found is not None:
        return found
    if windows.groups == 1 and x.shape[-1] == 1 and kernel.shape[-1] > 1:
        # With a single input feature IREE does not use vectors; a second one, of zeros, is cheap.
        zero = ctx.constant(0, x.dtype)
        none = [0, 0, 0, 0]
        x = ctx.pad(x, zero, none, [0, 0, 0, 1], none)
        kernel = ctx.pad(kernel, zero, none, [0, 0, 1, 0], none)
    return _emit_convolution(ctx, x, kernel, windows)


def _with_unit_axis(ctx: LoweringContext, x: Value, kernel: Value, windows: _Windows) -> Value:
    """A one-dimensional convolution as a two-dimensional one of height 1."""
    batch, length, features = x.shape
    flat = _Windows((1, *windows.strides), (1, *windows.dilation), windows.groups)
    found = _convolve(
        ctx,
        ctx.reshape(x, (batch, 1, length, features)),
        ctx.reshape(kernel, (1, *kernel.shape)),
        flat,
    )
    return ctx.reshape(found, (batch, *found.shape[2:]))


def _emit_convolution(ctx: LoweringContext, x: Value, kernel: Value, windows: _Windows) -> Value:
    """`stablehlo.convolution` of operands in this file's order of axes."""
    results = windows.count(x, kernel)
    shape = (x.shape[0], *results, kernel.shape[-1])
    # IREE drops axes of one result, and then wants no elements beyond the window.
    limit = [
        dilated(k, d) if r == 1 else n
        for n, r, k, d in zip(x.shape[1:-1], results, kernel.shape, windows.dilation, strict=False)
    ]
    if tuple(limit) != x.shape[1:-1]:
        x = ctx.slice(x, [0] * len(x.shape), (x.shape[0], *limit, x.shape[-1]))
    how = {
        "stride": windows.strides,
        "rhs_dilate": windows.dilation,
        "feature_group_count": windows.groups,
    }
    return ctx.assign("stablehlo.convolution", (x, kernel), shape, _summed_in(x), how)


register(conv_general_dilated_p, _conv_general_dilated_lower)
