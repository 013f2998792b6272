"""Breakpoints, and looking at where arrays live."""

from __future__ import annotations

import bdb
import io
import sys
from typing import Any

import pytest

import xpr
import xpr.numpy as jnp
from xpr import debug
from xpr.sharding import SingleDeviceSharding


class Terminal(io.StringIO):
    """Standard input on which a user types these lines."""

    def isatty(self) -> bool:
        return True


def typed(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("".join(f"{line}\n" for line in lines)))


def program(x: Any) -> Any:
    word = "outer"
    return helper(x, 2 * x), word


def helper(x: Any, y: Any) -> Any:
    both = {"x": x, "y": y}
    debug.breakpoint()
    return both["x"] + y


def test_without_a_terminal_the_place_and_values_are_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert xpr.jit(lambda x: program(x)[0])(1.5) == 4.5
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"breakpoint: {__file__}(")
    assert lines[0].endswith(")helper()")
    assert [line[:2] for line in lines].count("->") == 1
    assert "debug.breakpoint()" in next(line for line in lines if line.startswith("->"))
    assert lines[-3:] == [
        "   both = {'x': Array(1.5, dtype=float32), 'y': Array(3., dtype=float32)}",
        "   x = Array(1.5, dtype=float32)",
        "   y = Array(3., dtype=float32)",
    ]


def test_a_list_that_holds_itself_is_shown(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    def stops(x: Any) -> Any:
        endless: list[Any] = [1]
        endless.append(endless)
        debug.breakpoint()
        return x + endless[0]

    assert xpr.jit(stops)(1.5) == 2.5
    assert "   x = Array(1.5, dtype=float32)" in capsys.readouterr().out.splitlines()


def test_a_session_looks_at_values(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    typed(
        monkeypatch, "p x + 1", "both['y'] * 2", "pp both", "u", "p word", "p nothing", "", "d",
        "d", "w", "l", "c",
    )  # fmt: skip
    assert xpr.jit(xpr.grad(lambda x: program(x)[0]))(1.5) == 3
    out = capsys.readouterr().out
    for part in (
        "(xpr-db) Array(2.5, dtype=float32)\n",
        "(xpr-db) Array(6., dtype=float32)\n",
        "(xpr-db) {'x': Array(1.5, dtype=float32), 'y': Array(3., dtype=float32)}\n",
        "(xpr-db) 'outer'\n",
        "*** NameError: name 'nothing' is not defined",
        "*** Newest frame",
        f"> {__file__}(",
    ):
        assert part in out


def test_a_session_ends_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    for jit in (lambda f: f, xpr.jit):
        typed(monkeypatch, "q")
        with pytest.raises(bdb.BdbQuit):
            jit(lambda x: program(x)[0])(1.5)
    typed(monkeypatch)  # the end of the input lets the program go on
    assert xpr.jit(lambda x: program(x)[0] + 1)(1.5) == 5.5


def test_arguments_of_breakpoint() -> None:
    with pytest.raises(ValueError, match="has the backend 'cli' only, got 'web'"):
        debug.breakpoint(backend="web")
    with pytest.raises(TypeError, match="takes no token and no further options"):
        debug.breakpoint(color=True)
    with pytest.raises(ValueError, match="found no frame"):
        debug.breakpoint(num_frames=0)


def test_shardings_are_told(capsys: Any) -> None:
    place = SingleDeviceSharding(xpr.devices("cpu")[0])
    x = xpr.device_put(jnp.ones((2, 3)), place)
    seen: list[Any] = []
    debug.inspect_array_sharding(x, callback=seen.append)
    xpr.grad(lambda x: (debug.inspect_array_sharding(x, callback=seen.append), x.sum())[1])(x)
    assert seen == [place, place]
    same = xpr.jit(lambda x: (debug.inspect_array_sharding(x, callback=seen.append), x)[1])
    assert "inspect_sharding[" in str(xpr.make_jaxpr(same)(x))
    lowered = same.lower(x)
    assert len(seen) == 2
    lowered.compile()
    same(x)
    assert seen[2:] == [place]  # once for each compiled program
    debug.visualize_array_sharding(x, scale=0.1)
    debug.visualize_sharding((3,), place)
    box = ["┌───────┐", "│ CPU 0 │", "└───────┘"]
    assert capsys.readouterr().out.splitlines() == box * 2
    with pytest.raises(ValueError, match="shapes with 1 and 2 dimensions"):
        debug.visualize_array_sharding(jnp.ones(()))
    with pytest.raises(TypeError, match="takes a function, got 3"):
        debug.inspect_array_sharding(x, callback=3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="not a valid"):
        debug.inspect_array_sharding("x", callback=print)
