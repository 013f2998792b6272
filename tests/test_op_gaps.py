"""The checked-in gaps are gaps: rows are refused before any compile, and nothing else is."""

from __future__ import annotations

import pytest

from tests.harness import trace_cases
from tests.op_gaps import GAPS, Gap
from tests.op_row import OpRow
from tests.op_runs import cases_of
from tests.op_table import all_rows
from xpr.core.config import override
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.primitive import find_primitive
from xpr.dispatch.compiling import lower
from xpr.lowering.targets import get_target

_ROWS = [row for rows in all_rows().values() for row in rows]


@pytest.mark.parametrize("gap", GAPS, ids=lambda gap: f"{gap.primitive}-{gap.reason[:10]}")
def test_a_gap_is_about_rows_that_are_there(gap: Gap) -> None:
    ids = {row.id for row in _ROWS if row.primitive == gap.primitive}
    assert ids
    assert set(gap.cases) <= ids
    assert find_primitive(gap.primitive) is not None


@pytest.mark.parametrize(
    ("gap", "runtime"),
    [
        pytest.param(gap, runtime, id=f"{gap.primitive}-{runtime}")
        for gap in GAPS
        if gap.refused
        for runtime in gap.runtimes
    ],
)
def test_refused_rows_raise_an_error_that_names_them(gap: Gap, runtime: str) -> None:
    row = next(row for row in _ROWS if gap.holds(row, "float32", runtime))
    said = rf"{gap.primitive} .*target {runtime}|target {runtime} has no "
    with pytest.raises((NotImplementedError, TypeError), match=said):
        lower(_program(row, "float32"), get_target(runtime), "row")


def _program(row: OpRow, dtype: str) -> ClosedJaxpr:
    with override("enable_x64", True):
        return trace_cases(cases_of([(row, dtype)]))[0]


def test_all_other_rows_are_lowered_for_vulkan() -> None:
    target = get_target("vulkan")
    for row in _ROWS:
        dtype = next((d for d in ("float32", "int32") if d in row.dtypes), row.dtypes[0])
        if not any(gap.refused and gap.holds(row, dtype, "vulkan") for gap in GAPS):
            assert lower(_program(row, dtype), target, "row").text
