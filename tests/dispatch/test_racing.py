"""First calls that NumPy computes while the compiler works."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.core.config import config, override
from xpr.core.errors import CompileError
from xpr.dispatch import compiling
from xpr.lowering.iree import attempts
from xpr.lowering.iree.invocation import Diagnostic

X = np.linspace(-1, 1, 9, dtype=np.float32)


class Gate:
    """Holds compiles back until the test opens it."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.reached = threading.Event()
        self.compiles = 0
        self.error: list[Any] | None = None


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """With `first_call` at "race", and compiles that end when the test says so."""
    monkeypatch.setenv("XPR_CACHE", "0")
    found, real = Gate(), attempts.run_compiler

    def run(*args: Any) -> Any:
        found.compiles += 1
        found.reached.set()
        assert found.event.wait(60)
        return real(*args) if found.error is None else (None, found.error)

    monkeypatch.setattr(attempts, "run_compiler", run)
    with override("first_call", "race"):
        yield found
    found.event.set()


def ready(function: Any, *args: Any) -> None:
    """Waits for the compiled program, outside of any call."""
    function.warm(*args).wait()


def test_calls_are_answered_before_the_compiler_is_done(gate: Gate) -> None:
    def step(x: Any, y: Any) -> Any:
        return {"a": jnp.sin(x) * y, "b": x, "c": xpr.lax.fori_loop(0, 3, lambda i, s: s + y, x)}

    function = xpr.jit(step)
    for _ in range(2):
        found = function(X, X + 2)
        np.testing.assert_allclose(found["a"], np.sin(X) * (X + 2), rtol=1e-6)
        np.testing.assert_allclose(found["c"], X + 3 * (X + 2), rtol=1e-6)
        assert np.array_equal(found["b"], X)
        found["b"].__array__()
    # The thread that compiles may come to it after both answers.
    assert gate.reached.wait(60)
    assert gate.compiles == 1
    gate.event.set()
    ready(function, X, X)
    found = function(X, X + 2)
    np.testing.assert_allclose(found["a"], np.sin(X) * (X + 2), rtol=1e-6)
    assert gate.compiles == 1
    assert function.trace(X, X).lower().compile()._loaded().pending is None


def test_the_compiler_may_be_faster(gate: Gate) -> None:
    begun, end = threading.Event(), threading.Event()

    def slow(x: Any) -> Any:
        begun.set()
        end.wait(60)
        return np.full_like(x, -100)

    # The rule for a pure callback calls it; so does the compiled program, which comes later.
    def function(x: Any) -> Any:
        return xpr.pure_callback(lambda v: v * 2 if begun.is_set() else slow(v), x, x) + 1

    def open_gate() -> None:
        begun.wait(60)
        gate.event.set()

    thread = threading.Thread(target=open_gate)
    thread.start()
    found = xpr.jit(function)(X)
    end.set()
    thread.join()
    np.testing.assert_allclose(found, X * 2 + 1, rtol=1e-6)


def test_effects_happen_once_and_are_waited_for(gate: Gate) -> None:
    seen: list[float] = []

    def function(x: Any) -> Any:
        xpr.debug.callback(lambda v: seen.append(float(v)), x[0])
        return x * 2

    opener = threading.Timer(0.2, gate.event.set)
    opener.start()
    np.testing.assert_allclose(xpr.jit(function)(X), X * 2)
    xpr.effects_barrier()
    assert gate.event.is_set()
    assert seen == [-1.0]


def test_donated_arrays_are_given_up(gate: Gate) -> None:
    function = xpr.jit(lambda x, y: x + y, donate_argnums=0)
    for _ in range(2):
        given, kept = jnp.array(X), jnp.array(X)
        np.testing.assert_allclose(function(given, kept), X + X)
        assert given.is_deleted()
        assert np.array_equal(kept, X)
    gate.event.set()
    ready(function, X, X)
    given = jnp.array(X)
    np.testing.assert_allclose(function(given, X), X + X)
    assert given.is_deleted()


def test_results_do_not_share_memory(gate: Gate) -> None:
    argument = X.copy()
    first, second = xpr.jit(lambda x: (jnp.reshape(x, (3, 3)), x.T))(argument)
    argument[:] = 7
    assert np.array_equal(first, X.reshape(3, 3))
    assert np.array_equal(second, X)


def test_errors_of_the_compiler_come_with_a_later_call(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling.host_fallback, "compile_around", lambda *_: None)
    function = xpr.jit(lambda x: x * 3)
    np.testing.assert_allclose(function(X), X * 3)
    gate.error = [Diagnostic("error", "not today")]
    gate.event.set()
    with pytest.raises(CompileError, match="not today"):
        ready(function, X)


def test_the_setting() -> None:
    assert config.first_call == "wait"
    with pytest.raises(ValueError, match="expected one of wait, race"):
        config.update("first_call", "never")
