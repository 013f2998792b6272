"""Rows of gather: every mode, random dimension numbers, indices far outside."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tests.op_row import INTEGERS, Arrays, OpRow, random_values
from tests.op_rows.shape import STORED, Args, row
from tests.primitives.index_oracle import gather_oracle, random_gather
from xpr.primitives.gather import gather, gather_fill


def wild_indices(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """Small indices, some negative or too great, some at the limits of the dtype."""
    info = np.iinfo(dtype)
    indices = rng.integers(0, 5, shape).astype(dtype)
    extreme = rng.choice(np.array([info.min, info.max, info.max - 1], dtype), shape)
    indices = np.where(rng.random(shape) < 0.15, extreme, indices)
    if info.min < 0:
        indices = np.where(rng.random(shape) < 0.1, dtype.type(-1), indices)
    return indices


def _problem(case: str) -> Any:
    return random_gather(np.random.default_rng(zlib.crc32(case.encode())))


def _args(case: str, values: str | None, index: str | None) -> Args:
    shape, index_shape, _, _ = _problem(case)

    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
        value_type = dtype if values is None else np.dtype(values)
        index_type = dtype if index is None else np.dtype(index)
        return random_values(rng, value_type, shape), wild_indices(rng, index_type, index_shape)

    return args


def _function(case: str, mode: str) -> Callable[..., Any]:
    _, _, numbers, sizes = _problem(case)
    return lambda x, i: gather(x, i, numbers, sizes, mode=mode)


def _oracle(case: str, mode: str) -> Callable[..., Any]:
    _, _, numbers, sizes = _problem(case)

    def oracle(x: Any, i: Any) -> Any:
        fill = np.asarray(gather_fill(x.dtype, None)).astype(x.dtype)
        return gather_oracle(x, i, numbers, sizes, mode, fill)

    return oracle


def _row(case: str, mode: str, values: str | None, index: str | None) -> OpRow:
    whole = row(
        "gather",
        f"{mode}-{case}",
        _function(case, mode),
        _args(case, values, index),
        _oracle(case, mode),
        dtypes=STORED if values is None else INTEGERS,
    )
    # Differences of the NaN that such a gather is filled with say nothing.
    nan = "differences of NaN" if mode == "fill" else ""
    # Reads that break the promise are clamped, and have no derivative.
    smooth = _kept_promise(case) if mode == "promise_in_bounds" else None
    return replace(whole, no_derivative_check=nan, smooth=smooth)


def _kept_promise(case: str) -> Args:
    shape, index_shape, _, _ = _problem(case)

    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
        return random_values(rng, dtype, shape), np.zeros(index_shape, np.int32)

    return args


def _filled(case: str) -> OpRow:
    _, _, numbers, sizes = _problem(case)
    return row(
        "gather",
        f"number-{case}",
        lambda x, i: gather(x, i, numbers, sizes, mode="fill", fill_value=2),
        _args(case, None, "int32"),
        lambda x, i: gather_oracle(x, i, numbers, sizes, "fill", 2),
        dtypes=("int32", "float32", "float64", "complex128"),
    )


MODES = ("clip", "fill", "promise_in_bounds")

ROWS: list[OpRow] = [
    *(_row(f"values{i}", mode, None, "int32") for i in range(4) for mode in MODES),
    *(_filled(f"values{i}") for i in range(4)),
    *(_row(f"indices{i}", mode, "float32", None) for i in range(8) for mode in MODES),
]
