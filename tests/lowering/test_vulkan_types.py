"""Vulkan devices without some types: programs that need them are refused, others do without."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as xnp
from tests.harness import (
    Case,
    assert_same,
    run_compiled,
    run_reference,
    set_target,
    trace_cases,
)
from tests.lowering.vulkan_util import vulkan_device
from tests.op_row import OpRow, np_dtype
from tests.op_runs import operands_of
from tests.op_table import all_rows, rows_of
from xpr.core.config import override
from xpr.dispatch.compiling import lower
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.vulkan import DESKTOP, vulkan_target

SHORT = vulkan_target(replace(DESKTOP, types=frozenset({"int8", "int16", "float16"})))
BARE = vulkan_target(replace(DESKTOP, types=frozenset()))

# Element types of 64 bits, where they are not the edges of a padding.
_EDGES = re.compile(r"dense<[^>]*> : tensor<\d+x2xi64>")
_WIDE = re.compile(r"tensor<(?:\d+x)*(?:i64|ui64|f64|complex<f64>)>")


def _lowered(target: Target, function: Any, *args: Any) -> str:
    with override("enable_x64", True):
        closed, _, _ = trace_cases([(function, args)])
    return lower(closed, target, "program").text


def test_what_a_device_without_a_type_lacks() -> None:
    assert SHORT.missing_types == {"float64", "complex128", "int64", "uint64"}
    assert {"float16", "bfloat16", "uint8", "bool", "float8_e5m2"} <= BARE.missing_types
    assert vulkan_target(DESKTOP).missing_types == set()


@pytest.mark.parametrize("dtype", ["float64", "complex128", "int64", "uint64"])
def test_a_type_that_is_missing_is_refused(dtype: str) -> None:
    x = np.ones(3, dtype)
    message = rf"target vulkan has no {dtype}: mul takes \w+\[3\] at .*test_vulkan_types.py:\d+"
    with pytest.raises(TypeError, match=message):
        _lowered(SHORT, lambda a: a * a, x)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "uint16", "bool"])
def test_a_small_type_that_is_missing_is_refused(dtype: str) -> None:
    x = np.ones(3, np_dtype(dtype))
    with pytest.raises(TypeError, match=f"target vulkan has no {dtype}: concatenate takes"):
        _lowered(BARE, lambda a: xnp.concatenate([a, a]), x)


def test_types_inside_of_loops_and_branches_are_seen() -> None:
    def half(x: Any) -> Any:
        return (x.astype("float64") / 2).astype("float32")

    def halves(n: Any) -> Any:
        return xpr.lax.fori_loop(0, n, lambda i, x: half(x), np.float32(1))

    def one_half(x: Any) -> Any:
        return xpr.lax.cond(x > 0, half, lambda x: x, x)

    for function, value in ((halves, np.int32(3)), (one_half, np.float32(2))):
        with pytest.raises(TypeError, match="target vulkan has no float64: convert_element_type"):
            _lowered(SHORT, function, value)


def test_an_operand_that_is_only_passed_on_is_seen() -> None:
    with pytest.raises(TypeError, match=r"has no float64: operand 0 of the program is f64\[2\]"):
        _lowered(SHORT, lambda a: a, np.ones(2))


def test_no_rule_uses_wide_types_inside() -> None:
    """The whole table in 32 bits: each row's text is free of types of 64 bits."""
    found: list[str] = []
    for rows in all_rows().values():
        for row in rows:
            for dtype in {"bool", "int32", "uint32", "float32", "complex64"} & set(row.dtypes):
                with override("enable_x64", True):
                    closed, _, _ = trace_cases([(row.function, operands_of(row, dtype))])
                try:
                    text = lower(closed, SHORT, "row").text
                except (TypeError, NotImplementedError) as error:
                    # The row itself asks for a wide type, or has no form but the host's.
                    reason = str(error)
                    if " has no " not in reason and "runs on the host" not in reason:
                        raise
                    continue
                if _WIDE.search(_EDGES.sub("", text)):
                    found.append(f"{row.id} {dtype}")
    assert not found


def _rows(family: str, *names: str) -> list[OpRow]:
    found = [row for row in rows_of(family) if row.id in names]
    assert len(found) == len(names)
    return found


def test_the_forms_in_32_bits_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done in 64 bits elsewhere, compiled for a device without them."""
    vulkan_device()
    set_target(monkeypatch, SHORT)
    rows = {
        "float32": [
            *_rows("elementwise", "rem"),
            *_rows("elementary", "sin", "cos"),
            *_rows("power", "integer_pow-60"),
            *_rows("sort", "sort-long", "top_k-blocks of columns"),
        ],
        "int32": _rows("integer", "mulhi"),
        "uint32": _rows("integer", "mulhi"),
    }
    for dtype, chosen in rows.items():
        cases: list[Case] = [(row.function, operands_of(row, dtype)) for row in chosen]
        for row, found, expected in zip(
            chosen, run_compiled(cases, "vulkan"), run_reference(cases), strict=True
        ):
            rtol, atol = row.tolerance_for(np_dtype(dtype))
            for a, b in zip(found, expected, strict=True):
                assert_same(a, b, rtol, atol, what=f"{row.id} {dtype}")
