"""What is told of compiles that take long."""

from __future__ import annotations

import io
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
from xpr.core import progress
from xpr.core.config import override
from xpr.core.progress import phase
from xpr.lowering.iree import attempts, compiler
from xpr.lowering.iree.advance import Advance

X = np.ones(3, np.float32)


class Terminal(io.StringIO):
    """Standard error as a terminal, or as something else."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal = is_terminal
        self.written = threading.Event()

    def isatty(self) -> bool:
        return self.is_terminal

    def write(self, text: str) -> int:
        self.written.set()
        return super().write(text)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_long_compile_is_told_of_on_a_terminal_only(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    error, real = Terminal(is_terminal), attempts.run_compiler

    def slow(*args: Any) -> Any:
        assert not is_terminal or error.written.wait(60)
        return real(*args)

    monkeypatch.setenv("XPR_CACHE", "0")
    monkeypatch.setattr(attempts, "run_compiler", slow)
    monkeypatch.setattr(compiler, "_QUIET_SECONDS", 0.01)
    monkeypatch.setattr(progress, "_COLUMNS", 1000)
    monkeypatch.setattr(sys, "stderr", error)

    def triple(x: Any) -> Any:
        return x * 3 + 0.125

    found = xpr.jit(triple)(X)
    monkeypatch.undo()
    np.testing.assert_allclose(found, X * 3 + 0.125)
    if is_terminal:
        line = triple.__code__.co_firstlineno + 1
        assert f"compiling triple ({Path(__file__)}:{line}) ... 0 s" in error.getvalue()
        assert error.getvalue().endswith("\r\033[K")  # and nothing is left of it
    else:
        assert error.getvalue() == ""


@pytest.mark.parametrize("where", ["inline", "process"])
def test_a_compile_says_how_far_it_has_come(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if where == "process" and sys.platform != "linux":
        pytest.skip("the helper process is Linux's")
    passed: list[tuple[str, float | None]] = []
    real = Advance.passed

    def noted(self: Advance, stage: str) -> None:
        real(self, stage)
        passed.append((stage, self.fraction))

    monkeypatch.setenv("XPR_CACHE", "0")
    monkeypatch.setattr(Advance, "passed", noted)
    with override("compiler", where):
        xpr.jit(lambda x: x * 3 + 0.375)(X).block_until_ready()
    stages, fractions = zip(*passed, strict=True)
    assert stages[0] == "parse"
    assert stages[-1] == "end"
    assert fractions[-1] == 1.0
    assert list(fractions) == sorted(fractions)
    assert len(set(fractions)) >= 4


def test_a_bar_is_filled_as_the_compile_comes_along() -> None:
    terminal = Terminal(True)
    with phase("compiling f", terminal, patience=0, fraction=lambda: 0.5):
        assert terminal.written.wait(60)
    assert f"compiling f ... 0 s [{'#' * 12}{'-' * 12}]" in terminal.getvalue()
