"""Random programs of all dtypes: compiled as eager, and eager as JAX.

Operands may be donated or the same array twice, programs mapped or differentiated (see
`differential_programs`). The long form (XPR_LONG_TESTS=1) runs 20 000 programs in place of 760;
`python -m tests.reliability.differential_runs` runs any.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
from tests.reliability.differential_programs import WAYS, program
from tests.reliability.differential_runs import XPR, bisected, difference, eager, faults
from tests.reliability.make_differential_golden import summaries
from xpr.core.config import override
from xpr.lowering.targets import flags
from xpr.runtimes import registry

from .scripts import cases

TOGETHER = 40
"""The programs that are compiled as one; of a group that goes wrong each is tried alone."""

with np.load(Path(__file__).parent / "differential_golden.npz") as _file:
    NAMES: list[list[str]] = json.loads(str(_file["names"]))
    NUMBERS = _file["numbers"]


@pytest.mark.parametrize("first", range(0, cases(760, 20_000), TOGETHER))
def test_compiled_as_eager(first: int) -> None:
    programs = [program(n) for n in range(first, first + TOGETHER)]
    with override("enable_x64", True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert bisected(programs, faults(programs)) == []


def test_programs_that_were_wrong_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flags, "_LARGE", 10)
    monkeypatch.setenv("XPR_CACHE", "0")
    with override("enable_x64", True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert faults([program(768), program(771)]) == []


def test_eager_as_jax() -> None:
    """Exact results have the same bits; of others the first numbers are close."""
    wrong: list[str] = []
    at = 0
    reference = registry.devices("reference")[0]
    with override("enable_x64", True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, names in enumerate(NAMES):
            arrays = xpr.device_put(program(number).operands, reference)
            found = summaries(XPR, number, list(arrays))
            if [name for name, _ in found] != names:
                pairs = zip([name for name, _ in found], names, strict=False)
                wrong.append(
                    f"{number}: {[p for p in pairs if p[0] != p[1]][:1] or 'other results'}"
                )
                break
            for i, (name, values) in enumerate(found):
                right = NUMBERS[at : at + len(values)]
                at += len(values)
                narrow = name.startswith(("bfloat16", "float16"))
                close = 0.1 if narrow else 2e-3
                if not np.allclose(values, right, close, close, equal_nan=True):
                    wrong.append(f"{number}, result {i} {name}: {values}, JAX {right.tolist()}")
    assert wrong == []


def test_all_ways_and_types_are_among_them() -> None:
    programs = [program(n) for n in range(400)]
    assert {p.way for p in programs} == set(WAYS)
    dtypes = {x.dtype.name for p in programs for x in p.operands}
    assert {"bool", "int8", "uint64", "float16", "bfloat16", "float64", "complex64"} <= dtypes


def test_programs_are_the_same_each_time() -> None:
    for number in (3, 17, 42):
        first, again = program(number), program(number)
        assert first.steps == again.steps
        for a, b in zip(first.operands, again.operands, strict=True):
            np.testing.assert_array_equal(a, b)


def test_what_is_wrong_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in which one number differs is found among others."""
    with override("enable_x64", True):
        programs = [program(n) for n in (0, 1)]
        right = eager(programs[1], [])

        def changed(p: Any, notes: list[bool]) -> list[np.ndarray[Any, Any]]:
            made = eager(p, notes)
            if p.number == 1:
                made = [np.asarray(x + x.dtype.type(1)) if x.dtype != bool else ~x for x in made]
            return made

        monkeypatch.setattr("tests.reliability.differential_runs.eager", changed)
        told = bisected(programs, faults(programs))
    assert len(told) == sum(x.size > 0 for x in right)
    assert all(line.startswith("1 (") for line in told)


@pytest.mark.parametrize(
    ("found", "expected", "exact", "is_right"),
    [
        (np.array([1, np.nan], "float32"), np.array([1, np.nan], "float32"), True, True),
        (np.array([1.0000001], "float32"), np.array([1], "float32"), True, False),
        (np.array([1.0000001], "float32"), np.array([1], "float32"), False, True),
        (np.array([1], "int32"), np.array([1], "int64"), False, False),
        (np.array([1], "int32"), np.array([2], "int32"), False, False),
        (np.array([1 + 1j], "complex64"), np.array([1 + 2j], "complex64"), False, False),
    ],
)
def test_differences(found: Any, expected: Any, exact: bool, is_right: bool) -> None:
    assert (difference(found, expected, exact) == "") is is_right
