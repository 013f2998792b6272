"""Each elementwise primitive on operands with no axes, with an empty one, and with eight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.harness import Case, assert_same, run_compiled, run_reference
from tests.op_row import OpRow, np_dtype
from tests.op_table import rows_of
from xpr.core.config import override

ELEMENTWISE = ("elementwise", "compare", "integer", "elementary", "power", "special")
SHAPES: tuple[tuple[int, ...], ...] = ((), (3, 0, 2), (2, 1, 2, 1, 2, 1, 1, 3))
_PREFERRED = ("float32", "int32", "uint8", "bool", "complex64")


def _dtype_of(row: OpRow) -> str:
    return next((d for d in _PREFERRED if d in row.dtypes), row.dtypes[0])


def _flat_operands(row: OpRow) -> tuple[np.ndarray[Any, Any], ...] | None:
    """The row's operands, or None where it is not one of vectors of equal lengths."""
    operands = row.args(np.random.default_rng(len(row.id)), np_dtype(_dtype_of(row)))
    if {a.shape for a in operands} != {(operands[0].size,)}:
        return None
    # Random operands stand behind the special ones.
    return tuple(a[::-1].copy() for a in operands)


def _rows(family: str) -> list[tuple[OpRow, tuple[np.ndarray[Any, Any], ...]]]:
    """The first row of each primitive that works elementwise on vectors."""
    found: dict[str, tuple[OpRow, tuple[np.ndarray[Any, Any], ...]]] = {}
    for row in rows_of(family):
        operands = None if row.primitive in found else _flat_operands(row)
        if operands is not None:
            found[row.primitive] = (row, operands)
    return list(found.values())


@pytest.mark.parametrize("family", ELEMENTWISE)
def test_shapes(family: str, runtime: str) -> None:
    cases: list[Case] = []
    flat: list[Case] = []
    names: list[tuple[OpRow, tuple[int, ...]]] = []
    for row, operands in _rows(family):
        for shape in SHAPES:
            count = int(np.prod(shape))
            some = [np.resize(a, count) if count else a[:0] for a in operands]
            flat.append((row.function, some))
            cases.append((row.function, [a.reshape(shape) for a in some]))
            names.append((row, shape))
    with override("enable_x64", True):
        compiled, expected = run_compiled(cases, runtime), run_reference(flat)
    for (row, shape), found, wanted in zip(names, compiled, expected, strict=True):
        for a, b in zip(found, wanted, strict=True):
            rtol, atol = row.tolerance_for(b.dtype)
            assert_same(a, b.reshape(shape), rtol, atol, what=f"{row.id} {shape}")


def test_no_elementwise_primitive_is_left_out() -> None:
    for family in ELEMENTWISE:
        primitives = {row.primitive for row in rows_of(family)}
        assert primitives == {row.primitive for row, _ in _rows(family)}
