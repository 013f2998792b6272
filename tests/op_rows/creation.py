"""Rows of iota and empty."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.op_row import ALL, NUMERIC, Arrays, OpRow
from tests.op_rows.shape import row
from xpr.primitives import creation as c


def _of_dtype(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
    # iota has no operand: an empty one carries the dtype.
    return (np.zeros((0,), dtype),)


def _counting(shape: tuple[int, ...], dimension: int) -> Callable[[Any], Any]:
    return lambda x: c.broadcasted_iota(x.dtype, shape, dimension)


def _expected(shape: tuple[int, ...], dimension: int) -> Callable[[Any], Any]:
    return lambda x: np.indices(shape)[dimension].astype(x.dtype)


_SHAPES: dict[str, tuple[tuple[int, ...], int]] = {
    "line": ((5,), 0),
    # More than int8 and uint8 hold: the values wrap.
    "long": ((300,), 0),
    # More than float16 and bfloat16 hold exactly, and more than float16 holds at all.
    "very-long": ((70000,), 0),
    "rows": ((3, 4), 0),
    "columns": ((3, 4), 1),
    "empty": ((0,), 0),
    "one": ((1, 1), 1),
}

ROWS: list[OpRow] = [
    *(
        row("iota", case, _counting(*where), _of_dtype, _expected(*where), dtypes=NUMERIC)
        for case, where in _SHAPES.items()
    ),
    row(
        "empty",
        "zeros",
        lambda x: c.empty((2, 3), x.dtype),
        _of_dtype,
        lambda x: np.zeros((2, 3), x.dtype),
        dtypes=ALL,
    ),
]
