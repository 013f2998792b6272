"""Elementwise results read by two access maps, and elsewhere: all read the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
from tests.conftest import first_device
from tests.lowering.iree_util import MENDED
from xpr.lowering import passes

_RNG = np.random.default_rng(0)
ROW, TABLE = (_RNG.integers(-9, 9, s).astype(np.float32) for s in ((100,), (40, 48)))
ROWS, TABLES = (_RNG.integers(-9, 9, s).astype(np.float32) for s in ((48, 100), (30, 40, 48)))


def _plain(v: Any, s: Any, minimum: Any) -> tuple[Any, Any]:
    return minimum(v, s), v[:, None] + v[None, :]


def _as_a_row(v: Any, s: Any, minimum: Any) -> tuple[Any, Any]:
    return minimum(v[None], s[None]), v[:, None] + v[None, :]


def _as_a_column(v: Any, s: Any, minimum: Any) -> tuple[Any, Any]:
    return minimum(v.reshape(-1, 1), s[:, None]), v[:, None] + v


def _one_after_the_other(v: Any, s: Any, minimum: Any) -> tuple[Any, Any]:
    shared = minimum(v[None], s[None])
    table = v[:, None] + np.ones((1, v.size), np.float32)
    return shared, table * v[None, :]


def _pairs_of_rows(v: Any, s: Any, minimum: Any) -> tuple[Any, Any]:
    return minimum(v[None], s[None]), v[:, :, None] + v[:, None, :]


Form = Callable[[Any, Any, Any], tuple[Any, Any]]
FORMS: list[tuple[Form, Callable[[Any], Any], Any, Any]] = [
    (_plain, lambda x: x * x + 1, ROW, ROWS),
    (_as_a_row, lambda x: x * x + 1, ROW, ROWS),
    (_as_a_row, lambda x: x[0, :40] * 2, TABLE, ROWS[:, :40]),
    (_as_a_column, lambda x: x * x + 1, ROW, ROWS),
    (_one_after_the_other, lambda x: x * x + 1, ROW, ROWS),
    (_pairs_of_rows, lambda x: x * x + 1, TABLE, TABLES),
    # A reshape between what computes the value and what reads it.
    (_pairs_of_rows, lambda x: (x.reshape(-1) * 3).reshape(x.shape), TABLE, TABLES),
]
OPERANDS = [(x, rows) for _, _, x, rows in FORMS]


def _all(operands: Any, minimum: Any) -> list[tuple[Any, Any]]:
    return [
        form(value(x), rows.sum(0), minimum)
        for (form, value, _, _), (x, rows) in zip(FORMS, operands, strict=True)
    ]


def _in_xpr(operands: Any) -> list[tuple[Any, Any]]:
    return _all(operands, xpr.numpy.minimum)


@pytest.mark.parametrize("platform", ["cpu", "vulkan"])
def test_pairs_of_a_value_that_is_used_elsewhere(platform: str) -> None:
    found = xpr.jit(_in_xpr)(xpr.device_put(OPERANDS, first_device(platform)))
    for ours, theirs in zip(found, _all(OPERANDS, np.minimum), strict=True):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a, b)


def test_without_the_pass_the_pairs_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(passes.PASSES, "shared_elements")
    # Other numbers: what is not computed may still lie in memory from the call before.
    operands = [(x + 3, rows + 5) for x, rows in OPERANDS]
    found = xpr.jit(lambda operands: _in_xpr(operands))(operands)
    pairs = zip(found, _all(operands, np.minimum), strict=True)
    assert not any(np.array_equal(ours[1], theirs[1]) for ours, theirs in pairs), MENDED


@pytest.mark.parametrize(
    "function",
    [
        lambda v, rows: (v[:, None] + v[None, :]).sum(1),
        lambda v, rows: (rows * v + v[None, :], v),
        lambda v, rows: (rows * v, v[:, None] * 2, v.reshape(10, 10)),
    ],
)
def test_other_reads_get_no_barrier(function: Callable[..., Any]) -> None:
    text = xpr.jit(lambda x, rows: function(x * x + 1, rows)).lower(ROW, ROWS).as_text("iree")
    assert "stablehlo.optimization_barrier" not in text
