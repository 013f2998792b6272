"""Where a row of the operation table cannot run, or not be compared, and why.

The table in `docs/support_table.md` shows those that are refused; `tests/test_op_gaps.py` checks
that they are, before anything is compiled.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.op_row import OpRow


@dataclass(frozen=True)
class Gap:
    """Rows that a runtime refuses, or whose results there are others than the reference's."""

    primitive: str
    runtimes: tuple[str, ...]
    reason: str
    cases: tuple[str, ...] = ()
    """The rows, by their ids; all of the primitive's if there are none."""

    dtypes: tuple[str, ...] = ()
    """The dtypes; all if there are none."""

    refused: bool = True
    """Whether an error says so before any compile; else the rows differ from the reference."""

    def holds(self, row: OpRow, dtype: str, runtime: str) -> bool:
        """Whether it is about this row, dtype and runtime."""
        return (
            row.primitive == self.primitive
            and runtime in self.runtimes
            and (not self.cases or row.id in self.cases)
            and (not self.dtypes or dtype in self.dtypes)
        )


_COMPLEX = "its results are complex, which IREE's interpreter neither loads nor stores"
_DENORMAL = "2**-127 of float8_e8m0fnu is denormal in float32, and counts as 0"
_HALVES = "scales of float16 lie among the bytes, and IREE's interpreter knows no float16"
_CRASH = "on rocm IREE's compiler ends the process for floats"

GAPS: tuple[Gap, ...] = (
    *(Gap(name, ("vmvx",), _COMPLEX) for name in ("complex", "conj", "eig", "fft")),
    Gap(
        "convert_element_type",
        ("vmvx",),
        _DENORMAL,
        ("convert_element_type-to-float64-of-8", "convert_element_type-to-bool-of-8"),
        ("float8_e8m0fnu",),
        refused=False,
    ),
    Gap("dequantize", ("vmvx",), _HALVES),
    Gap("rem", ("rocm",), _CRASH, ("rem",), refused=False),
)


def gap_of(row: OpRow, dtype: str, runtime: str) -> Gap | None:
    """The gap that a row falls into, if any."""
    return next((gap for gap in GAPS if gap.holds(row, dtype, runtime)), None)
