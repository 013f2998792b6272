"""The numbers that XLA gives to types of elements, and how elements of less than a byte lie."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

TOKEN = 17

_NUMBERS: dict[np.dtype[Any], int] = {
    np.dtype(kind): number
    for kind, number in (
        (np.bool_, 1),
        (np.int8, 2),
        (np.int16, 3),
        (np.int32, 4),
        (np.int64, 5),
        (np.uint8, 6),
        (np.uint16, 7),
        (np.uint32, 8),
        (np.uint64, 9),
        (np.float16, 10),
        (np.float32, 11),
        (np.float64, 12),
        (np.complex64, 15),
        (ml_dtypes.bfloat16, 16),
        (np.complex128, 18),
        (ml_dtypes.float8_e5m2, 19),
        (ml_dtypes.float8_e4m3fn, 20),
        (ml_dtypes.int4, 21),
        (ml_dtypes.uint4, 22),
        (ml_dtypes.float8_e4m3b11fnuz, 23),
        (ml_dtypes.float8_e5m2fnuz, 24),
        (ml_dtypes.float8_e4m3fnuz, 25),
        (ml_dtypes.int2, 26),
        (ml_dtypes.uint2, 27),
        (ml_dtypes.float8_e4m3, 28),
        (ml_dtypes.float8_e3m4, 29),
        (ml_dtypes.float4_e2m1fn, 32),
        (ml_dtypes.float8_e8m0fnu, 33),
    )
}

# In XLA's memory several of these elements share a byte, the first one in its lowest bits.
_BITS: dict[np.dtype[Any], int] = {
    np.dtype(ml_dtypes.int4): 4,
    np.dtype(ml_dtypes.uint4): 4,
    np.dtype(ml_dtypes.float4_e2m1fn): 4,
    np.dtype(ml_dtypes.int2): 2,
    np.dtype(ml_dtypes.uint2): 2,
}


def number_of(dtype: np.dtype[Any]) -> int:
    """XLA's number of the dtype; TypeError if it has none.

    >>> number_of(np.dtype(np.float32))
    11
    """
    try:
        return _NUMBERS[dtype]
    except KeyError:
        raise TypeError(f"foreign functions take no elements of dtype {dtype}") from None


def is_packed(dtype: np.dtype[Any]) -> bool:
    """Whether several elements share a byte."""
    return dtype in _BITS


def packed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bytes in which the elements of a contiguous array lie.

    >>> packed(np.array([1, 2, 3], ml_dtypes.int4)).tolist()
    [33, 3]
    """
    bits = _BITS[array.dtype]
    each = 8 // bits
    flat = array.reshape(-1).view(np.uint8) & np.uint8((1 << bits) - 1)
    rows = np.zeros((-(-flat.size // each), each), np.uint8)
    rows.reshape(-1)[: flat.size] = flat
    out = np.zeros(len(rows), np.uint8)
    for i in range(each):
        out |= rows[:, i] << np.uint8(i * bits)
    return out


def unpacked(data: np.ndarray[Any, Any], out: np.ndarray[Any, Any]) -> None:
    """Writes the elements that lie in these bytes to a contiguous array.

    >>> out = np.zeros(3, ml_dtypes.int4)
    >>> unpacked(np.array([33, 131], np.uint8), out)
    >>> out.tolist()
    [1, 2, 3]
    """
    bits = _BITS[out.dtype]
    each = 8 // bits
    flat = np.empty((len(data), each), np.uint8)
    for i in range(each):
        flat[:, i] = (data >> np.uint8(i * bits)) & np.uint8((1 << bits) - 1)
    # ml_dtypes keeps each element in the lowest bits of a byte of its own.
    out.reshape(-1).view(np.uint8)[...] = flat.reshape(-1)[: out.size]
