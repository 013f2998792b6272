"""Convolutions with strides, padding, dilations and groups."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.placing import resharded
from xpr.core.primitive import define
from xpr.core.trace import get_aval
from xpr.primitives import _conv_rules
from xpr.primitives._conv_dims import (
    ConvDimensionNumbers,
    check_groups,
    conv_dimension_numbers,
    conv_general_permutations,
    conv_out_spatial,
    conv_pads,
    spatial_shape,
    transpose_pads,
)
from xpr.primitives._precision import canonicalize_precision
from xpr.primitives._window_dims import Shape, dilated, int_tuple, pad_array
from xpr.primitives.convert import convert_element_type_p
from xpr.primitives.dot_general import accumulation_dtype
from xpr.primitives.families import require_same_dtypes
from xpr.primitives.rules import Partials
from xpr.primitives.shape import rev, transpose

__all__ = [
    "ConvDimensionNumbers",
    "conv",
    "conv_dimension_numbers",
    "conv_general_dilated",
    "conv_general_permutations",
    "conv_general_shape_tuple",
    "conv_shape_tuple",
    "conv_transpose",
    "conv_transpose_shape_tuple",
    "conv_with_general_padding",
]

NDArray = np.ndarray[Any, Any]

# The reference copies at most about this many elements of patches at a time.
_PATCH_ELEMENTS = 1 << 24


def _conv_general_dilated_abstract(
    lhs: ShapedArray,
    rhs: ShapedArray,
    *,
    dimension_numbers: ConvDimensionNumbers,
    window_strides: Shape,
    padding: Any,
    lhs_dilation: Shape,
    rhs_dilation: Shape,
    feature_group_count: int,
    batch_group_count: int,
    preferred_element_type: np.dtype[Any] | None,
    **_: Any,
) -> ShapedArray:
    dims = dimension_numbers
    if lhs.ndim != rhs.ndim:
        raise TypeError(
            f"convolution requires lhs and rhs ndim to be equal, got {lhs.ndim} and {rhs.ndim}."
        )
    if lhs.ndim < 2:
        raise TypeError(f"convolution requires operands of rank 2 or more, got {lhs.ndim}")
    if not all(len(spec) == lhs.ndim for spec in dims):
        raise TypeError(f"convolution dimension_numbers {dims} do not have rank {lhs.ndim}")
    count = lhs.ndim - 2
    for what, values in (
        ("window_strides", window_strides),
        ("lhs_dilation", lhs_dilation),
        ("rhs_dilation", rhs_dilation),
        ("padding", padding),
    ):
        if len(values) != count:
            raise ValueError(
                f"conv_general_dilated window and {what} must have the same number of dimensions, "
                f"but got {count} and {len(values)}"
            )
        if what != "padding" and not all(v > 0 for v in values):
            raise TypeError(f"conv_general_dilated {what} must be positive, got {values}.")
    dtype = require_same_dtypes("conv_general_dilated", lhs, rhs)
    sizes = tuple(lhs.shape[i] for i in dims.lhs_spec), tuple(rhs.shape[i] for i in dims.rhs_spec)
    check_groups(*sizes, feature_group_count, batch_group_count)
    spatial = conv_out_spatial(
        sizes[0][2:], sizes[1][2:], window_strides, padding, lhs_dilation, rhs_dilation
    )
    ordered = (sizes[0][0] // batch_group_count, sizes[1][0], *spatial)
    shape = [0] * lhs.ndim
    for axis, size in zip(dims.out_spec, ordered, strict=True):
        shape[axis] = size
    weak = lhs.weak_type and rhs.weak_type
    if preferred_element_type is not None:
        if preferred_element_type.itemsize < dtype.itemsize:
            raise TypeError(
                "`preferred_element_type` must not be narrower than the original type, got "
                f"{preferred_element_type} for {dtype}."
            )
        dtype = preferred_element_type
    return ShapedArray(tuple(shape), dtype, weak)


def _conv_general_dilated_reference(
    lhs: NDArray,
    rhs: NDArray,
    *,
    dimension_numbers: ConvDimensionNumbers,
    window_strides: Shape,
    padding: Any,
    lhs_dilation: Shape,
    rhs_dilation: Shape,
    feature_group_count: int,
    batch_group_count: int,
    preferred_element_type: np.dtype[Any] | None,
    **_: Any,
) -> NDArray:
    dims = dimension_numbers
    dtype = preferred_element_type or lhs.dtype
    wide = accumulation_dtype(lhs.dtype, rhs.dtype, dtype)
    pads, apart = [(0, 0)] * lhs.ndim, [1] * lhs.ndim
    for axis, pair, dilation in zip(dims.lhs_spec[2:], padding, lhs_dilation, strict=True):
        pads[axis], apart[axis] = pair, dilation
    ready = pad_array(lhs.astype(wide, copy=False), 0, tuple(pads), apart)
    x = ready.transpose(dims.lhs_spec)
    kernel = rhs.transpose(dims.rhs_spec).astype(wide, copy=False)
    groups = feature_group_count
    if batch_group_count > 1:
        # Each part of the batch meets its own output features: it is a feature group.
        groups = batch_group_count
        batch, features, *spatial = x.shape
        parts = x.reshape((groups, batch // groups, features, *spatial))
        x = np.moveaxis(parts, 0, 1).reshape((batch // groups, groups * features, *spatial))
    found = _grouped(x, kernel, groups, window_strides, rhs_dilation)
    order = sorted(range(found.ndim), key=dims.out_spec.__getitem__)
    result = found.transpose(order)
    return convert_element_type_p.reference(result, new_dtype=dtype, weak_type=False)


def _grouped(x: NDArray, kernel: NDArray, groups: int, strides: Shape, dilation: Shape) -> NDArray:
    """The convolution of a padded operand: patches times kernel, for each group of features.

    `x` has batch and feature axes first, `kernel` output and input feature axes.
    """
    batch, features = x.shape[:2]
    outputs, inputs, *window = kernel.shape
    spatial = tuple(
        max(0, (n - dilated(k, d)) // s + 1)
        for n, k, s, d in zip(x.shape[2:], window, strides, dilation, strict=True)
    )
    depth, places = inputs * math.prod(window), math.prod(spatial)
    if 0 in (batch, outputs, depth, places):
        return np.zeros((batch, outputs, *spatial), x.dtype)
    steps = x.strides[2:]
    group = ((groups,), (x.strides[1] * (features // groups),))
    feature = ((inputs,), (x.strides[1],))
    taps = (tuple(window), tuple(t * d for t, d in zip(steps, dilation, strict=True)))
    results = (spatial, tuple(t * s for t, s in zip(steps, strides, strict=True)))
    # Patches are copied in an order that follows the memory of the operand.
    features_last = x.strides[1] <= min(steps, default=0)
    order = (group, results, taps, feature) if features_last else (group, feature, taps, results)
    patches = np.lib.stride_tricks.as_strided(
        x,
        (batch, *(n for part in order for n in part[0])),
        (x.strides[0], *(t for part in order for t in part[1])),
        writeable=False,
    )
    weights = kernel.reshape((groups, outputs // groups, inputs, *window))
    if features_last:
        weights = np.moveaxis(weights, (1, 2), (-1, -2))
        weights = weights.reshape((groups, depth, outputs // groups))
    else:
        weights = weights.reshape((groups, outputs // groups, depth))
    parts = []
    step = max(1, _PATCH_ELEMENTS // (groups * depth * places))
    for start in range(0, batch, step):
        rows = patches[start : start + step]
        if features_last:
            product = np.matmul(rows.reshape((len(rows), groups, places, depth)), weights)
            parts.append(np.swapaxes(product, 2, 3))
        else:
            parts.append(np.matmul(weights, rows.reshape((len(rows), groups, depth, places))))
    return np.concatenate(parts).reshape((batch, outputs, *spatial))


conv_general_dilated_p = define(
    "conv_general_dilated",
    family="conv",
    doc="A convolution over spatial axes, with strides, padding, dilations and groups.",
    abstract=_conv_general_dilated_abstract,
    reference=_conv_general_dilated_reference,
    jvp=Partials(
        lambda t, out, lhs, rhs, **params: conv_general_dilated_p.bind(t, rhs, **params),
        lambda t, out, lhs, rhs, **params: conv_general_dilated_p.bind(lhs, t, **params),
    ),
    transpose=_conv_rules.conv_transpose,
    batch=_conv_rules.conv_batch,
)


# ---- the functions


def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """The convolution (strictly, correlation) of `lhs` with the kernel `rhs`.

    `dimension_numbers` says which axes are batch, feature and spatial ones: three strings such as
    ("NHWC", "HWIO", "NHWC"), `ConvDimensionNumbers`, or None for batch, feature, spatial axes in
    this order (output feature, input feature, spatial axes of the kernel). The elements of `lhs`
    are first spread `lhs_dilation` apart and padded with zeros: "SAME", "SAME_LOWER", "VALID" or
    (low, high) pairs, which may be negative. The kernel's elements are `rhs_dilation` apart and
    move by `window_strides`.

    With `feature_group_count` g, input and output features fall into g groups, each of which is
    convolved alone. With `batch_group_count` g the batch falls into g groups, each convolved with
    its part of the output features.

    Both operands have one dtype, any but storage types; so has the result, or
    `preferred_element_type`. 16-bit floats are summed in float32. `precision` as in `dot_general`.

    Raises TypeError for ranks and dtypes, ValueError for sizes and counts that do not go together.

    >>> x, k = np.ones((1, 1, 4, 4), np.float32), np.ones((1, 1, 3, 3), np.float32)
    >>> conv_general_dilated(x, k, (1, 1), "VALID").shape
    (1, 1, 2, 2)
    """
    if out_sharding is not None:
        return resharded(
            "conv_general_dilated",
            out_sharding,
            lambda: conv_general_dilated(
                lhs,
                rhs,
                window_strides,
                padding,
                lhs_dilation,
                rhs_dilation,
                dimension_numbers,
                feature_group_count,
                batch_group_count,
                precision,
                preferred_element_type,
            ),
        )
    _check_padding(padding)
    left, right = get_aval(lhs).shape, get_aval(rhs).shape
    dims = conv_dimension_numbers(left, right, dimension_numbers)
    count = len(left) - 2
    strides = int_tuple(window_strides)
    if isinstance(padding, str) and lhs_dilation is not None and any(d != 1 for d in lhs_dilation):
        raise ValueError(
            "String padding is not implemented for transposed convolution using this op. Please "
            "either exactly specify the required padding or use conv_transpose."
        )
    base = (1,) * count if lhs_dilation is None else int_tuple(lhs_dilation)
    apart = (1,) * count if rhs_dilation is None else int_tuple(rhs_dilation)
    if not len(strides) == len(apart) == len(base) == count:
        raise ValueError(
            "conv_general_dilated window and window_strides must have the same number of "
            f"dimensions, but got {count} and {len(strides)} (dilations {base} and {apart})"
        )
    if not all(v > 0 for v in (*strides, *apart)):
        raise TypeError(
            f"All strides and dilations must be positive, got {strides}, {base} and {apart}."
        )
    pads = conv_pads(
        spatial_shape(left, dims.lhs_spec),
        spatial_shape(right, dims.rhs_spec),
        strides,
        padding,
        apart,
    )
    preferred = (
        None if preferred_element_type is None else dtypes.canonicalize(preferred_element_type)
    )
    return conv_general_dilated_p.bind(
        lhs,
        rhs,
        window_strides=strides,
        padding=pads,
        lhs_dilation=base,
        rhs_dilation=apart,
        dimension_numbers=dims,
        feature_group_count=operator.index(feature_group_count),
        batch_group_count=operator.index(batch_group_count),
        precision=canonicalize_precision(precision),
        preferred_element_type=preferred,
        out_sharding=None,
    )


def conv(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """`conv_general_dilated` with the default axes and no dilation.

    >>> x, k = np.ones((1, 1, 4), np.float32), np.ones((2, 1, 3), np.float32)
    >>> conv(x, k, (1,), "SAME").shape
    (1, 2, 4)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def _check_padding(padding: Any) -> None:
    if isinstance(padding, str):
        return
    try:
        for low, high in padding:
            _ = operator.index(low), operator.index(high)
    except (TypeError, ValueError):
        raise ValueError(
            "padding argument to conv_general_dilated should be a string or a sequence of (low, "
            f"high) pairs, got {padding}"
        ) from None


def conv_with_general_padding(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """`conv_general_dilated` with the default axes.

    >>> x, k = np.ones((1, 1, 4), np.float32), np.ones((2, 1, 3), np.float32)
    >>> conv_with_general_padding(x, k, (1,), ((1, 1),), (2,), None).shape
    (1, 2, 7)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def _default_transpose_numbers(rank: int) -> ConvDimensionNumbers:
    spatial = tuple(range(1, rank - 1))
    return ConvDimensionNumbers(
        (0, rank - 1, *spatial),
        (rank - 1, rank - 2, *range(rank - 2)),
        (0, rank - 1, *spatial),
    )


def conv_transpose(
    lhs: Any,
    rhs: Any,
    strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
) -> Array:
    """The transpose of a convolution (a "deconvolution"), which enlarges by `strides`.

    The axes are NHWC, HWIO and NHWC (for other ranks alike) unless `dimension_numbers` says
    otherwise. Padding "SAME" gives size * stride along each axis, "VALID" adds max(k - stride, 0);
    pairs pad the dilated operand, or, with `use_consistent_padding`, are those of the convolution
    that is transposed. With `transpose_kernel` the kernel is that convolution's: it is flipped and
    its feature axes are exchanged, which makes this its gradient.

    Raises ValueError for another padding string; otherwise as `conv_general_dilated`.

    >>> x, k = np.ones((1, 4, 3), np.float32), np.ones((3, 3, 2), np.float32)
    >>> conv_transpose(x, k, (2,), "SAME").shape
    (1, 8, 2)
    """
    left, right = get_aval(lhs).shape, get_aval(rhs).shape
    if dimension_numbers is None and len(left) == len(right):
        dims = _default_transpose_numbers(len(left))
    else:
        dims = conv_dimension_numbers(left, right, dimension_numbers)
    steps = int_tuple(strides)
    window = spatial_shape(right, dims.rhs_spec)
    apart = (1,) * len(window) if rhs_dilation is None else int_tuple(rhs_dilation)
    pads = transpose_pads(window, steps, padding, apart, use_consistent_padding)
    if transpose_kernel:
        rhs = rev(rhs, dims.rhs_spec[2:])
        order = list(range(len(right)))
        out_axis, in_axis = dims.rhs_spec[:2]
        order[out_axis], order[in_axis] = in_axis, out_axis
        rhs = transpose(rhs, order)
    return conv_general_dilated(
        lhs,
        rhs,
        (1,) * len(window),
        pads,
        lhs_dilation=steps,
        rhs_dilation=apart,
        dimension_numbers=dims,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


# ---- shapes


def conv_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    strides: Sequence[int],
    pads: str | Sequence[tuple[int, int]],
    batch_group_count: int = 1,
) -> Shape:
    """The shape of `conv`'s result.

    >>> conv_shape_tuple((2, 4, 8), (6, 4, 3), (1,), ((0, 0),))
    (2, 6, 6)
    """
    left, right, steps = int_tuple(lhs_shape), int_tuple(rhs_shape), int_tuple(strides)
    ones = (1,) * len(steps)
    pairs = conv_pads(left[2:], right[2:], steps, pads, ones)
    spatial = conv_out_spatial(left[2:], right[2:], steps, pairs, ones, ones)
    return (left[0] // batch_group_count, right[0], *spatial)


def conv_general_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    dimension_numbers: Any,
) -> Shape:
    """The shape of the result of `conv_general_dilated` without dilations and groups.

    >>> conv_general_shape_tuple((2, 8, 4), (3, 4, 6), (1,), "SAME", ("NWC", "WIO", "NWC"))
    (2, 8, 6)
    """
    dims = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    left = tuple(operator.index(lhs_shape[i]) for i in dims.lhs_spec)
    right = tuple(operator.index(rhs_shape[i]) for i in dims.rhs_spec)
    found = conv_shape_tuple(left, right, window_strides, padding)
    return _in_order(found, dims.out_spec)


def conv_transpose_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    dimension_numbers: Any,
) -> Shape:
    """The shape of `conv_transpose`'s result.

    >>> conv_transpose_shape_tuple((2, 8, 4), (3, 4, 6), (2,), "SAME", ("NWC", "WIO", "NWC"))
    (2, 16, 6)
    """
    dims = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    left = tuple(operator.index(lhs_shape[i]) for i in dims.lhs_spec)
    right = tuple(operator.index(rhs_shape[i]) for i in dims.rhs_spec)
    steps = int_tuple(window_strides)
    ones = (1,) * len(steps)
    pads = transpose_pads(right[2:], steps, padding, ones, False)
    spatial = conv_out_spatial(left[2:], right[2:], ones, pads, steps, ones)
    return _in_order((left[0], right[0], *spatial), dims.out_spec)


def _in_order(ordered: Shape, spec: Shape) -> Shape:
    return tuple(size for _, size in sorted(zip(spec, ordered, strict=True)))
