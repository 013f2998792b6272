"""The operation table on a device, some rows of one family and dtype in one compiled program."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

import xpr
from benchmarks.gpu.rows import Outcome, Row, Setting
from tests.op_gaps import gap_of
from tests.op_row import OpRow, np_dtype
from tests.op_table import all_rows
from xpr.core.config import override
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.trace import get_aval
from xpr.dispatch.compiled import CompiledProgram, interpret
from xpr.dispatch.compiling import target_of
from xpr.interpreters.physical import physical_program
from xpr.lowering.targets.supported import check_types

DTYPES = ("float32", "float16", "bfloat16", "int32", "int8", "float64", "complex64")
_TOGETHER = 8


def rows() -> Iterator[Row]:
    """For each dtype and family as many as there are programs."""
    families = all_rows()
    for dtype in DTYPES:
        for family, table in families.items():
            having = [row for row in table if dtype in row.dtypes]
            for i in range(0, len(having), _TOGETHER):
                part = having[i : i + _TOGETHER]
                name = f"operations/{dtype}/{family}/{i // _TOGETHER}"
                yield Row(name, functools.partial(_run, part, dtype))


def _run(part: list[OpRow], dtype: str, setting: Setting) -> Outcome:
    device = xpr.devices(setting.runtime)[0]
    target = target_of(device)
    compared, refused = [], []
    with override("enable_x64", True):
        for row in part:
            if gap_of(row, dtype, target.name) is not None:
                refused.append(row.id)
                continue
            operands = _operands(row, dtype)
            try:
                check_types(_traced([(row, operands)])[0].jaxpr, target)
            except TypeError:
                refused.append(row.id)
            else:
                compared.append((row, operands))
        facts: Outcome = {"rows": len(compared), "refused": refused}
        if compared:
            facts["error"] = _compare(compared, dtype, device, setting)
    return facts


def _operands(row: OpRow, dtype: str) -> tuple[np.ndarray[Any, Any], ...]:
    seed = zlib.crc32(f"{row.id}/{dtype}".encode())
    return row.args(np.random.default_rng(seed), np_dtype(dtype))


def _traced(cases: list[tuple[OpRow, Any]]) -> tuple[ClosedJaxpr, list[Any], list[int]]:
    operands = [x for _, arguments in cases for x in arguments]
    counts: list[int] = []

    def program(*flat: Any) -> list[Any]:
        out: list[Any] = []
        at = 0
        for row, arguments in cases:
            found = row.function(*flat[at : at + len(arguments)])
            at += len(arguments)
            results = list(found) if isinstance(found, (tuple, list)) else [found]
            counts.append(len(results))
            out += results
        return out

    closed = trace_to_jaxpr(program, [get_aval(x) for x in operands])
    return physical_program(closed), operands, counts


def _compare(cases: list[tuple[OpRow, Any]], dtype: str, device: Any, setting: Setting) -> float:
    """The greatest error, where all are within their tolerances; else the error names all rows."""
    closed, operands, counts = _traced(cases)
    program = CompiledProgram(closed, "rows", device)
    found = [np.asarray(x) for x in program(operands)]
    arguments = [np.asarray(x, get_aval(x).dtype) for x in operands]
    expected = interpret(closed, [np.asarray(c) for c in closed.consts], arguments)
    owners = [row for (row, _), count in zip(cases, counts, strict=True) for _ in range(count)]
    worst, wrong = 0.0, []
    for row, a, b in zip(owners, found, expected, strict=True):
        rtol, atol = row.tolerance_for(b.dtype)
        try:
            worst = max(worst, setting.close(a, b, rtol, atol, f"{row.id} {dtype}"))
        except AssertionError as error:
            wrong.append(" ".join(str(error).split())[:300])
    assert not wrong, "; ".join(wrong)
    return worst
