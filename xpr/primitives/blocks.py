"""Numbers in low precision that share scales in blocks, in the layouts of GGUF files.

A row of K numbers is a row of bytes, block after block. The layouts are those of the GGML library:

- `q8_0`: 32 numbers in 34 bytes, a float16 scale d and 32 int8: d * q
- `q4_0`: 32 numbers in 18 bytes, a float16 scale d and 16 bytes with two numbers each, the lower
  halves first: d * (q - 8)
- `q4_k`: 256 numbers in 144 bytes: float16 scales d and m, 8 pairs of 6-bit scales in 12 bytes, and
  128 bytes with two numbers each: d * scale * q - m * least
- `q6_k`: 256 numbers in 210 bytes: the lower 4 bits of each, the upper 2 bits, 16 int8 scales, and
  a float16 scale d: d * scale * (q - 32)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.primitive import NOT_LINEAR, define
from xpr.primitives.rules import BatchAxis, Dim, NoTangent, move_axis

__all__ = ["LAYOUTS", "Layout", "dequantize"]

_NdArray = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Layout:
    """How many numbers a block has, and how many bytes."""

    name: str
    numbers: int
    size: int

    def bytes_of(self, length: int) -> int:
        """The bytes of a row of so many numbers, a multiple of a block's."""
        return length // self.numbers * self.size


LAYOUTS = {
    layout.name: layout
    for layout in (
        Layout("q8_0", 32, 34),
        Layout("q4_0", 32, 18),
        Layout("q4_k", 256, 144),
        Layout("q6_k", 256, 210),
    )
}
"""The layouts by name."""

ACTIVATIONS = ("int8", "float32")
"""What products on a CPU may make of the other operand: see `dequantize`."""


def _dequantize_abstract(x: ShapedArray, *, layout: str, activations: str) -> ShapedArray:
    del activations
    form = LAYOUTS[layout]
    if x.dtype != np.uint8 or not x.shape or x.shape[-1] % form.size:
        raise TypeError(
            f"dequantize requires uint8 with a last axis of whole blocks, {form.size} bytes each "
            f"in the layout {layout!r}, got {x.dtype} of shape {x.shape}"
        )
    shape = (*x.shape[:-1], x.shape[-1] // form.size * form.numbers)
    return ShapedArray(shape, np.dtype(np.float32))


def _halves(bits: _NdArray) -> _NdArray:
    """Pairs of bytes as float16, in float32, with an axis of size 1."""
    return np.ascontiguousarray(bits).view("<f2").astype(np.float32)


def _nibbles(x: _NdArray) -> _NdArray:
    """The lower halves of the last axis, then the upper ones, in float32."""
    return np.concatenate([x & 15, x >> 4], axis=-1).astype(np.float32)


def _q8_0(x: _NdArray) -> _NdArray:
    return _halves(x[..., :2]) * np.ascontiguousarray(x[..., 2:]).view(np.int8).astype(np.float32)


def _q4_0(x: _NdArray) -> _NdArray:
    return _halves(x[..., :2]) * (_nibbles(x[..., 2:]) - 8)


def _q4_k(x: _NdArray) -> _NdArray:
    first, second, third = x[..., 4:8], x[..., 8:12], x[..., 12:16]
    scale = np.concatenate([first & 63, (third & 15) | (first >> 6) << 4], axis=-1)
    least = np.concatenate([second & 63, (third >> 4) | (second >> 6) << 4], axis=-1)
    factor = _halves(x[..., :2]) * scale.astype(np.float32)
    offset = _halves(x[..., 2:4]) * least.astype(np.float32)
    numbers = _nibbles(x[..., 16:].reshape(*x.shape[:-1], 4, 32))
    numbers = numbers.reshape(*x.shape[:-1], 8, 32)
    return (factor[..., None] * numbers - offset[..., None]).reshape(*x.shape[:-1], 256)


def _q6_k(x: _NdArray) -> _NdArray:
    lead = x.shape[:-1]
    lower = x[..., :128].reshape(*lead, 2, 64)
    lower = np.concatenate([lower & 15, lower >> 4], axis=-1)
    upper = x[..., 128:192].reshape(*lead, 2, 32)
    upper = np.concatenate([upper >> places & 3 for places in (0, 2, 4, 6)], axis=-1)
    numbers = (lower | upper << 4).astype(np.float32) - 32
    scale = np.ascontiguousarray(x[..., 192:208]).view(np.int8).astype(np.float32)
    scale *= _halves(x[..., 208:])
    return (scale[..., None] * numbers.reshape(*lead, 16, 16)).reshape(*lead, 256)


_DECODED: dict[str, Callable[[_NdArray], _NdArray]] = {
    "q8_0": _q8_0,
    "q4_0": _q4_0,
    "q4_k": _q4_k,
    "q6_k": _q6_k,
}


def _dequantize_reference(x: _NdArray, *, layout: str, activations: str) -> _NdArray:
    del activations
    form = LAYOUTS[layout]
    blocks = x.shape[-1] // form.size
    shape = (*x.shape[:-1], blocks * form.numbers)
    # A scale may be infinite, and a hostile file's NaN.
    with np.errstate(invalid="ignore", over="ignore"):
        found = _DECODED[layout](x.reshape(*x.shape[:-1], blocks, form.size))
    return found.reshape(shape)


def _dequantize_batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], **params: Any
) -> tuple[Any, int]:
    del axis
    (x,), (d,) = args, dims
    assert d is not None
    return dequantize_p.bind(move_axis(x, d, 0), **params), 0


dequantize_p = define(
    "dequantize",
    family="blocks",
    doc="The numbers of blocks in low precision, as float32.",
    abstract=_dequantize_abstract,
    reference=_dequantize_reference,
    jvp=NoTangent(),
    transpose=NOT_LINEAR,
    batch=_dequantize_batch,
)


def dequantize(x: Any, layout: str, activations: str = "int8") -> Array:
    """The numbers in blocks of the layout `layout` along the last axis of the bytes `x`.

    uint8 of shape (..., B * size) gives float32 of shape (..., B * numbers), sizes as in `LAYOUTS`.
    A compiled product with the result, contracted along that axis, may read the blocks directly
    and round the other operand to int8 with a scale for each 32 numbers, where `activations` is
    "int8"; with "float32" it is as exact as any other. Raises ValueError for another name,
    TypeError for another dtype or a part of a block.

    >>> dequantize(np.array([0, 0x3C, *range(32)], np.uint8), "q8_0")[:4]
    Array([0., 1., 2., 3.], dtype=float32)
    """
    for what, given, known in (
        ("layout", layout, tuple(LAYOUTS)),
        ("activations", activations, ACTIVATIONS),
    ):
        if given not in known:
            raise ValueError(f"dequantize requires {what} to be one of {known}, got {given!r}")
    return dequantize_p.bind(x, layout=layout, activations=activations)
