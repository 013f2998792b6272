"""Patches of an operand that a convolution's window sees, and kernels that differ by place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives._conv_dims import (
    ConvDimensionNumbers,
    ConvGeneralDilatedDimensionNumbers,
    conv_dimension_numbers,
)
from xpr.primitives._window_dims import int_tuple
from xpr.primitives.conv import conv_general_dilated
from xpr.primitives.dot_general import dot_general

__all__ = ["conv_general_dilated_local", "conv_general_dilated_patches"]

_Shape = tuple[int, ...]


def conv_general_dilated_patches(
    lhs: Any,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """What the window of a convolution sees at each place, along the feature axis of the result.

    The window has the spatial sizes `filter_shape`, in the order of the kernel's specification; all
    else is as in `conv_general_dilated`, whose spatial sizes the result has. With c input features
    the feature axis of the result has c * prod(filter_shape) elements: the input feature is the
    slowest index, then the window's axes follow. Derivatives are those of a convolution.

    Raises TypeError for dtypes, ranks and axes, ValueError for sizes that do not go together.

    >>> x = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
    >>> conv_general_dilated_patches(x, (2,), (1,), "VALID")
    Array([[[0., 1., 2.],
            [1., 2., 3.]]], dtype=float32)
    """
    aval = get_aval(lhs)
    window = int_tuple(filter_shape)
    rank = len(window) + 2
    dims = conv_dimension_numbers(aval.shape, (1,) * rank, dimension_numbers)
    features = aval.shape[dims.lhs_spec[1]]
    return conv_general_dilated(
        lhs,
        _selecting_kernel(window, features, aval.dtype, dims.rhs_spec),
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        dims,
        feature_group_count=features,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def _selecting_kernel(window: _Shape, features: int, dtype: np.dtype[Any], spec: _Shape) -> Any:
    """A kernel whose output features are the elements of the window, for each input feature."""
    size = math.prod(window)
    one = np.eye(size, dtype=np.int8).reshape((size, 1, *window))
    ordered = np.tile(one, (features, *(1,) * (len(window) + 1)))
    axes = sorted(range(len(spec)), key=spec.__getitem__)
    return np.ascontiguousarray(ordered.transpose(axes)).astype(dtypes.canonicalize(dtype))


def conv_general_dilated_local(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    precision: Any = None,
) -> Array:
    """A convolution with a kernel of its own at each place of the result.

    The spatial axes of `rhs` are those of the result: at each of its places there is a matrix from
    c * prod(filter_shape) elements, along the input feature axis in the order that
    `conv_general_dilated_patches` has, to the output features. Other arguments are as in
    `conv_general_dilated`. Both operands have one dtype, and so has the result.

    Raises TypeError when `rhs` has other sizes than these.

    >>> x = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
    >>> kernels = np.array([[[1, 10, 0], [0, 0, 1]]], np.float32)  # a pair for each of 3 places
    >>> conv_general_dilated_local(x, kernels, (1,), "VALID", (2,))
    Array([[[ 0., 10.,  3.]]], dtype=float32)
    """
    left, right = get_aval(lhs).shape, get_aval(rhs).shape
    dims = conv_dimension_numbers(left, right, dimension_numbers)
    patches = conv_general_dilated_patches(
        lhs,
        filter_shape,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        ConvDimensionNumbers(dims.lhs_spec, dims.rhs_spec, dims.out_spec),
        precision,
    )
    contracted = (dims.rhs_spec[1],), (dims.out_spec[1],)
    places = dims.rhs_spec[2:], dims.out_spec[2:]
    found = dot_general(rhs, patches, (contracted, places), precision=precision)
    # The product has spatial axes first, then output features and the batch.
    count = len(places[0])
    made = (count + 1, count, *range(count))
    order = [made[dims.out_spec.index(axis)] for axis in range(count + 2)]
    return ops.transpose(found, order)
