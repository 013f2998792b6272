"""Each row of the table: compiled = reference on each runtime, reference = oracle, jaxprs check."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.harness import assert_same, run_reference
from tests.op_runs import check_rows, one_of_alike, operands_of, that_run
from tests.op_table import WITHOUT_ROWS, all_rows
from xpr.core.config import override
from xpr.primitives import FAMILIES

_TABLE = all_rows()


def _groups() -> list[Any]:
    return [
        pytest.param(family, dtype, id=f"{family}-{dtype}")
        for family, rows in _TABLE.items()
        for dtype in sorted({d for r in rows for d in r.dtypes})
    ]


def _cast(value: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An oracle's wider result in the primitive's dtype, where it may overflow."""
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype)


@pytest.mark.parametrize(("family", "dtype"), _groups())
def test_compiled_equals_reference(
    family: str, dtype: str, runtime: str, pytestconfig: pytest.Config
) -> None:
    """Every row in every dtype, if a runtime is named; else in one of those lowered alike.

    Rows that are there for their derivatives say in which dtypes they are compiled then.
    """
    pairs = [(r, dtype) for r in _TABLE[family] if dtype in r.dtypes]
    if pytestconfig.getoption("--runtime") is None:
        pairs = one_of_alike(pairs) or pairs
        pairs = [(r, d) for r, d in pairs if not r.compiled_in or d in r.compiled_in]
    pairs = that_run(pairs, runtime)
    if not pairs:
        pytest.skip(f"{runtime} has none of it in {dtype}")
    check_rows(pairs, runtime)


def test_another_row_compiles_what_a_row_leaves_out() -> None:
    rows = [row for rows in _TABLE.values() for row in rows]
    compiled = {(r.primitive, d) for r in rows for d in r.compiled_in or r.dtypes}
    for row in rows:
        assert {(row.primitive, d) for d in row.dtypes} <= compiled, row.id


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in WITHOUT_ROWS])
def test_reference_equals_oracle(family: str) -> None:
    rows = [r for r in _TABLE[family] if r.oracle is not None]
    for row in rows:
        for dtype in row.dtypes:
            operands = operands_of(row, dtype)
            with override("enable_x64", True):
                found = run_reference([(row.function, operands)])[0]
            assert row.oracle is not None
            with np.errstate(all="ignore"):
                wanted = row.oracle(*operands)
            expected = list(wanted) if isinstance(wanted, (tuple, list)) else [wanted]
            for i, (a, b) in enumerate(zip(found, expected, strict=True)):
                rtol, atol = row.tolerance_for(a.dtype)
                assert_same(
                    a,
                    _cast(b, a.dtype),
                    rtol,
                    atol,
                    what=f"{row.id} {dtype} result {i}",
                )
