"""`debug_nans` and `debug_infs` raise for results, not for what a function computes with inside.

All public functions are called with and without the settings: a call whose result has no such
value must not raise, whatever its operands are; one whose result has it raises.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.settings import table

SETTINGS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "nan": (xpr.debug_nans, np.isnan),
    "inf": (xpr.debug_infs, np.isinf),
}


# Here the user's part of the expression has the value: a slice, or the line of a lambda.
OF_THE_USER = (
    "top.grad(lambda a: jnp.sum(a * 2.))(x)",
    "nn.glu(C(x)[:2])",
    "scipy.linalg.eigh_tridiagonal(C(x), C(x)[:2], eigvals_only=True)",
)


def false_alarms(calls: list[table.Call], what: str) -> list[tuple[str, str]]:
    """The calls that raise only with the setting, although their results have no such value."""
    setting, test = SETTINGS[what]
    found = []
    for call in calls:
        plain = table.result_of(call)
        if isinstance(plain, Exception) or table.holds(plain, test):
            continue
        with setting(True):
            result = table.result_of(call)
        if isinstance(result, Exception):
            found.append((call.text, f"{type(result).__name__}: {result}"))
    return found


# What compiles a program for each call is called with few operands.
COMPILED = ("control flow", "scipy", "scipy, two operands", "random")


@pytest.mark.parametrize("what", SETTINGS)
@pytest.mark.parametrize("group", table.EXPRESSIONS)
def test_expressions(group: str, what: str) -> None:
    special = ["half", "nan"] if what == "nan" else ["half", "inf"]
    kinds = special if group in COMPILED else list(table.operand_kinds())
    calls = [
        c
        for c in table.expression_calls(group, kinds)
        if not c.text.startswith(OF_THE_USER) or "(half)" in c.text
    ]
    with xpr.default_device(xpr.devices("reference")[0]):
        assert false_alarms(calls, what) == []


@pytest.mark.parametrize("what", SETTINGS)
def test_further_calls(what: str) -> None:
    with xpr.default_device(xpr.devices("reference")[0]):
        assert false_alarms(list(table.further_calls()), what) == []


@pytest.mark.parametrize(
    ("call", "operation"),
    [
        (lambda x: jnp.log(x), "log"),
        (lambda x: x / 0, "div"),
        (lambda x: jnp.median(x * np.nan), "mul"),
        (lambda x: xpr.nn.softmax(jnp.stack([x, x / 0])), "div"),
        (lambda x: xpr.vmap(jnp.log)(x), "log"),
        (lambda x: xpr.jit(jnp.log)(x), "log"),
        (lambda x: xpr.grad(lambda v: jnp.log(v).sum())(x), "log|div"),
        (lambda x: jnp.sqrt(jnp.frexp(x)[0] - 1), "sqrt"),
        (lambda x: {"a": [xpr.lax.div(x, x)]}, "div"),
        (lambda x: xpr.lax.fori_loop(0, 2, lambda i, c: c / x, x), "fori_loop|while|scan|div"),
    ],
)
def test_results_that_are_looked_for(call: Callable[[Any], Any], operation: str) -> None:
    """The error names the operation, and the line that called the function."""
    x = jnp.array([0.0, 1.0])
    tracing = sys.gettrace()
    with xpr.debug_nans(True), xpr.debug_infs(True):
        with pytest.raises(FloatingPointError, match=rf"invalid value.*in ({operation})") as caught:
            call(x)
        assert jnp.median(x) == 0.5
    assert sys.gettrace() is tracing
    assert any("test_nonfinite.py" in note for note in caught.value.__notes__)


def test_a_debugger_is_told_of_the_same_frames() -> None:
    """Its trace function is called as before, in the library's frames, too."""
    seen: list[str] = []

    def debugger(frame: Any, event: str, value: Any) -> Any:
        if event in ("call", "return"):
            seen.append(f"{event} {frame.f_code.co_name}")
        return debugger

    old = sys.gettrace()
    sys.settrace(debugger)
    try:
        with xpr.debug_nans(True):
            found = jnp.median(jnp.array([0.0, 1.0, 2.0]))
        assert sys.gettrace() is debugger
    finally:
        sys.settrace(old)
    assert found == 1.0
    assert seen.count("call median") == seen.count("return median") == 1
