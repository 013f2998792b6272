"""Rows of the operation table run on a runtime, many in one program, and compared closely."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tests.conftest import LOST
from tests.harness import Case, assert_same, run_compiled, run_reference, trace_cases
from tests.op_gaps import gap_of
from tests.op_row import OpRow, np_dtype
from xpr.core.config import override
from xpr.core.errors import CompileError
from xpr.dispatch.compiling import target_of
from xpr.lowering.targets.supported import check_types
from xpr.runtimes import registry

Pair = tuple[OpRow, str]
"""A row and one of its dtypes."""

Results = list[np.ndarray[Any, Any]]


def operands_of(row: OpRow, dtype: str) -> tuple[np.ndarray[Any, Any], ...]:
    """The row's operands, from a seed of its own: adding rows leaves the others' as they are."""
    seed = zlib.crc32(f"{row.id}/{dtype}".encode())
    return row.args(np.random.default_rng(seed), np_dtype(dtype))


def _is_refused(row: OpRow, dtype: str, runtime: str) -> bool:
    """Whether an error says before any compile that the device lacks a type of the row's program.

    An operand's type is not the only one: conversions have others, say.
    """
    if runtime == "reference":
        return False
    target = target_of(registry.devices(runtime)[0])
    if not target.missing_types:
        return False
    if dtype in target.missing_types:
        return True
    with override("enable_x64", True):
        closed = trace_cases(cases_of([(row, dtype)]))[0]
    try:
        check_types(closed.jaxpr, target)
    except TypeError:
        return True
    return False


def that_run(pairs: Iterable[Pair], runtime: str) -> list[Pair]:
    """Those rows that the runtime does not refuse, and that fall into no gap."""
    return [
        (row, dtype)
        for row, dtype in pairs
        if gap_of(row, dtype, runtime) is None and not _is_refused(row, dtype, runtime)
    ]


_ALIKE = ({"int8", "int16"}, {"uint8", "uint16"}, {"float16", "bfloat16"})


def one_of_alike(pairs: Iterable[Pair]) -> list[Pair]:
    """Of each two narrow dtypes that are lowered alike every row keeps one, now this, now that.

    A row that has only one of them keeps it.
    """
    found = []
    for row, dtype in pairs:
        alike = sorted(next((kinds for kinds in _ALIKE if dtype in kinds), {dtype}))
        offered = [d for d in alike if d in row.dtypes]
        if dtype == offered[zlib.crc32(row.id.encode()) % len(offered)]:
            found.append((row, dtype))
    return found


def cases_of(pairs: Sequence[Pair]) -> list[Case]:
    """What the harness runs."""
    return [(row.function, operands_of(row, dtype)) for row, dtype in pairs]


def check_rows(pairs: Sequence[Pair], runtime: str) -> None:
    """Compiled results are the reference's; the error names every row for which they are not."""
    problems: list[str] = []
    with override("enable_x64", True):
        compiled = _compiled(pairs, runtime, problems)
        reference = run_reference(cases_of(pairs))
    for (row, dtype), found, expected in zip(pairs, compiled, reference, strict=True):
        if found is None:
            continue
        for i, (a, b) in enumerate(zip(found, expected, strict=True)):
            rtol, atol = row.tolerance_for(b.dtype)
            what = f"{row.id} {dtype} result {i}"
            try:
                assert_same(a, b, rtol, atol, signed_zero=row.signed_zero, what=what)
            except AssertionError as error:
                problems.append(f"{what}: {error}")
    assert not problems, "\n\n".join(problems)


def _compiled(pairs: Sequence[Pair], runtime: str, problems: list[str]) -> list[Results | None]:
    """Results of all rows as one program; where it does not compile, as two halves of it."""
    try:
        return list(run_compiled(cases_of(pairs), runtime))
    except (CompileError, RuntimeError, NotImplementedError, TypeError) as error:
        if LOST in str(error):
            raise  # no program runs in this process any more
        if len(pairs) == 1:
            ((row, dtype),) = pairs
            problems.append(f"{row.id} {dtype}: {type(error).__name__}: {error}")
            return [None]
    middle = len(pairs) // 2
    first = _compiled(pairs[:middle], runtime, problems)
    return first + _compiled(pairs[middle:], runtime, problems)
