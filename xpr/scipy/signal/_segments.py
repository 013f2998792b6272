"""What spectra of segments are made of: windows, extensions, segments and their sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import convert
from xpr.numpy._static import concrete
from xpr.numpy._typing import Array, DType
from xpr.numpy.creation import asarray, zeros
from xpr.numpy.indexing import take
from xpr.numpy.joining import concatenate
from xpr.numpy.manipulation import flip
from xpr.numpy.padding import pad
from xpr.numpy.ufuncs_math import sin
from xpr.primitives._complex import real_dtype
from xpr.primitives.creation import iota


def known_int(x: Any, what: str) -> int:
    """`x` as an integer; ConcretizationTypeError for a tracer."""
    return int(concrete(x, f"{what} must be known when it is traced"))


# ---- windows


def named_window(window: Any, size: int, dtype: DType) -> Array:
    """The periodic window that a name, or a tuple of a name and parameters, stands for."""
    kind = real_dtype(dtype)
    if window == "hann":
        if size == 1:
            return as_array(np.ones(1, kind))
        wave = sin(iota(kind, size) * (math.pi / max(size, 1)))
        return wave * wave
    # The other windows are constants, computed by SciPy.
    from scipy.signal import get_window  # noqa: PLC0415

    return as_array(np.asarray(get_window(window, size), kind))


def is_named(window: Any) -> bool:
    """Whether a window is given by a name, with or without parameters."""
    return isinstance(window, (str, tuple))


def given_window(window: Any, dtype: DType) -> Array:
    """The window whose values are given; complex ones stay complex."""
    values = asarray(window)
    if values.ndim != 1:
        raise ValueError(f"window must be 1-D, got shape {values.shape}")
    return convert(values, dtype if dtypes.is_complex(values.dtype) else real_dtype(dtype))


# ---- extensions of the last axis


def extended(x: Array, n: int, boundary: str) -> Array:
    """`x` with `n` more elements at both ends of the last axis."""
    edges = [(0, 0)] * (x.ndim - 1) + [(n, n)]
    if boundary == "zeros":
        return pad(x, edges)
    if boundary == "constant":
        return pad(x, edges, "edge")
    size = x.shape[-1]
    if n > size - 1:
        raise ValueError(
            f"The extension length n ({n}) is too big. It must not exceed x.shape[axis]-1, which "
            f"is {size - 1}."
        )
    if boundary == "even":
        return pad(x, edges, "reflect")
    # Odd: turned by half a turn about the end points.
    left = 2 * x[..., :1] - flip(x[..., 1 : n + 1], -1)
    right = 2 * x[..., size - 1 :] - flip(x[..., size - 1 - n : size - 1], -1)
    return concatenate([left, x, right], axis=-1)


def with_zeros(x: Array, n: int) -> Array:
    """`x` with `n` zeros more at the end of the last axis."""
    return pad(x, [(0, 0)] * (x.ndim - 1) + [(0, n)]) if n else x


# ---- segments


def _places(count: int, size: int, step: int) -> Any:
    """The places of the elements of each segment."""
    kind = np.dtype(np.int32)
    return iota(kind, count)[:, None] * kind.type(step) + iota(kind, size)[None]


def segments(x: Array, size: int, step: int) -> Array:
    """The whole segments of the last axis that begin `step` apart: [..., count, size]."""
    count = (x.shape[-1] - size) // step + 1
    if step == size:
        return x[..., : count * size].reshape(*x.shape[:-1], count, size)
    return take(x, _places(count, size, step), axis=-1, mode="clip")


def overlapped(frames: Array, step: int) -> Array:
    """The sum of segments [..., count, size] laid `step` apart: the transpose of `segments`."""
    *outer, count, size = frames.shape
    total = zeros((*outer, (count - 1) * step + size), frames.dtype)
    return total.at[..., _places(count, size, step)].add(frames)
