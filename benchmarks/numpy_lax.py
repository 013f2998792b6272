"""What the benchmark programs take from ``lax``, for NumPy: the same names and meanings."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import erf as erf


def top_k(x: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k largest values along the last axis, largest first, and where they are."""
    part = np.argpartition(x, -k, axis=-1)[..., -k:]
    values = np.take_along_axis(x, part, axis=-1)
    order = np.argsort(-values, axis=-1, kind="stable")
    return np.take_along_axis(values, order, axis=-1), np.take_along_axis(part, order, axis=-1)


def rsqrt(x: np.ndarray) -> np.ndarray:
    """The reciprocal of the square root."""
    return 1.0 / np.sqrt(x)


def conv_general_dilated(
    lhs: np.ndarray, rhs: np.ndarray, window_strides: tuple[int, int], padding: str
) -> np.ndarray:
    """A 2-D convolution, lhs (n, c, h, w) and rhs (o, c, kh, kw), odd windows, stride 1, "SAME"."""
    if padding != "SAME" or window_strides != (1, 1):
        raise NotImplementedError(
            f"conv_general_dilated requires stride (1, 1) and padding 'SAME' here, "
            f"got {window_strides} and {padding!r}"
        )
    margins = [(0, 0), (0, 0), *((size // 2, size // 2) for size in rhs.shape[2:])]
    windows = sliding_window_view(np.pad(lhs, margins), rhs.shape[2:], axis=(2, 3))
    out = np.tensordot(windows, rhs, axes=((1, 4, 5), (1, 2, 3)))
    return np.moveaxis(out, -1, 1)
