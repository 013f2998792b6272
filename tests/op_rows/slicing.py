"""Rows of slice, dynamic_slice and dynamic_update_slice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.op_row import INTEGERS, Arrays, OpRow, random_values
from tests.op_rows.shape import Args, row, shaped, special
from xpr.primitives import slicing as sl

_INT32 = np.dtype(np.int32)


def _at(*starts: int, updates: tuple[int, ...] | None = None, shape: tuple[int, ...]) -> Args:
    """An operand, an update if its shape is given, and int32 starts."""

    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
        arrays = [random_values(rng, dtype, shape)]
        if updates is not None:
            arrays.append(random_values(rng, dtype, updates))
        return (*arrays, *(np.array(s, _INT32) for s in starts))

    return args


def _extreme(which: str, with_update: bool) -> Args:
    """float32 operands with starts at the limits of the index dtype."""

    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
        info = np.iinfo(dtype)
        starts = {"max": (info.max, info.max - 1), "min": (info.min, info.max)}[which]
        arrays = [rng.standard_normal((3, 4)).astype(np.float32)]
        if with_update:
            arrays.append(rng.standard_normal((2, 3)).astype(np.float32))
        return (*arrays, *(np.array(s, dtype) for s in starts))

    return args


def _start(i: Any, size: int, total: int) -> int:
    return min(max(int(i), 0), total - size)


def _slice_oracle(*sizes: int) -> Callable[..., Any]:
    def oracle(x: Any, *starts: Any) -> Any:
        first = [_start(i, n, t) for i, n, t in zip(starts, sizes, x.shape, strict=True)]
        return x[tuple(slice(a, a + n) for a, n in zip(first, sizes, strict=True))]

    return oracle


def _update_oracle(x: Any, update: Any, *starts: Any) -> Any:
    out = np.array(x)
    first = [_start(i, n, t) for i, n, t in zip(starts, update.shape, x.shape, strict=True)]
    for place in np.ndindex(*update.shape):
        out[tuple(a + b for a, b in zip(first, place, strict=True))] = update[place]
    return out


def _dynamic(*sizes: int) -> Callable[..., Any]:
    return lambda x, *starts: sl.dynamic_slice(x, starts, sizes, allow_negative_indices=False)


def _update(x: Any, update: Any, *starts: Any) -> Any:
    return sl.dynamic_update_slice(x, update, starts, allow_negative_indices=False)


ROWS: list[OpRow] = [
    row("slice", "plain", lambda x: sl.slice(x, (1, 0), (3, 4)), shaped((3, 4)), lambda x: x[1:3]),
    row(
        "slice",
        "strides",
        lambda x: sl.slice(x, (0, 1), (3, 4), (5, 2)),
        shaped((3, 4)),
        lambda x: x[0:3:5, 1:4:2],
    ),
    row("slice", "empty", lambda x: sl.slice(x, (1,), (1,)), shaped((3,)), lambda x: x[1:1]),
    row(
        "slice",
        "of-empty",
        lambda x: sl.slice(x, (0, 0), (0, 2)),
        shaped((0, 3)),
        lambda x: x[:, :2],
    ),
    row("slice", "scalar", lambda x: sl.slice(x, (), ()), shaped(()), lambda x: x),
    row("slice", "special", lambda x: sl.slice(x, (1,), (x.size,)), special, lambda x: x[1:]),
    row("dynamic_slice", "inside", _dynamic(2, 3), _at(1, 0, shape=(3, 4)), _slice_oracle(2, 3)),
    row("dynamic_slice", "moved", _dynamic(2, 3), _at(2, 9, shape=(3, 4)), _slice_oracle(2, 3)),
    row("dynamic_slice", "below", _dynamic(2, 3), _at(-9, -1, shape=(3, 4)), _slice_oracle(2, 3)),
    row(
        "dynamic_slice",
        "whole",
        _dynamic(
            3,
        ),
        _at(5, shape=(3,)),
        _slice_oracle(3),
    ),
    row("dynamic_slice", "empty", _dynamic(0, 2), _at(1, 1, shape=(3, 4)), _slice_oracle(0, 2)),
    row("dynamic_slice", "of-empty", _dynamic(0), _at(1, shape=(0,)), _slice_oracle(0)),
    row("dynamic_slice", "scalar", _dynamic(), _at(shape=()), _slice_oracle()),
    *(
        row(
            "dynamic_slice",
            f"index-{which}",
            _dynamic(2, 3),
            _extreme(which, False),
            _slice_oracle(2, 3),
            dtypes=INTEGERS,
        )
        for which in ("max", "min")
    ),
    row(
        "dynamic_update_slice",
        "inside",
        _update,
        _at(1, 0, updates=(2, 3), shape=(3, 4)),
        _update_oracle,
    ),
    row(
        "dynamic_update_slice",
        "moved",
        _update,
        _at(2, 9, updates=(2, 3), shape=(3, 4)),
        _update_oracle,
    ),
    row(
        "dynamic_update_slice",
        "below",
        _update,
        _at(-9, -1, updates=(2, 3), shape=(3, 4)),
        _update_oracle,
    ),
    row("dynamic_update_slice", "whole", _update, _at(5, updates=(3,), shape=(3,)), _update_oracle),
    row("dynamic_update_slice", "empty", _update, _at(1, updates=(0,), shape=(3,)), _update_oracle),
    row("dynamic_update_slice", "scalar", _update, _at(updates=(), shape=()), _update_oracle),
    *(
        row(
            "dynamic_update_slice",
            f"index-{which}",
            _update,
            _extreme(which, True),
            _update_oracle,
            dtypes=INTEGERS,
        )
        for which in ("max", "min")
    ),
]
