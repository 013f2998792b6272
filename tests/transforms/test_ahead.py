"""Programs that are compiled before they are called."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.core.errors import CompileError
from xpr.dispatch import compiling
from xpr.lowering.iree import attempts
from xpr.lowering.iree.invocation import Diagnostic

X = np.arange(6, dtype=np.float32)
SPEC = xpr.ShapeDtypeStruct((6,), jnp.float32)
ROOT = Path(__file__).parents[2]


def test_a_warm_function_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    function = xpr.jit(lambda x, n: x * n + 0.5, static_argnames="n")
    warming = function.warm(SPEC, n=3)
    warming.wait()
    assert warming.done()
    assert repr(warming) == "<Warming: done>"
    monkeypatch.setattr(compiling, "start_compile", None)
    assert np.array_equal(function(X, n=3), X * 3 + 0.5)


def test_a_call_waits_for_what_is_left() -> None:
    function = xpr.jit(lambda x: {"a": jnp.cumsum(x), "b": x})
    warming = function.warm(SPEC)
    found = function(X)
    assert warming.done()
    np.testing.assert_allclose(found["a"], np.cumsum(X))
    assert np.array_equal(found["b"], X)


def test_errors_come_from_wait_and_from_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XPR_CACHE", "0")
    monkeypatch.setattr(
        attempts, "run_compiler", lambda *_: (None, [Diagnostic("error", "not today")])
    )
    function = xpr.jit(lambda x: x - 7.25)
    warming = function.warm(SPEC)
    monkeypatch.setattr(compiling.host_fallback, "compile_around", lambda *_: None)
    for wait in (warming.wait, lambda: function(X)):
        with pytest.raises(CompileError, match="not today") as caught:
            wait()
        assert caught.value.stablehlo_path is not None
        Path(caught.value.stablehlo_path).unlink()
    monkeypatch.undo()
    assert np.array_equal(function(X), X - 7.25)


def test_what_is_no_call_is_refused() -> None:
    with pytest.raises(TypeError, match="tuples of a jitted function and its arguments, got"):
        xpr.compile_ahead([(lambda x: x, X)])
    with pytest.raises(TypeError, match="at index 1"):
        xpr.compile_ahead([(xpr.jit(jnp.sin), X), xpr.jit(jnp.sin)])
    assert xpr.compile_ahead([]) == []


def test_several_devices_and_donation() -> None:
    mesh = xpr.make_mesh((2,), ("x",))
    sharding = xpr.sharding.NamedSharding(mesh, xpr.sharding.PartitionSpec("x"))
    value = xpr.device_put(X, sharding)
    total = xpr.jit(lambda x: x - x.sum())
    given_up = xpr.jit(lambda x: x + 1, donate_argnums=0)
    for warming in xpr.compile_ahead([(total, value), (given_up, SPEC)]):
        warming.wait()
    np.testing.assert_allclose(total(value), X - X.sum())
    argument = jnp.array(X)
    assert np.array_equal(given_up(argument), X + 1)
    assert argument.is_deleted()


def test_a_program_ends_without_waiting_for_what_it_never_called() -> None:
    text = """
    import xpr, xpr.numpy as jnp
    from xpr.lowering.iree.process import client
    import threading

    def never(*args, interruption, **options):
        over = threading.Event()
        with interruption.calls(over.set):
            over.wait()
        interruption.check()

    client.compile_module = never
    print(xpr.jit(lambda x: x + 1).warm(jnp.ones(3)))
    """
    if sys.platform != "linux":
        pytest.skip("helper processes are for Linux")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        cwd=ROOT,
        env={**os.environ, "XPR_CACHE": "0", "XPR_COMPILER": "process"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "<Warming: compiling>\n"), done.stderr
