"""Rows of the bitwise operations, shifts, counts and high products: exact, all special values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.op_row import BOOL, INTEGERS, OpRow
from tests.op_rows._elementwise_args import (
    binary,
    broadcasts,
    by_element,
    of_shapes,
    over_pairs,
    over_shapes,
    unary,
)
from xpr.primitives import integer as i


def _wrapped(dtype: np.dtype[Any], value: int) -> Any:
    """A Python integer cut to the bits of `dtype`."""
    bits = 8 * dtype.itemsize
    value &= (1 << bits) - 1
    signed = dtype.kind == "i" and value >> (bits - 1)
    return dtype.type(value - (1 << bits) if signed else value)


def _bits(dtype: np.dtype[Any], value: int) -> int:
    return value & ((1 << (8 * dtype.itemsize)) - 1)


def _amount(dtype: np.dtype[Any], value: int) -> int:
    """A shift's amount, read as unsigned; what is too great shifts every bit out."""
    return min(_bits(dtype, value), 8 * dtype.itemsize)


def _left(dtype: np.dtype[Any], x: int, y: int) -> Any:
    return _wrapped(dtype, x << _amount(dtype, y))


def _logical(dtype: np.dtype[Any], x: int, y: int) -> Any:
    return _wrapped(dtype, _bits(dtype, x) >> _amount(dtype, y))


def _arithmetic(dtype: np.dtype[Any], x: int, y: int) -> Any:
    signed = int(_wrapped(np.dtype(f"i{dtype.itemsize}"), x))
    return _wrapped(dtype, signed >> _amount(dtype, y))


def _clz(dtype: np.dtype[Any], x: int) -> Any:
    return dtype.type(8 * dtype.itemsize - _bits(dtype, x).bit_length())


def _count(dtype: np.dtype[Any], x: int) -> Any:
    return dtype.type(_bits(dtype, x).bit_count())


def _mulhi(dtype: np.dtype[Any], x: int, y: int) -> Any:
    return _wrapped(dtype, (x * y) >> (8 * dtype.itemsize))


def _row(
    name: str, function: Callable[..., Any], arity: int, oracle: Any, boolean: bool = False
) -> OpRow:
    args = unary((-100.0, 100.0)) if arity == 1 else binary(-100.0, 100.0)
    dtypes = (*BOOL, *INTEGERS) if boolean else INTEGERS
    return OpRow(name, function, args, dtypes, oracle=by_element(oracle), exact=True)


ROWS: list[OpRow] = [
    _row("and", i.bitwise_and, 2, lambda d, x, y: d.type(x & y), boolean=True),
    _row("or", i.bitwise_or, 2, lambda d, x, y: d.type(x | y), boolean=True),
    _row("xor", i.bitwise_xor, 2, lambda d, x, y: d.type(x ^ y), boolean=True),
    _row("not", i.bitwise_not, 1, lambda d, x: not x if d.kind == "b" else _wrapped(d, ~x), True),
    _row("shift_left", i.shift_left, 2, _left),
    _row("shift_right_logical", i.shift_right_logical, 2, _logical),
    _row("shift_right_arithmetic", i.shift_right_arithmetic, 2, _arithmetic),
    _row("clz", i.clz, 1, _clz),
    _row("population_count", i.population_count, 1, _count),
    _row("mulhi", i.mulhi, 2, _mulhi),
    OpRow("clz", over_shapes(i.clz), of_shapes, INTEGERS, case="shapes", exact=True),
    OpRow("mulhi", over_pairs(i.mulhi), broadcasts, INTEGERS, case="broadcast", exact=True),
    OpRow(
        "shift_left", over_pairs(i.shift_left), broadcasts, INTEGERS, case="broadcast", exact=True
    ),
]
