"""Rows of tridiagonal equations, against NumPy's solver of dense ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_row import Arrays
from tests.op_rows._linalg_args import Args, fixed, matrices, row
from xpr.primitives import linalg_tridiagonal as p


def _system(shape: tuple[int, ...], columns: int) -> Args:
    """Random diagonals, the ends that are not read included, and right sides."""

    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
        dl, d, du, b = matrices(shape, shape, shape, (*shape, columns))(rng, dtype)
        return dl, (d + 1.5).astype(dtype), du, b

    return args


def _dense(dl: Any, d: Any, du: Any, b: Any) -> Any:
    n = d.shape[-1]
    a = np.zeros((*d.shape, n), b.dtype)
    for i in range(n):
        a[..., i, i] = d[..., i]
        if i:
            a[..., i, i - 1], a[..., i - 1, i] = dl[..., i], du[..., i - 1]
    return np.linalg.solve(a, b)


def _perturbed(*args: Any) -> Any:
    return p.tridiagonal_solve(*args, perturb_singular=True)


_ROW_EXCHANGES = fixed([0.0, 1, 2], [0.0, 1, 1], [3.0, 1, 0], [[3.0], [2], [1]])
_SINGULAR = fixed([0.0, 1], [1.0, 1], [1.0, 0], [[1.0], [2]])

ROWS = [
    *(
        row("tridiagonal_solve", f"{shape} {k}", p.tridiagonal_solve, _system(shape, k), _dense)
        for shape, k in (((4,), 2), ((1,), 3), ((2, 3), 1), ((2, 4, 2), 1), ((7, 3), 2))
    ),
    row(
        "tridiagonal_solve",
        "large",
        p.tridiagonal_solve,
        _system((40,), 2),
        _dense,
        no_derivative_check="slow",
    ),
    row("tridiagonal_solve", "perturbed", _perturbed, _system((4,), 2), _dense),
    row("tridiagonal_solve", "exchanges", p.tridiagonal_solve, _ROW_EXCHANGES, _dense),
    row("tridiagonal_solve", "exchanges perturbed", _perturbed, _ROW_EXCHANGES, _dense),
    row(
        "tridiagonal_solve",
        "singular",
        p.tridiagonal_solve,
        _SINGULAR,
        lambda *args: np.full((2, 1), np.nan),
        dtypes=("float32", "float64"),
        no_derivative_check="there is no derivative",
    ),
    *(
        row(
            "tridiagonal_solve",
            f"empty {shape} {k}",
            p.tridiagonal_solve,
            _system(shape, k),
            lambda dl, d, du, b: b,
        )
        for shape, k in (((0,), 2), ((3,), 0), ((0, 3), 1))
    ),
]
