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
from xpr.lowering.iree import attempts, compiler

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
