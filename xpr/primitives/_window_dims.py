"""Geometry of windows that slide over an array: padding, strides and dilations."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

NDArray = np.ndarray[Any, Any]
Shape = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]


def dilated(size: int, dilation: int) -> int:
    """The length of `size` elements `dilation` apart."""
    return 0 if size == 0 else (size - 1) * dilation + 1


def window_count(size: int, window: int, stride: int) -> int:
    """How many windows start within `size` elements, `stride` apart, and end within them."""
    return max(0, (size - window) // stride + 1)


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str,
) -> list[tuple[int, int]]:
    """The (low, high) padding of each axis that "SAME", "SAME_LOWER" or "VALID" stands for.

    SAME gives ceil(size / stride) windows, the odd element of padding at the end; SAME_LOWER has
    it at the start. Raises TypeError for a padding that is no string, RuntimeError for others.

    >>> padtype_to_pads((10,), (3,), (2,), "SAME")
    [(0, 1)]
    """
    if not isinstance(padding, str):
        raise TypeError(f"Unknown padding type: {padding}.")
    kind = padding.upper()
    if kind == "VALID":
        return [(0, 0)] * len(in_shape)
    if kind not in ("SAME", "SAME_LOWER"):
        raise RuntimeError(
            f"Unrecognized padding type: expected 'VALID', 'SAME', or 'SAME_LOWER', got {padding}."
        )
    pads = []
    for size, window, stride in zip(in_shape, window_shape, window_strides, strict=True):
        total = max(0, (-(-size // stride) - 1) * stride + window - size)
        half = total // 2
        pads.append((half, total - half) if kind == "SAME" else (total - half, half))
    return pads


def int_tuple(values: Sequence[int]) -> Shape:
    """`values` as Python integers."""
    return tuple(operator.index(v) for v in values)


def pad_pairs(name: str, padding: Any, rank: int) -> Pads:
    """Explicit padding as pairs of integers; ValueError unless there is one for each axis."""
    pairs = tuple(int_tuple(p) for p in padding)
    if len(pairs) != rank or any(len(p) != 2 for p in pairs):
        raise ValueError(
            f"{name} requires one (low, high) pair of padding for each of {rank} axes, "
            f"got {padding}"
        )
    return tuple((p[0], p[1]) for p in pairs)


@dataclass(frozen=True, slots=True)
class WindowDims:
    """Windows over all axes of an array: one size, stride, padding and two dilations for each.

    The array's elements are first spread `base_dilation` apart, then padded (negative padding
    removes elements); a window's elements are `window_dilation` apart.
    """

    dimensions: Shape
    strides: Shape
    padding: Pads
    base_dilation: Shape
    window_dilation: Shape

    def check(self, name: str, shape: Shape) -> None:
        """Raises TypeError unless every part has one positive number for each axis of `shape`."""
        if len(self.dimensions) != len(shape):
            raise TypeError(
                f"{name} got the wrong number of window_dimensions for operand: got operand shape "
                f"{shape} with window_dimensions {self.dimensions}."
            )
        for part in ("strides", "base_dilation", "window_dilation"):
            values = getattr(self, part)
            shown = "window_strides" if part == "strides" else part
            if len(values) != len(self.dimensions):
                raise TypeError(
                    f"{name} got inconsistent {shown} and window_dimensions: got {shown} "
                    f"{values} and window_dimensions {self.dimensions}."
                )
            if not all(v > 0 for v in values):
                raise TypeError(
                    f"{name} {shown} must have every element be strictly positive, got {values}."
                )
        if not all(v > 0 for v in self.dimensions):
            raise TypeError(
                f"{name} window_dimensions must have every element be strictly positive, "
                f"got {self.dimensions}."
            )
        if len(self.padding) != len(shape):
            raise ValueError(
                f"{name} requires one pair of padding for each axis, got {self.padding} for "
                f"operand shape {shape}."
            )

    def padded_shape(self, shape: Shape) -> Shape:
        """The shape after dilation and padding."""
        return tuple(
            max(0, dilated(n, d) + low + high)
            for n, d, (low, high) in zip(shape, self.base_dilation, self.padding, strict=True)
        )

    def out_shape(self, shape: Shape) -> Shape:
        """How many windows there are along each axis."""
        return tuple(
            window_count(n, dilated(w, d), s)
            for n, w, d, s in zip(
                self.padded_shape(shape),
                self.dimensions,
                self.window_dilation,
                self.strides,
                strict=True,
            )
        )


def window_dims(
    window_dimensions: Shape,
    window_strides: Shape,
    padding: Pads,
    base_dilation: Shape | None = None,
    window_dilation: Shape | None = None,
) -> WindowDims:
    """`WindowDims` from an equation's parameters."""
    ones = (1,) * len(window_dimensions)
    return WindowDims(
        window_dimensions, window_strides, padding, base_dilation or ones, window_dilation or ones
    )


def pad_array(x: NDArray, value: Any, padding: Pads, dilation: Sequence[int]) -> NDArray:
    """`x` with its elements spread `dilation` apart and padded, gaps and edges filled."""
    if all(d == 1 for d in dilation) and all(p == (0, 0) for p in padding):
        return x
    wide = tuple(dilated(n, d) for n, d in zip(x.shape, dilation, strict=True))
    shape = tuple(max(0, n + low + high) for n, (low, high) in zip(wide, padding, strict=True))
    out = np.full(shape, value, x.dtype)
    targets, sources = [], []
    for n, d, (low, _), size in zip(x.shape, dilation, padding, shape, strict=True):
        # Element i goes to low + i * d; negative padding drops those that fall outside.
        first = -(-max(0, -low) // d)
        last = min(n, (size - 1 - low) // d + 1)
        last = max(first, last)
        targets.append(slice(low + first * d, low + (last - 1) * d + 1 if last > first else 0, d))
        sources.append(slice(first, last))
        if last == first:
            return out
    out[tuple(targets)] = x[tuple(sources)]
    return out
