"""Stable sorting in NumPy, quick enough for eager mode and for host calls.

NumPy's stable argsort is about ten times slower than its vectorised sort of 64-bit integers. So a
key becomes an integer code of at most 32 bits that keeps the order, the position goes into the low
32 bits, and one plain sort of the pairs gives the stable permutation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes

NDArray = np.ndarray[Any, Any]

_LOW = np.int64(0xFFFFFFFF)


def sort_values(x: NDArray, axis: int) -> NDArray:
    """`x` sorted along `axis`: NaN last, zeros of both signs in the order they came."""
    if dtypes.is_complex(x.dtype):
        order = stable_order([x], axis)
        return np.take_along_axis(x, order, axis)
    if not dtypes.is_float(x.dtype):
        return np.sort(x, axis=axis)
    work = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    work = np.moveaxis(work, axis, -1)
    found = np.sort(work, axis=-1)
    zero = work == 0
    if np.any(np.signbit(work) & zero):
        # Equal numbers of zeros in each row, so both masks pick them row by row.
        found[found == 0] = work[zero]
    return np.moveaxis(found, -1, axis).astype(x.dtype, copy=False)


def stable_order(keys: Sequence[NDArray], axis: int) -> NDArray:
    """The permutation along `axis` that sorts by the first key, ties by the next, then by position.

    Numbers compare by value (so -0 equals 0), NaN equals NaN and comes last, complex numbers
    compare by real part, then imaginary part.
    """
    parts: list[NDArray] = []
    for key in keys:
        moved = np.moveaxis(key, axis, -1)
        parts += [moved.real, moved.imag] if dtypes.is_complex(key.dtype) else [moved]
    code = _code(parts[0])
    for part in parts[1:]:
        # Both codes have 32 bits; their pair is brought back to 32 bits as a rank.
        code = _rank((code << 32) | (_code(part) & _LOW) ^ np.int64(0x80000000))
    position = np.arange(code.shape[-1], dtype=np.int64)
    order = np.sort((code << 32) | position, axis=-1) & _LOW
    return np.moveaxis(order, -1, axis)


def top_order(x: NDArray, k: int, axis: int) -> NDArray:
    """Positions along `axis` of the `k` greatest, NaN first, equal ones by position."""
    moved = np.moveaxis(x, axis, -1)
    if 0 < k and moved.shape[-1] >= _LONG * k and x.dtype.itemsize <= 4:
        found = _top_of_candidates(moved, k)
        if found is not None:
            return np.moveaxis(found, -1, axis)
    # The complement reverses the order of integers without overflow.
    code = (~_code(moved) << 32) | np.arange(moved.shape[-1], dtype=np.int64)
    if 0 < k < code.shape[-1] // 8:
        code = np.partition(code, k - 1, axis=-1)[..., :k]
    return np.moveaxis(np.sort(code, axis=-1)[..., :k] & _LOW, -1, axis)


# From so many times `k` elements in a row on it pays to look for candidates first.
_LONG = 64
_COLUMNS = 8


def _top_of_candidates(x: NDArray, k: int) -> NDArray | None:
    """Positions of the `k` greatest of each row, found among a few candidates.

    The maxima of `k` disjoint sets of elements bound the `k` greatest from below, and finding them
    takes one quick pass. None if too many elements reach the bound, as when most are equal.
    """
    n = x.shape[-1]
    rows = x.reshape(-1, n)
    if dtypes.is_float(x.dtype) and x.dtype.itemsize < 4:
        rows = rows.astype(np.float32)
    sets = n // _COLUMNS
    greatest = rows[:, : sets * _COLUMNS].reshape(len(rows), _COLUMNS, sets).max(axis=1)
    bound = np.partition(greatest, sets - k, axis=-1)[:, sets - k, None]
    # NaN counts as the greatest value, here as in `max` and `partition`.
    row, position = np.nonzero(~(rows < bound))
    if len(row) > rows.size // _COLUMNS:
        return None
    order = np.lexsort((position, ~_code(rows[row, position]), row))
    first = np.searchsorted(row, np.arange(len(rows)))
    found = position[order[first[:, None] + np.arange(k)]]
    return found.reshape(*x.shape[:-1], k)


def _code(x: NDArray) -> NDArray:
    """int64 codes in [-2**31, 2**31) in the order of the values of `x`, equal for equal values."""
    kind = dtypes.kind(x.dtype)
    if kind == "f" and x.dtype.itemsize <= 4:
        wide = x.astype(np.float32) + np.float32(0)  # makes -0 a 0
        bits = wide.view(np.int32)
        # Negative floats have descending bit patterns: flipping all but the sign mends that.
        code = bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))
        return np.where(np.isnan(wide), np.int32(0x7FFFFFFF), code).astype(np.int64)
    if x.dtype.itemsize == 8:
        return _rank(x)
    code = x.astype(np.int64)
    return code - (1 << 31) if kind == "u" and x.dtype.itemsize == 4 else code


def _rank(x: NDArray) -> NDArray:
    """The number of smaller distinct values of each element along the last axis."""
    order = np.argsort(x, axis=-1)
    ordered = np.take_along_axis(x, order, -1)
    steps = np.zeros(x.shape, np.int64)
    before, after = ordered[..., :-1], ordered[..., 1:]
    steps[..., 1:] = (before != after) & ~((before != before) & (after != after))
    ranks = np.empty(x.shape, np.int64)
    np.put_along_axis(ranks, order, np.cumsum(steps, axis=-1), -1)
    return ranks
