"""Bitwise operations, shifts and the high half of products.

Operands have one dtype and equal shapes (rank-0 operands go with any); TypeError for others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core.array import Array
from xpr.primitives.families import BITWISE, INTEGRAL, binary, by_bits, unary
from xpr.primitives.rules import NoTangent

__all__ = [
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "clz",
    "mulhi",
    "population_count",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
]

_FAMILY = "integer"
_NdArray = np.ndarray[Any, Any]


def _as_dtype(x: _NdArray, kind: str) -> _NdArray:
    """The same bits as signed (`kind` "i") or unsigned ("u") integers."""
    return x.view(np.dtype(f"{kind}{x.dtype.itemsize}"))


def _lower_bits(x: _NdArray, bits: int) -> _NdArray:
    """The bits of elements of that width as unsigned integers; the bits above them are zero."""
    unsigned = _as_dtype(x, "u")
    return unsigned & unsigned.dtype.type((1 << bits) - 1)


# ---- bitwise

and_p = binary(
    "and", family=_FAMILY, kinds=BITWISE, doc="x & y.", reference=np.bitwise_and, jvp=NoTangent()
)
or_p = binary(
    "or", family=_FAMILY, kinds=BITWISE, doc="x | y.", reference=np.bitwise_or, jvp=NoTangent()
)
xor_p = binary(
    "xor", family=_FAMILY, kinds=BITWISE, doc="x ^ y.", reference=np.bitwise_xor, jvp=NoTangent()
)
not_p = unary("not", family=_FAMILY, kinds=BITWISE, doc="~x.", reference=np.invert, jvp=NoTangent())


def bitwise_and(x: Any, y: Any) -> Array:
    """The bitwise and `x & y` of boolean or integer arrays.

    >>> from xpr import lax
    >>> lax.bitwise_and(6, 3)
    Array(2, dtype=int32, weak_type=True)
    """
    return and_p.bind(x, y)


def bitwise_or(x: Any, y: Any) -> Array:
    """The bitwise or `x | y` of boolean or integer arrays.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.bitwise_or(jnp.array([0, 1, 4]), 2)
    Array([2, 3, 6], dtype=int32)
    """
    return or_p.bind(x, y)


def bitwise_xor(x: Any, y: Any) -> Array:
    """The bitwise exclusive or `x ^ y` of boolean or integer arrays.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.bitwise_xor(jnp.array([0, 1, 3]), 2)
    Array([2, 3, 1], dtype=int32)
    """
    return xor_p.bind(x, y)


def bitwise_not(x: Any) -> Array:
    """The complement `~x` of a boolean or integer array; of booleans the logical not.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.bitwise_not(jnp.array([0, 1, -5]))
    Array([-1, -2,  4], dtype=int32)
    """
    return not_p.bind(x)


# ---- shifts: an amount outside [0, bits), read as unsigned, shifts every bit out


def _shift_left_reference(x: _NdArray, y: _NdArray, *, bits: int) -> Any:
    amount = _as_dtype(y, "u")
    inside = amount < bits
    shifted = np.left_shift(_as_dtype(x, "u"), np.where(inside, amount, 0))
    return _as_dtype(np.where(inside, shifted, 0).astype(amount.dtype), x.dtype.kind)


def _shift_right_logical_reference(x: _NdArray, y: _NdArray, *, bits: int) -> Any:
    amount = _as_dtype(y, "u")
    inside = amount < bits
    shifted = np.right_shift(_lower_bits(x, bits), np.where(inside, amount, 0))
    return _as_dtype(np.where(inside, shifted, 0).astype(amount.dtype), x.dtype.kind)


def _shift_right_arithmetic_reference(x: _NdArray, y: _NdArray, *, bits: int) -> Any:
    last = np.array(bits - 1, _as_dtype(y, "u").dtype)
    amount = _as_dtype(np.minimum(_as_dtype(y, "u"), last), "i")
    # The upper bit of an element is that of its own width.
    unused = _as_dtype(x, "i").dtype.type(8 * x.dtype.itemsize - bits)
    signed = np.right_shift(np.left_shift(_as_dtype(x, "i"), unused), unused)
    return _as_dtype(np.asarray(np.right_shift(signed, amount)), x.dtype.kind)


shift_left_p = binary(
    "shift_left",
    family=_FAMILY,
    kinds=INTEGRAL,
    doc="x << y.",
    reference=by_bits(_shift_left_reference),
    jvp=NoTangent(),
)
shift_right_logical_p = binary(
    "shift_right_logical",
    family=_FAMILY,
    kinds=INTEGRAL,
    doc="x >> y, zeros coming in.",
    reference=by_bits(_shift_right_logical_reference),
    jvp=NoTangent(),
)
shift_right_arithmetic_p = binary(
    "shift_right_arithmetic",
    family=_FAMILY,
    kinds=INTEGRAL,
    doc="x >> y, copies of the top bit coming in.",
    reference=by_bits(_shift_right_arithmetic_reference),
    jvp=NoTangent(),
)


def shift_left(x: Any, y: Any) -> Array:
    """The bits of an integer array `x` moved `y` places to the left; zeros come in.

    Moving by `y < 0` or by at least the number of bits gives 0.

    >>> from xpr import lax
    >>> lax.shift_left(3, 4)
    Array(48, dtype=int32, weak_type=True)
    """
    return shift_left_p.bind(x, y)


def shift_right_arithmetic(x: Any, y: Any) -> Array:
    """The bits of an integer array `x` moved `y` places to the right; the top bit is repeated.

    Moving by `y < 0` or by at least the number of bits leaves copies of the top bit. Unsigned
    integers are treated alike.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.shift_right_arithmetic(jnp.array([16, -16]), 2)
    Array([ 4, -4], dtype=int32)
    """
    return shift_right_arithmetic_p.bind(x, y)


def shift_right_logical(x: Any, y: Any) -> Array:
    """The bits of an integer array `x` moved `y` places to the right; zeros come in.

    Moving by `y < 0` or by at least the number of bits gives 0.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.shift_right_logical(jnp.array([16, -1]), 28)
    Array([ 0, 15], dtype=int32)
    """
    return shift_right_logical_p.bind(x, y)


# ---- counts and products


def _clz_reference(x: _NdArray, *, bits: int) -> Any:
    width = 8 * x.dtype.itemsize
    rest = _lower_bits(x, bits)
    # Binary search for the highest set bit: `low` is its position where the number is not 0.
    low = np.zeros(x.shape, x.dtype)
    step = width // 2
    while step:
        upper = np.right_shift(rest, rest.dtype.type(step))
        rest = np.where(upper != 0, upper, rest)
        low = np.where(upper != 0, low + x.dtype.type(step), low)
        step //= 2
    return np.where(x == 0, x.dtype.type(bits), x.dtype.type(bits - 1) - low)


def _population_count_reference(x: _NdArray, *, bits: int) -> Any:
    return np.bitwise_count(_lower_bits(x, bits)).astype(x.dtype)


def _mulhi_reference(x: _NdArray, y: _NdArray, *, bits: int) -> Any:
    if bits < 64:
        wide = np.dtype(f"{x.dtype.kind}8")
        return np.right_shift(x.astype(wide) * y.astype(wide), wide.type(bits)).astype(x.dtype)
    # Schoolbook multiplication of 32-bit halves; the low halves are unsigned.
    half, mask = x.dtype.type(32), x.dtype.type(0xFFFFFFFF)
    x1, x0, y1, y0 = x >> half, x & mask, y >> half, y & mask
    low = np.right_shift(_as_dtype(x0, "u") * _as_dtype(y0, "u"), np.uint64(32)).astype(x.dtype)
    middle = x1 * y0 + low
    cross = x0 * y1 + (middle & mask)
    return x1 * y1 + (middle >> half) + (cross >> half)


clz_p = unary(
    "clz",
    family=_FAMILY,
    kinds=INTEGRAL,
    doc="The number of zero bits above the highest set bit.",
    reference=by_bits(_clz_reference),
    jvp=NoTangent(),
)
population_count_p = unary(
    "population_count",
    family=_FAMILY,
    kinds=INTEGRAL,
    doc="The number of set bits.",
    reference=by_bits(_population_count_reference),
    jvp=NoTangent(),
)
mulhi_p = binary(
    "mulhi",
    family=_FAMILY,
    kinds=INTEGRAL,
    doc="The upper half of the bits of x * y.",
    reference=by_bits(_mulhi_reference),
    jvp=NoTangent(),
)


def population_count(x: Any) -> Array:
    """The number of set bits of each element of an integer array.

    >>> from xpr import lax
    >>> lax.population_count(7)
    Array(3, dtype=int32, weak_type=True)
    """
    return population_count_p.bind(x)


def clz(x: Any) -> Array:
    """The number of leading zero bits of each element of an integer array; of 0 all its bits.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.clz(jnp.array([0, 1, 255]))
    Array([32, 31, 24], dtype=int32)
    """
    return clz_p.bind(x)


def mulhi(x: Any, y: Any, /) -> Array:
    """The upper half of the bits of the exact product of two integer arrays.

    >>> from xpr import lax
    >>> lax.mulhi(1 << 30, 8)
    Array(2, dtype=int32, weak_type=True)
    """
    return mulhi_p.bind(x, y)
