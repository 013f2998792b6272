"""Operands of the rows of operations on matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.op_row import Arrays, OpRow, random_values

_TYPES = ("float32", "float64", "complex64", "complex128")
# Backward stable: errors of a few units in the last place, times the size and the condition.
_TOLERANCE = {
    "float32": (2e-5, 2e-5),
    "complex64": (2e-5, 2e-5),
    "float64": (1e-13, 1e-13),
    "complex128": (1e-13, 1e-13),
}

Args = Callable[[np.random.Generator, np.dtype[Any]], Arrays]


def row(
    primitive: str,
    case: str,
    function: Callable[..., Any],
    args: Args,
    oracle: Any = None,
    **more: Any,
) -> OpRow:
    """A row for the dtypes of LAPACK, whose derivatives are checked at its own operands."""
    return OpRow(
        primitive,
        function,
        args,
        more.pop("dtypes", _TYPES),
        case=case,
        oracle=oracle,
        tolerance=_TOLERANCE,
        smooth=more.pop("smooth", args),
        signed_zero=False,
        **more,
    )


# ---- operands


def matrices(*shapes: tuple[int, ...]) -> Args:
    """Random matrices of each shape."""

    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
        return tuple(random_values(rng, dtype, s, -1, 1) for s in shapes)

    return args


def definite(*shape: int) -> Args:
    """Hermitian matrices with eigenvalues of at least 1."""

    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
        x = random_values(rng, dtype, shape, -1, 1)
        return (x @ x.conj().swapaxes(-1, -2) + np.eye(shape[-1], dtype=dtype),)

    return args


def reflections(shape: tuple[int, ...], count: int) -> Args:
    """Matrices and vectors, taken for reflections and their scales."""
    return matrices(shape, (*shape[:-2], count))


def fixed(*values: Any) -> Args:
    """These operands, in the dtype that is tested."""
    return lambda rng, dtype: tuple(np.asarray(v).astype(dtype) for v in values)
