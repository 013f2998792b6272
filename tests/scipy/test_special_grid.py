"""The special functions on a grid of signs and magnitudes against mpmath, eager and compiled."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.scipy import special_grid as grid
from xpr.core.config import override
from xpr.scipy import special

_DTYPES = [np.dtype(np.float32), np.dtype(np.float64)]
_BY_NAME = {row.name: row for row in grid.ROWS}
_GROUPS = {"lines": grid.LINES, "pairs": grid.PAIRS, "others": grid.OTHERS}


@functools.cache
def _case(name: str, dtype: np.dtype[Any]) -> tuple[grid.Arrays, np.ndarray[Any, Any]]:
    row = _BY_NAME[name]
    points = row.points(dtype)
    return points, grid.expected(row, points)


def _rows(group: str, dtype: np.dtype[Any]) -> list[grid.Row]:
    wide = dtype == np.float64
    return [row for row in _GROUPS[group] if wide or not row.only_float64]


# The functions of `others` have loops that take minutes to compile together.
_COMPILED = [("lines", _DTYPES[0]), ("lines", _DTYPES[1]), ("pairs", _DTYPES[0])]
_CASES = [
    *((group, dtype, False) for group in _GROUPS for dtype in _DTYPES),
    *((group, dtype, True) for group, dtype in _COMPILED),
]


@pytest.mark.parametrize(
    ("group", "dtype", "compiled"),
    _CASES,
    ids=[f"{g}-{d}-{'compiled' if c else 'eager'}" for g, d, c in _CASES],
)
def test_grid(group: str, dtype: np.dtype[Any], compiled: bool) -> None:
    rows = _rows(group, dtype)
    cases = [_case(row.name, dtype) for row in rows]

    def all_of(columns: Any) -> list[Any]:
        return [row.function(*points) for row, points in zip(rows, columns, strict=True)]

    with override("enable_x64", True):
        columns = [tuple(map(jnp.asarray, points)) for points, _ in cases]
        found = (xpr.jit(all_of) if compiled else all_of)(columns)
        lines = [
            line
            for row, value, (points, wanted) in zip(rows, found, cases, strict=True)
            for line in grid.failures(row, value, points, wanted)
        ]
    assert not lines, f"{len(lines)} failures:\n" + "\n".join(lines)


def test_every_function_has_a_row() -> None:
    """Functions without a row are tested elsewhere, or are sums of others."""
    elsewhere = {
        # Their oracles are integrals or roots that take long: tests/scipy/test_special.py.
        *("owens_t", "ndtri", "wofz", "bessel_jn", "bernoulli", "loggamma", "gammasgn"),
        *("softmax", "log_softmax", "logsumexp"),
        # In units in the last place: tests/scipy/test_erfcinv.py.
        "erfcinv",
    }
    public = {n for n in dir(special) if callable(getattr(special, n)) and not n.startswith("_")}
    tested = {row.name.split(",")[0] for row in grid.ROWS}
    assert public == tested | elsewhere


def test_beta_at_poles() -> None:
    """Where gamma has poles: the limits that SciPy gives, where they exist, else infinity."""
    cases = [
        (0.0, 0.0, np.inf, np.inf),
        (0.0, -1.0, np.inf, np.inf),
        (0.0, 2.0, np.inf, np.inf),
        (-1.0, 1.0, -1.0, 0.0),
        (1.0, -20.0, -0.05, -np.log(20.0)),
        (2.0, -3.0, 1 / 6, -np.log(6.0)),
        (-3.0, 3.0, -1 / 3, -np.log(3.0)),
        (-1.0, -1.0, np.inf, np.inf),
        (2.0, -1.0, np.inf, np.inf),
        (2.5, -1.0, np.inf, np.inf),
        (-0.5, -0.5, 0.0, -np.inf),
        (-1.5, 0.5, 0.0, -np.inf),
        (np.nan, 1.0, np.nan, np.nan),
    ]
    a, b, value, logarithm = (np.array(c) for c in zip(*cases, strict=True))
    for x64 in (False, True):
        with override("enable_x64", x64):
            for x, y in ((a, b), (b, a)):
                np.testing.assert_allclose(special.beta(x, y), value, rtol=1e-6)
                np.testing.assert_allclose(special.betaln(x, y), logarithm, rtol=1e-6)
