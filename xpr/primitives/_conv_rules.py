"""Derivative, transpose and batching rules of convolutions: all of them are convolutions again.

In one spatial dimension, for one batch element and one pair of features, a convolution is
y[p] = sum over k of x[i] h[k] with p s + k w = l + i b: stride s, dilations w of the kernel and b
of the operand, low padding l. This is symmetric enough for x and h to trade places with y:

    dx[i] = sum over k of dy[p] h[k]    dy spread s apart, stride b, the kernel h reversed
    dh[k] = sum over p of x[i] dy[p]    the kernel dy, its elements s apart, and stride w
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.primitive import get_primitive
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives._conv_dims import ConvDimensionNumbers
from xpr.primitives._window_dims import Pads, Shape, dilated
from xpr.primitives.rules import (
    BatchAxis,
    Dim,
    Zero,
    is_linear,
    move_axis,
    shape_of,
    zeros,
)


def _split(x: Any, axis: int, first: int) -> Any:
    """`x` with `axis` made two, of which the first has size `first`."""
    shape = shape_of(x)
    return ops.reshape(x, (*shape[:axis], first, shape[axis] // first, *shape[axis + 1 :]))


def _merge(x: Any, axis: int, into: int) -> Any:
    """`x` with `axis` made the slow part of the axis that is at `into` without it."""
    moved = move_axis(x, axis, into)
    shape = shape_of(moved)
    return ops.reshape(moved, (*shape[:into], shape[into] * shape[into + 1], *shape[into + 2 :]))


def _regroup(x: Any, groups: int, source: int, target: int) -> Any:
    """`x` with the slow part of its axis `source`, of size `groups`, made that of `target`."""
    if groups == 1:
        return x
    return _merge(_split(x, source, groups), source, target)


# ---- transposition


def conv_transpose(ct: Any, lhs: Any, rhs: Any, **params: Any) -> list[Any]:
    side = 0 if is_linear(lhs) else 1
    mine = (lhs, rhs)[side]
    if 0 in (*shape_of(lhs), *shape_of(rhs), *shape_of(ct)):
        found: Any = Zero(mine.aval)
    elif side == 0:
        found = _lhs_cotangent(ct, shape_of(lhs), rhs, mine.aval.dtype, **params)
    else:
        found = _rhs_cotangent(ct, lhs, shape_of(rhs), mine.aval.dtype, **params)
    return [found, None] if side == 0 else [None, found]


def _pads(
    places: Sequence[int], steps: Sequence[int], taps: Sequence[int], spread: Sequence[int]
) -> list[int]:
    """How many elements windows of `taps` elements, `spread` apart, cover at `places` places."""
    return [
        (n - 1) * s + dilated(k, w) for n, s, k, w in zip(places, steps, taps, spread, strict=True)
    ]


def _bind(lhs: Any, rhs: Any, dtype: np.dtype[Any], **params: Any) -> Any:
    """The convolution of operands that may differ in dtype, as an array of `dtype`."""
    common = dtypes.joined(get_aval(lhs).dtype, get_aval(rhs).dtype)
    lhs, rhs = (x if get_aval(x).dtype == common else ops.convert(x, common) for x in (lhs, rhs))
    found = ops.bind(
        "conv_general_dilated",
        lhs,
        rhs,
        preferred_element_type=None,
        out_sharding=None,
        **params,
    )
    return found if common == dtype else ops.convert(found, dtype)


def _lhs_cotangent(
    ct: Any,
    shape: Shape,
    rhs: Any,
    dtype: np.dtype[Any],
    *,
    dimension_numbers: ConvDimensionNumbers,
    window_strides: Shape,
    padding: Pads,
    lhs_dilation: Shape,
    rhs_dilation: Shape,
    feature_group_count: int,
    batch_group_count: int,
    precision: Any,
    **_: Any,
) -> Any:
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    groups = feature_group_count * batch_group_count
    # The kernel gives input features from output features, in each group.
    kernel = _regroup(rhs, groups, rhs_spec[0], rhs_spec[1])
    kernel = ops.bind("rev", kernel, dimensions=tuple(rhs_spec[2:]))
    window = [shape_of(rhs)[a] for a in rhs_spec[2:]]
    sizes = [shape[a] for a in lhs_spec[2:]]
    given = [dilated(shape_of(ct)[a], s) for a, s in zip(out_spec[2:], window_strides, strict=True)]
    needed = _pads(sizes, lhs_dilation, window, rhs_dilation)
    lows = [
        dilated(k, w) - 1 - low
        for k, w, (low, _) in zip(window, rhs_dilation, padding, strict=True)
    ]
    pads = [(low, n - low - g) for low, n, g in zip(lows, needed, given, strict=True)]
    found = _bind(
        ct,
        kernel,
        dtype,
        dimension_numbers=ConvDimensionNumbers(
            out_spec, (rhs_spec[1], rhs_spec[0], *rhs_spec[2:]), lhs_spec
        ),
        window_strides=lhs_dilation,
        padding=tuple(pads),
        lhs_dilation=window_strides,
        rhs_dilation=rhs_dilation,
        feature_group_count=groups,
        batch_group_count=1,
        precision=precision,
    )
    return _regroup(found, batch_group_count, lhs_spec[1], lhs_spec[0])


def _rhs_cotangent(
    ct: Any,
    lhs: Any,
    shape: Shape,
    dtype: np.dtype[Any],
    *,
    dimension_numbers: ConvDimensionNumbers,
    window_strides: Shape,
    padding: Pads,
    lhs_dilation: Shape,
    rhs_dilation: Shape,
    feature_group_count: int,
    batch_group_count: int,
    precision: Any,
    **_: Any,
) -> Any:
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    sizes = [shape_of(lhs)[a] for a in lhs_spec[2:]]
    window = [shape[a] for a in rhs_spec[2:]]
    places = [shape_of(ct)[a] for a in out_spec[2:]]
    needed = _pads(window, rhs_dilation, places, window_strides)
    pads = [
        (low, n - low - dilated(size, b))
        for n, size, b, (low, _) in zip(needed, sizes, lhs_dilation, padding, strict=True)
    ]

    def exchanged(spec: Shape) -> Shape:
        return (spec[1], spec[0], *spec[2:])

    # Batch axes are summed over here, as input features are in a convolution; so groups of
    # features become groups of the batch, and the other way round.
    return _bind(
        lhs,
        ct,
        dtype,
        dimension_numbers=ConvDimensionNumbers(
            exchanged(lhs_spec), exchanged(out_spec), exchanged(rhs_spec)
        ),
        window_strides=rhs_dilation,
        padding=tuple(pads),
        lhs_dilation=lhs_dilation,
        rhs_dilation=window_strides,
        feature_group_count=batch_group_count,
        batch_group_count=feature_group_count,
        precision=precision,
    )


# ---- batching


def conv_batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], **params: Any
) -> tuple[Any, int]:
    """Examples become batch elements or features; where both operands have them, groups."""
    (lhs, rhs), (left, right) = args, dims
    if axis.size == 0:
        return _no_examples(args, dims, **params), 0
    lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
    batches, features = params["batch_group_count"], params["feature_group_count"]
    groups = batches * features

    def convolved(x: Any, kernel: Any, **changes: Any) -> Any:
        return ops.bind("conv_general_dilated", x, kernel, **{**params, **changes})

    if left is not None and right is not None:
        kernel = _merge(rhs, right, rhs_spec[0])
        if batches > 1:
            x = _merge(lhs, left, lhs_spec[0])
            found = convolved(x, kernel, batch_group_count=batches * axis.size)
        else:
            x = _merge(lhs, left, lhs_spec[1])
            found = convolved(x, kernel, feature_group_count=features * axis.size)
        return _split(found, out_spec[1], axis.size), out_spec[1]
    if left is not None:
        # Groups stay the slow part of the batch.
        found = convolved(_merge_below(lhs, left, lhs_spec[0], batches), rhs)
        return _split(found, out_spec[0], axis.size), out_spec[0]
    assert right is not None
    found = convolved(lhs, _merge_below(rhs, right, rhs_spec[0], groups))
    if groups == 1:
        return _split(found, out_spec[1], axis.size), out_spec[1]
    # The features are (group, example, rest): put together without the examples.
    shape, at = shape_of(found), out_spec[1]
    rest = shape[at] // (groups * axis.size)
    found = ops.reshape(found, (*shape[:at], groups, axis.size, rest, *shape[at + 1 :]))
    return _merge(found, at, at + 1), at


def _merge_below(x: Any, axis: int, into: int, groups: int) -> Any:
    """As `_merge`, but `groups` of the axis stay the slowest part of it."""
    if groups == 1:
        return _merge(x, axis, into)
    x = move_axis(x, axis, into)
    shape = shape_of(x)
    rest = shape[into + 1] // groups
    parts = ops.reshape(x, (*shape[: into + 1], groups, rest, *shape[into + 2 :]))
    return ops.reshape(
        move_axis(parts, into, into + 1),
        (*shape[:into], shape[into] * shape[into + 1], *shape[into + 2 :]),
    )


def _no_examples(args: Sequence[Any], dims: Sequence[Dim], **params: Any) -> Any:
    """The result for a batch of none, whose groups would have no size."""
    avals = [
        a if d is None else a.update(shape=(*a.shape[:d], *a.shape[d + 1 :]))
        for a, d in zip(map(get_aval, args), dims, strict=True)
    ]
    out = get_primitive("conv_general_dilated").abstract(*avals, **params)
    return zeros(out.update(shape=(0, *out.shape)))
