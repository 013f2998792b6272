"""Rows of the elementary functions; tests/primitives/test_elementary_values.py has more values."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_row import COMPLEX, FLOATS, INEXACT, Arrays, OpRow
from tests.op_rows._elementwise_args import (
    FEW_ULP,
    binary,
    broadcasts,
    of_shapes,
    over_pairs,
    over_shapes,
    unary,
    widely,
)
from xpr.primitives import elementary as f

Range = tuple[float, float]


def _logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


# NumPy's function, and ranges beside [-4, 4] that are worth a look.
_FUNCTIONS: dict[str, tuple[Any, tuple[Range, ...]]] = {
    "exp": (np.exp, ((-100, 100), (-1e-3, 1e-3))),
    "exp2": (np.exp2, ((-140, 140),)),
    "expm1": (np.expm1, ((-100, 80), (-1e-3, 1e-3))),
    "log": (np.log, ((0, 1e4), (0.99, 1.01))),
    "log1p": (np.log1p, ((-1, 1e4), (-1e-3, 1e-3))),
    "logistic": (_logistic, ((-80, 80), (-1e-3, 1e-3))),
    "sin": (np.sin, ((-1e4, 1e4), (-1e-3, 1e-3))),
    "cos": (np.cos, ((-1e4, 1e4), (-1e-3, 1e-3))),
    "tan": (np.tan, ((-1e4, 1e4), (-1e-3, 1e-3))),
    "asin": (np.arcsin, ((-1, 1), (-1e-3, 1e-3))),
    "acos": (np.arccos, ((-1, 1), (-1e-3, 1e-3))),
    "atan": (np.arctan, ((-100, 100), (-1, 1))),
    "sinh": (np.sinh, ((-90, 90), (-1e-3, 1e-3))),
    "cosh": (np.cosh, ((-90, 90),)),
    "tanh": (np.tanh, ((-30, 30), (-1e-3, 1e-3))),
    "asinh": (np.arcsinh, ((-1e4, 1e4), (-1e-3, 1e-3))),
    "acosh": (np.arccosh, ((1, 2), (1, 1e4))),
    "atanh": (np.arctanh, ((-1, 1), (-1e-3, 1e-3))),
}


def _quadrant(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
    """Complex operands away from the branch cuts of the two-argument arc tangent."""
    parts = rng.uniform(0.2, 2.0, (4, 100))
    return (parts[0] + 1j * parts[1]).astype(dtype), (parts[2] - 1j * parts[3]).astype(dtype)


def _rows() -> list[OpRow]:
    rows = []
    for name, (oracle, ranges) in _FUNCTIONS.items():
        function = getattr(f, name)
        rows += [
            OpRow(
                name,
                function,
                unary((-4.0, 4.0), *ranges),
                FLOATS,
                oracle=widely(oracle),
                tolerance=FEW_ULP,
                domain=(1.1, 4.0) if name == "acosh" else (0.2, 0.9),
            ),
            OpRow(
                name,
                function,
                unary(),
                COMPLEX,
                case="complex",
                domain=(-2.0, -0.3) if name == "acosh" else (0.2, 0.9),
                oracle=None if name in ("expm1", "log1p") else widely(oracle),
                tolerance=FEW_ULP,
                signed_zero=False,
            ),
        ]
    return rows


ROWS: list[OpRow] = [
    *_rows(),
    OpRow("atan2", f.atan2, binary(), FLOATS, oracle=widely(np.arctan2), tolerance=FEW_ULP),
    OpRow("atan2", f.atan2, _quadrant, COMPLEX, case="complex", tolerance=FEW_ULP),
    OpRow("sin", over_shapes(f.sin), of_shapes, INEXACT, case="shapes", tolerance=FEW_ULP),
    OpRow("exp", over_shapes(f.exp), of_shapes, INEXACT, case="shapes", tolerance=FEW_ULP),
    OpRow("atan2", over_pairs(f.atan2), broadcasts, FLOATS, case="broadcast", tolerance=FEW_ULP),
]
