"""Runs functions on a runtime, many in one compiled program, and compares arrays closely."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from xpr.core.check import check_jaxpr
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.trace import get_aval
from xpr.dispatch import compiling, known_programs
from xpr.dispatch.compiled import CompiledProgram, interpret
from xpr.interpreters.physical import physical_program
from xpr.lowering.targets.base import Target
from xpr.runtimes import registry

Case = tuple[Callable[..., Any], Sequence[np.ndarray[Any, Any]]]


def set_target(monkeypatch: pytest.MonkeyPatch, target: Target) -> None:
    """Has programs be lowered for a target in place of their device's own, which keys know."""
    monkeypatch.setattr(compiling, "target_of", lambda device: target)
    monkeypatch.setattr(known_programs, "key_of", lambda *_: None)


def trace_cases(cases: Sequence[Case]) -> tuple[ClosedJaxpr, list[np.ndarray[Any, Any]], list[int]]:
    """One program that evaluates every case: its jaxpr, its operands, and results per case."""
    operands = [a for _, args in cases for a in args]
    counts: list[int] = []

    def program(*flat: Any) -> list[Any]:
        out: list[Any] = []
        at = 0
        for function, args in cases:
            result = function(*flat[at : at + len(args)])
            at += len(args)
            results = list(result) if isinstance(result, (tuple, list)) else [result]
            counts.append(len(results))
            out += results
        return out

    closed = trace_to_jaxpr(program, [get_aval(a) for a in operands])
    check_jaxpr(closed)
    return physical_program(closed), operands, counts


def _split(
    flat: Sequence[np.ndarray[Any, Any]], counts: Sequence[int]
) -> list[list[np.ndarray[Any, Any]]]:
    out, at = [], 0
    for n in counts:
        out.append(list(flat[at : at + n]))
        at += n
    return out


def run_compiled(cases: Sequence[Case], runtime: str = "cpu") -> list[list[np.ndarray[Any, Any]]]:
    """Results of all cases, compiled as one program on the first device of `runtime`."""
    closed, operands, counts = trace_cases(cases)
    program = CompiledProgram(closed, "cases", registry.devices(runtime)[0])
    return _split([np.asarray(a._value) for a in program(operands)], counts)


def run_reference(cases: Sequence[Case]) -> list[list[np.ndarray[Any, Any]]]:
    """Results of all cases by the reference rules."""
    closed, operands, counts = trace_cases(cases)
    args = [np.asarray(a, get_aval(a).dtype) for a in operands]
    return _split(interpret(closed, [np.asarray(c) for c in closed.consts], args), counts)


def assert_same(
    found: np.ndarray[Any, Any],
    expected: np.ndarray[Any, Any],
    rtol: float = 0.0,
    atol: float = 0.0,
    *,
    signed_zero: bool = False,
    what: str = "",
) -> None:
    """Same shape, dtype and values; NaNs equal each other, infinities and zeros keep their sign."""
    assert found.shape == expected.shape, f"{what}: shape {found.shape}, expected {expected.shape}"
    assert found.dtype == expected.dtype, f"{what}: dtype {found.dtype}, expected {expected.dtype}"
    if found.dtype.kind in "biu":
        np.testing.assert_array_equal(found, expected, err_msg=what)
        return
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    a, b = found.astype(wide), expected.astype(wide)
    for x, y in ((a.real, b.real), (a.imag, b.imag)) if wide is np.complex128 else ((a, b),):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=atol, equal_nan=True, err_msg=what)
        if signed_zero:
            zero = (x == 0) & (y == 0)
            np.testing.assert_array_equal(
                np.signbit(x[zero]), np.signbit(y[zero]), err_msg=f"{what}: sign of zero"
            )
