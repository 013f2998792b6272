"""A line with a bar that says what takes so long, on a terminal or in a notebook only."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, Protocol, TextIO

_PATIENCE = 1.0
"""Seconds after which the line appears."""

_INTERVAL = 0.25
_CLEAR = "\r\033[K"
_WIDTH = 24
"""The characters of a bar."""

_showing = threading.Lock()


class _Line(Protocol):
    def write(self, text: str, fraction: float | None = None) -> None:
        """Puts `text` in the place of what the line says; an empty one takes it away.

        With a `fraction` there is a bar, of which so much is filled.
        """


class _TerminalLine:
    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, text: str, fraction: float | None = None) -> None:
        bar = "" if fraction is None else f" {_bar(fraction)}"
        self._out.write(f"{_CLEAR}{text}{bar}")
        self._out.flush()


class _NotebookLine:
    """An output below the cell, which is made when there is something to say."""

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._output: Any = None

    def write(self, text: str, fraction: float | None = None) -> None:
        data = {"text/plain": text}
        if fraction is not None:
            data["text/plain"] += f" {_bar(fraction)}"
            data["text/html"] = (
                f'{escape(text)} <progress value="{fraction:.2f}" max="1"></progress>'
            )
        if self._output is None:
            self._output = self._display(data, raw=True, display_id=True)
        else:
            self._output.update(data, raw=True)


def _bar(fraction: float) -> str:
    filled = round(min(max(fraction, 0.0), 1.0) * _WIDTH)
    return f"[{'#' * filled}{'-' * (_WIDTH - filled)}]"


def _line(stream: TextIO | None) -> _Line | None:
    """Where a line can be shown and taken away; None where it would stay, as in a file."""
    # Programs without a console have no standard error.
    out = sys.stderr if stream is None else stream
    if out is not None and out.isatty():
        return _TerminalLine(out)
    ipython = sys.modules.get("IPython")
    if stream is None and ipython is not None:
        shell = ipython.get_ipython()
        if getattr(shell, "kernel", None) is not None:
            return _NotebookLine(sys.modules["IPython.display"].display)
    return None


@contextmanager
def phase(
    name: str | Callable[[], str],
    stream: TextIO | None = None,
    patience: float = _PATIENCE,
    fraction: Callable[[], float | None] | None = None,
) -> Iterator[None]:
    """Shows `name` and the seconds while the block runs, once it has run for `patience` seconds.

    `fraction` says which part is done, from 0 to 1, for a bar; None while that is not known. The
    line is taken away at the end. A function as `name` is called when that appears. Nothing is
    written where `stream`, standard error by default, is no terminal and the program no notebook,
    nor in a block inside of another one or beside it.
    """
    line = _line(stream)
    if line is None or not _showing.acquire(blocking=False):
        yield
        return
    done = threading.Event()
    start = time.monotonic()

    def show() -> None:
        if done.wait(patience):
            return
        what = name if isinstance(name, str) else name()
        while True:
            done_part = None if fraction is None else fraction()
            line.write(f"{what} ... {time.monotonic() - start:.0f} s", done_part)
            if done.wait(_INTERVAL):
                break
        line.write("")

    thread = threading.Thread(target=show, name="xpr-progress", daemon=True)
    started = _start(thread)
    try:
        yield
    finally:
        done.set()
        if started:
            thread.join()
        _showing.release()


def _start(thread: threading.Thread) -> bool:
    """Starts a thread; False where none is to be had, as at the end of the process."""
    try:
        thread.start()
    except RuntimeError:
        return False
    return True
