"""Rows of the scatter family: every mode, random dimension numbers, indices far outside."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tests.op_row import BOOL, INTEGERS, NUMERIC, Arrays, OpRow, random_values
from tests.op_rows.gather import wild_indices
from tests.op_rows.shape import STORED, Args, row
from tests.primitives.index_oracle import as_scatter, random_gather, scatter_oracle
from xpr.primitives import scatter as sc
from xpr.primitives.elementwise import mul

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "scatter": sc.scatter,
    "scatter-add": sc.scatter_add,
    "scatter-sub": sc.scatter_sub,
    "scatter-mul": sc.scatter_mul,
    "scatter-min": sc.scatter_min,
    "scatter-max": sc.scatter_max,
}


def _lesser(a: Any, b: Any) -> Any:
    if np.iscomplexobj(a):
        return a if (a.real, a.imag) <= (b.real, b.imag) else b
    return np.minimum(a, b)


def _greater(a: Any, b: Any) -> Any:
    if np.iscomplexobj(a):
        return a if (a.real, a.imag) >= (b.real, b.imag) else b
    return np.maximum(a, b)


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "scatter": lambda a, b: b,
    "scatter-add": np.add,
    "scatter-sub": np.subtract,
    "scatter-mul": np.multiply,
    "scatter-min": _lesser,
    "scatter-max": _greater,
}


def _problem(case: str) -> Any:
    rng = np.random.default_rng(zlib.crc32(case.encode()))
    while True:
        shape, index_shape, numbers, sizes = random_gather(rng)
        if 0 not in sizes or case.endswith("empty"):
            return shape, index_shape, numbers, sizes


def _args(case: str, values: str | None, index: str | None) -> Args:
    shape, index_shape, numbers, sizes = _problem(case)
    left_out = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    windows = iter([s for a, s in enumerate(sizes) if a not in left_out])
    batches = iter(index_shape[:-1])
    rank = len(index_shape) - 1 + len(numbers.offset_dims)
    update_shape = [
        next(windows) if i in numbers.offset_dims else next(batches) for i in range(rank)
    ]

    # Small whole numbers: sums and products of them are exact in every type and order.
    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
        value_type = dtype if values is None else np.dtype(values)
        index_type = dtype if index is None else np.dtype(index)
        x, u = (
            # Zeros have no sign, so that the lesser of two zeros is the same on every runtime.
            (np.round(random_values(rng, np.dtype(np.float32), s, -3.0, 3.0)) + np.float32(0))
            .clip(0.0 if value_type.kind in "ub" else -3.0, 3.0)
            .astype(value_type)
            for s in (shape, update_shape)
        )
        return x, wild_indices(rng, index_type, index_shape), u

    return args


def _row(name: str, case: str, mode: str, values: str | None, index: str | None) -> OpRow:
    _, _, numbers, _ = _problem(case)
    dims, function, combine = as_scatter(numbers), _FUNCTIONS[name], _COMBINE[name]
    dtypes = INTEGERS
    if values is None:
        bools = BOOL if name in ("scatter-min", "scatter-max") else ()
        dtypes = STORED if name == "scatter" else (*bools, *NUMERIC)
    whole = row(
        name,
        f"{mode}-{case}",
        lambda x, i, u: function(x, i, u, dims, mode=mode),
        _args(case, values, index),
        lambda x, i, u: scatter_oracle(x, i, u, dims, mode, combine),
        dtypes=dtypes,
    )
    products = "products of updates that may meet have no derivative here"
    return replace(whole, no_derivative_check=products if name == "scatter-mul" else "")


_ROWS_OF = sc.ScatterDimensionNumbers((1,), (0,), (0,))


def _unique_args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
    """Rows of a matrix, the last of them beyond its end."""
    x, u = (np.round(random_values(rng, dtype, (n, 2), -3.0, 3.0)) for n in (5, 3))
    return x, np.array([[3], [0], [9]], np.int32), u


def _unique_row(name: str, mode: str) -> OpRow:
    function, combine = _FUNCTIONS[name], _COMBINE[name]
    return row(
        name,
        f"{mode}-unique",
        lambda x, i, u: function(x, i, u, _ROWS_OF, mode=mode, unique_indices=True),
        _unique_args,
        lambda x, i, u: scatter_oracle(x, i, u, _ROWS_OF, mode, combine),
        dtypes=("float32", "float64", "complex128"),
    )


def _unique_apply_row(mode: str) -> OpRow:
    def function(e: Any) -> Any:
        return mul(mul(e, e), e)

    return row(
        "scatter",
        f"apply-{mode}-unique",
        lambda x, i, u: sc.scatter_apply(
            x, i, function, _ROWS_OF, update_shape=u.shape, mode=mode, unique_indices=True
        ),
        _unique_args,
        lambda x, i, u: scatter_oracle(x, i, u, _ROWS_OF, mode, lambda a, b: a * a * a),
        dtypes=("float32", "float64", "complex128"),
    )


def _apply_row(case: str, mode: str) -> OpRow:
    _, _, numbers, _ = _problem(case)
    dims = as_scatter(numbers)

    def double(e: Any) -> Any:
        return mul(e, e.dtype.type(2))

    return row(
        "scatter",
        f"apply-{mode}-{case}",
        lambda x, i, u: sc.scatter_apply(x, i, double, dims, update_shape=u.shape, mode=mode),
        _args(case, None, "int32"),
        lambda x, i, u: scatter_oracle(x, i, u, dims, mode, lambda a, b: a * a.dtype.type(2)),
        dtypes=("int32", "float32", "complex64"),
    )


MODES = ("clip", "drop", "promise_in_bounds")

ROWS: list[OpRow] = [
    *(
        _row(name, f"values{i}", mode, None, "int32")
        for name in _FUNCTIONS
        for i, mode in enumerate(MODES)
    ),
    *(_row("scatter", f"indices{i}", mode, "float32", None) for i in range(5) for mode in MODES),
    *(_row("scatter-add", f"add{i}", mode, "float32", None) for i in range(3) for mode in MODES),
    *(_row("scatter", "set-empty", mode, "float32", None) for mode in MODES),
    *(_unique_row(name, mode) for name in _FUNCTIONS for mode in ("clip", "drop")),
    *(_unique_apply_row(mode) for mode in ("clip", "drop")),
    *(_apply_row(f"apply{i}", mode) for i in range(3) for mode in MODES),
]
