"""Every operation inside of a loop in memory against the reference rules."""

from __future__ import annotations

import os
import zlib
from typing import Any

import numpy as np
import pytest

import xpr
from tests.harness import assert_same, run_reference
from tests.op_gaps import gap_of
from tests.op_row import OpRow, np_dtype
from tests.op_table import all_rows
from xpr import lax
from xpr.core.config import override
from xpr.lowering.loops import choice
from xpr.lowering.loops.registers.table import NotInRegisters

_FAMILIES = ("shape", "joining", "reduce", "dot_general", "slicing", "gather", "scatter")
_MORE = ("elementwise", "power", "elementary", "compare", "convert", "integer", "cumulative")
_LONG = os.environ.get("XPR_LONG_TESTS") == "1"
_DTYPES = ("float64", "float32", "int32", "uint8", "bool", "complex64", "complex128")
_SOME = [
    *((f, "float32") for f in _FAMILIES),
    ("scatter", "uint8"),
    ("cumulative", "int32"),
    *((f, "complex128") for f in ("gather", "slicing", "elementwise", "dot_general", "scatter")),
    *((f, "complex64") for f in ("power", "compare", "reduce")),
]
_CASES = [(f, d) for f in (*_FAMILIES, *_MORE) for d in _DTYPES] if _LONG else _SOME


@pytest.fixture(autouse=True)
def _in_memory(monkeypatch: pytest.MonkeyPatch) -> Any:
    def refuse(*_: Any, **__: Any) -> Any:
        raise NotInRegisters("a test of loops in memory")

    monkeypatch.setattr(choice, "vector_scan", refuse)
    with override("enable_x64", True), override("enable_checks", True):
        yield


def _in_a_loop(row: OpRow):
    """The row's function in the second step of a loop, its operands constants of the loop."""

    def looped(*args: Any) -> list[Any]:
        def step(carry: Any, _: Any) -> Any:
            out = row.function(*args)
            return carry + 1, list(out) if isinstance(out, (tuple, list)) else [out]

        _, ys = lax.scan(step, 0, None, length=2)
        return [y[1] for y in ys]

    return looped


@pytest.mark.parametrize(("family", "dtype"), _CASES)
def test_operations_in_memory(family: str, dtype: str) -> None:
    rows = [r for r in all_rows()[family] if dtype in r.dtypes and gap_of(r, dtype, "cpu") is None]
    chosen: list[tuple[OpRow, list[np.ndarray[Any, Any]]]] = []
    for row in rows:
        rng = np.random.default_rng(zlib.crc32(f"{row.id}/{dtype}/memory".encode()))
        args = [np.asarray(a) for a in row.args(rng, np_dtype(dtype))]
        text = xpr.jit(_in_a_loop(row)).lower(*args).as_text("iree")
        if "flow.dispatch @" in text and "stablehlo.while" not in text:
            chosen.append((row, args))
    # The others have empty operands, functions as parameters or transposed windows; extremes and
    # products of several complex numbers are not done.
    assert 2 * len(chosen) >= len(rows) or dtype in ("bool", "complex64", "complex128")
    assert 4 * len(chosen) >= len(rows)
    if not chosen:
        return

    def program(*flat: Any) -> list[list[Any]]:
        out, at = [], 0
        for row, args in chosen:
            out.append(_in_a_loop(row)(*flat[at : at + len(args)]))
            at += len(args)
        return out

    found = xpr.jit(program)(*(a for _, args in chosen for a in args))
    expected = run_reference([(row.function, args) for row, args in chosen])
    for (row, _), got, wanted in zip(chosen, found, expected, strict=True):
        for i, (a, b) in enumerate(zip(got, wanted, strict=True)):
            rtol, atol = row.tolerance_for(b.dtype)
            assert_same(np.asarray(a), b, rtol, atol, what=f"{row.id} {dtype} result {i}")
