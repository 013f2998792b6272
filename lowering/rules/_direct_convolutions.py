"""Convolutions over two spatial axes by kernels that come with xpr.

The operand is read where it lies, whatever the strides and distances of windows and taps; the taps
are packed in panels of output features. Convolutions of single pixels whose features come before
the spatial axes are products of the taps and each image.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.ir.types import element_type
from xpr.lowering.rules._kernel_calls import LARGEST, Operand, available, call, kind
from xpr.lowering.rules._packed_products import packed_matrices

_VECTOR_BYTES = {"avx512": 64, "avx2": 32}
# Input and output features from which on vectors and panels are worth their while, and
# multiplications from which on the kernels are used. IREE computes what comes behind a smaller
# one in the same dispatch.
_LEAST_FEATURES, _LEAST_OUTPUTS = 4, 4
_LEAST_WORK = 1 << 18

# A workgroup computes about so many multiplications, and at most so many bytes of panels.
_GROUP_WORK = 1 << 22
_PANEL_BYTES = 1 << 20
_PIXELS = 12


@dataclass(frozen=True)
class Places:
    """Windows along the rows and columns: how far apart, and how far apart their taps are."""

    strides: tuple[int, int]
    dilation: tuple[int, int]
    groups: int


def direct_convolution(
    ctx: LoweringContext, x: Value, kernel: Value, places: Places, shape: tuple[int, ...]
) -> Value | None:
    """The convolution of a padded operand, batch axis first and feature axes last.

    None where there are no kernels, or they do not pay.
    """
    dtype = x.dtype
    if dtype.name not in ("float32", "float64") or kernel.dtype != dtype:
        return None
    images, rows, columns, outputs = shape
    tap_rows, tap_columns, features, _ = kernel.shape
    groups = places.groups
    each = outputs // groups
    depth = tap_rows * tap_columns * features
    work = images * rows * columns * outputs * depth
    if features < _LEAST_FEATURES or each < _LEAST_OUTPUTS or work < _LEAST_WORK:
        return None
    element = element_type(dtype)
    if not available(ctx, "convolutions", f"pack_taps_{element}", f"convolve_{element}"):
        return None
    lanes = _VECTOR_BYTES[kind(ctx) or ""] // dtype.itemsize
    panel = lanes if each <= lanes else 2 * lanes
    panels = groups * -(-each // panel)
    size = panels * panel * depth
    if max(math.prod(x.shape), math.prod(shape), size) >= LARGEST:
        return None
    packed, result = Value((size,), dtype), Value(shape, dtype)
    call(
        ctx,
        "convolutions",
        "pack_taps",
        [kernel],
        [packed],
        (depth, outputs, groups, panel),
        (panels, 1, 1),
    )
    _, height, width, all_features = x.shape
    row = width * all_features
    together = min(panels, max(1, _PANEL_BYTES // (panel * depth * dtype.itemsize)))
    pixels = images * rows * columns
    tiles = max(1, _GROUP_WORK // (_PIXELS * panel * depth * together))
    tiles = min(tiles, max(1, -(-pixels // (16 * _PIXELS))))
    block = tiles * _PIXELS
    numbers = (
        *(images, rows, columns, outputs, groups, features, tap_rows, tap_columns),
        *(height * row, places.strides[0] * row, places.strides[1] * all_features),
        *(places.dilation[0] * row, places.dilation[1] * all_features),
        *(panel, together, block),
    )
    groups_of_work = (-(-panels // together), -(-pixels // block), 1)
    call(ctx, "convolutions", "convolve", [x, packed], [result], numbers, groups_of_work)
    return result


def product_of_pixels(ctx: LoweringContext, x: Value, kernel: Value) -> Value | None:
    """A convolution of single pixels: batch and features first, output features before input ones.

    None where the product of matrices would not be packed.
    """
    images, features, *spatial = x.shape
    outputs, count = kernel.shape[0], math.prod(spatial)
    return packed_matrices(
        ctx,
        Operand(kernel, features, 1, 0),
        Operand(x, 1, count, features * count),
        (images, outputs, count, features),
        (images, outputs, *spatial),
    )
