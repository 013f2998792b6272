"""Bitwise functions of booleans and integers, and functions of divisors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.trace import Tracer, get_aval
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import broadcast_all, one_operand, promote_args
from xpr.numpy._select import select_where
from xpr.numpy._typing import Array, ArrayLike, DType
from xpr.numpy.operators import operator_of, reflected
from xpr.primitives import compare as cmp
from xpr.primitives import elementwise as el
from xpr.primitives import integer as bits
from xpr.primitives.convert import bitcast_convert_type_p, convert_element_type_p, convert_type


def bitwise_and(x: ArrayLike, y: ArrayLike, /) -> Array:
    """`x & y` of integers or booleans. Raises TypeError for other dtypes.

    >>> import xpr.numpy as jnp
    >>> jnp.bitwise_and(jnp.arange(4), 2)
    Array([0, 0, 2, 2], dtype=int32)
    """
    (x, y), _ = promote_args("bitwise_and", x, y)
    return bits.and_p.bind(x, y)


def bitwise_or(x: ArrayLike, y: ArrayLike, /) -> Array:
    """`x | y` of integers or booleans. Raises TypeError for other dtypes.

    >>> import xpr.numpy as jnp
    >>> jnp.bitwise_or(jnp.array([0, 1, 4]), 2)
    Array([2, 3, 6], dtype=int32)
    """
    (x, y), _ = promote_args("bitwise_or", x, y)
    return bits.or_p.bind(x, y)


def bitwise_xor(x: ArrayLike, y: ArrayLike, /) -> Array:
    """`x ^ y` of integers or booleans. Raises TypeError for other dtypes.

    >>> import xpr.numpy as jnp
    >>> jnp.bitwise_xor(jnp.array([0, 1, 3]), 2)
    Array([2, 3, 1], dtype=int32)
    """
    (x, y), _ = promote_args("bitwise_xor", x, y)
    return bits.xor_p.bind(x, y)


def bitwise_not(x: ArrayLike, /) -> Array:
    """`~x` of integers or booleans. Raises TypeError for other dtypes.

    >>> import xpr.numpy as jnp
    >>> jnp.bitwise_not(jnp.array([0, 1, -5]))
    Array([-1, -2,  4], dtype=int32)
    """
    return bits.not_p.bind(one_operand("bitwise_not", x)[0])


def left_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """`x * 2**y` modulo the width of the integers: the bits of `x` moved up by `y` places.

    A shift by a negative number, or by all bits or more, gives 0. Raises TypeError for operands
    that are no integers or booleans.

    >>> import xpr.numpy as jnp
    >>> jnp.left_shift(jnp.array([1, 3]), jnp.array([4, 1]))
    Array([16,  6], dtype=int32)
    """
    (x, y), _ = shift_operands("left_shift", x, y)
    return bits.shift_left_p.bind(x, y)


def right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The bits of `x1` moved down by `x2` places; the sign of a signed integer is kept.

    Raises TypeError for operands that are no integers or booleans.

    >>> import xpr.numpy as jnp
    >>> jnp.right_shift(jnp.array([16, -16]), 2)
    Array([ 4, -4], dtype=int32)
    """
    (x, y), dtype = shift_operands("right_shift", x1, x2)
    unsigned = dtypes.kind(dtype) == "u"
    return (bits.shift_right_logical_p if unsigned else bits.shift_right_arithmetic_p).bind(x, y)


def shift_operands(name: str, x: Any, y: Any) -> tuple[tuple[Any, Any], DType]:
    (x, y), dtype = promote_args(name, x, y)
    if dtypes.kind(dtype) == "b":
        dtype = np.dtype(np.int32)
        x = convert_element_type_p.bind(x, new_dtype=dtype, weak_type=False)
        y = convert_element_type_p.bind(y, new_dtype=dtype, weak_type=False)
    return (x, y), dtype


def bitwise_count(x: ArrayLike, /) -> Array:
    """The number of set bits of the absolute value of each integer, uint8.

    Raises TypeError for operands that are no integers or booleans.

    >>> import xpr.numpy as jnp
    >>> jnp.bitwise_count(jnp.array([5, -5]))
    Array([2, 2], dtype=uint8)
    """
    x, dtype = one_operand("bitwise_count", x)
    kind = dtypes.kind(dtype)
    if kind == "i":
        x = el.abs_p.bind(x)
    uint8 = np.dtype(np.uint8)
    if kind != "b":
        x = bits.population_count_p.bind(x)
    return convert_element_type_p.bind(x, new_dtype=uint8, weak_type=False)


# ---- divisors


def _unsigned(x: Any, dtype: DType) -> Any:
    """The absolute value of signed integers as unsigned ones, which hold all of them."""
    if dtypes.kind(dtype) == "u":
        return x
    if dtype in dtypes.SMALL_INT_TYPES:
        return convert_type(el.abs_p.bind(x), np.dtype(f"u{dtype}"))
    wide = np.dtype(f"u{dtype.itemsize}")
    return bitcast_convert_type_p.bind(el.abs_p.bind(x), new_dtype=wide)


def _signed(found: Any, dtype: DType, x: Any, y: Any) -> Array:
    """The unsigned `found` as `dtype`, weakly typed if `x` and `y` are and have no axes."""
    weak = all(a.weak_type and not a.shape for a in (get_aval(x), get_aval(y)))
    if dtype in dtypes.SMALL_INT_TYPES:
        return convert_type(found, dtype, weak)
    return convert_type(bitcast_convert_type_p.bind(found, new_dtype=dtype), dtype, weak)


def _integer_operands(name: str, x1: Any, x2: Any) -> tuple[Any, Any, DType]:
    (x, y), dtype = promote_args(name, x1, x2)
    if not dtypes.is_integer(dtype):
        raise ValueError(f"Arguments to jax.numpy.{name} must be integers, got {dtype}")
    return x, y, dtype


def _common_divisor(x: Any, y: Any) -> Any:
    """Euclid's algorithm with remainders of least size, for unsigned integers.

    Consecutive Pell numbers need the most steps, which bounds their number.
    """
    dtype = get_aval(x).dtype
    zero, one = dtype.type(0), dtype.type(1)
    bound = (8 * dtype.itemsize * math.log(2) + math.log(8) / 2) / math.log(1 + math.sqrt(2))
    for _ in range(math.ceil(bound) + 1):
        # Of an array itself, NumPy would ask for an operation, which is traced as any other.
        if not isinstance(y, Tracer) and not np.asarray(y).any():
            break
        done = cmp.eq_p.bind(y, zero)
        rest = el.rem_p.bind(x, select_where(done, one, y))
        rest = el.min_p.bind(rest, el.sub_p.bind(y, rest))
        x, y = select_where(done, x, y), select_where(done, zero, rest)
    return x


def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The greatest common divisor of the absolute values; `gcd(0, 0)` is 0.

    Raises ValueError for operands that are no integers.

    >>> import xpr.numpy as jnp
    >>> jnp.gcd(12, jnp.array([8, 0, -6]))
    Array([ 4, 12,  6], dtype=int32)
    """
    x, y, dtype = _integer_operands("gcd", x1, x2)
    x, y = broadcast_all(x, y)
    divisor = _common_divisor(_unsigned(x, dtype), _unsigned(y, dtype))
    if dtypes.kind(dtype) == "u":
        return as_array(divisor)
    return _signed(divisor, dtype, x, y)


def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The least common multiple of the absolute values, 0 where either operand is.

    Raises ValueError for operands that are no integers.

    >>> import xpr.numpy as jnp
    >>> jnp.lcm(jnp.array([4, -3, 0]), 6)
    Array([12,  6,  0], dtype=int32)
    """
    x, y, dtype = _integer_operands("lcm", x1, x2)
    x, y = broadcast_all(x, y)
    a, b = _unsigned(x, dtype), _unsigned(y, dtype)
    wide = get_aval(a).dtype
    divisor = _common_divisor(a, b)
    divisor = select_where(cmp.eq_p.bind(divisor, wide.type(0)), wide.type(1), divisor)
    multiple = el.mul_p.bind(el.div_p.bind(a, divisor), b)
    if dtypes.kind(dtype) == "u":
        return multiple
    return _signed(multiple, dtype, x, y)


# ---- Python's operators

op_and, op_rand = operator_of(bitwise_and, "&"), reflected(bitwise_and, "&")
op_or, op_ror = operator_of(bitwise_or, "|"), reflected(bitwise_or, "|")
op_xor, op_rxor = operator_of(bitwise_xor, "^"), reflected(bitwise_xor, "^")
op_lshift, op_rlshift = operator_of(left_shift, "<<"), reflected(left_shift, "<<")
op_rshift, op_rrshift = operator_of(right_shift, ">>"), reflected(right_shift, ">>")
