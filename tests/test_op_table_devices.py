"""The operation table on other runtimes than the CPU: some of its rows, each in one dtype.

`--runtime=vulkan` runs all of it there; see `tests/test_op_table.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.conftest import skip_unless_usable
from tests.op_row import OpRow
from tests.op_runs import Pair, check_rows, that_run
from tests.op_table import WITHOUT_ROWS, rows_of
from xpr.primitives import FAMILIES

# A row runs in the first of these that it has.
_PREFERRED = (
    *("float32", "int32", "bool", "complex64", "uint32", "bfloat16", "uint8", "float16"),
    *("float64", "int64", "complex128"),
)
# These compile for seconds each: one row for each primitive.
_SLOW = ("linalg", "linalg_householder", "linalg_tridiagonal", "special", "fft")
_FAMILIES = [family for family in FAMILIES if family not in WITHOUT_ROWS]
# On vmvx there is one row for each primitive, without these: the compiler takes seconds for each,
# and they are made of what others have.
_LONG_ON_VMVX = (
    *("igamma", "igammac", "igamma_grad_a", "random_gamma_grad"),
    *("regularized_incomplete_beta", "polygamma"),
)
# Of long families every third row, and one row for each primitive.
_LONG = 24


def _pairs(rows: Iterable[OpRow], runtime: str) -> list[Pair]:
    pairs = [(row, next((d for d in _PREFERRED if d in row.dtypes), row.dtypes[0])) for row in rows]
    return that_run(pairs, runtime)


def _some_rows(family: str, runtime: str) -> list[OpRow]:
    rows = rows_of(family)
    first = {row.primitive: row.id for row in reversed(rows)}.values()
    if runtime == "vmvx":
        return [row for row in rows if row.id in first and row.primitive not in _LONG_ON_VMVX]
    if family in _SLOW:
        return [row for row in rows if row.id in first]
    if len(rows) > _LONG:
        return [row for i, row in enumerate(rows) if i % 3 == 0 or row.id in first]
    return rows


def _params(runtime: str, families: Iterable[str]) -> list[Any]:
    return [pytest.param(runtime, f, id=f"{runtime}-{f}") for f in families]


@pytest.mark.parametrize(
    ("name", "family"),
    [
        *_params("vulkan", _FAMILIES),
        # All of it has complex results.
        *_params("vmvx", (f for f in _FAMILIES if f != "fft")),
    ],
)
def test_rows_on_other_runtimes(name: str, family: str, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--runtime"):
        pytest.skip("the whole table runs on the runtime that was asked for")
    skip_unless_usable(name)
    check_rows(_pairs(_some_rows(family, name), name), name)
