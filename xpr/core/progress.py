"""A line with a bar that says what takes so long, on a terminal or in a notebook only."""

from __future__ import annotations

import os
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, Protocol, TextIO

from xpr.core.config import state

_PATIENCE = 1.0
"""Seconds after which the line appears."""

_INTERVAL = 0.25
_CLEAR = "\r\033[K"
_WIDTH = 24
"""The characters of a bar."""

_COLUMNS = 80
"""The width of a terminal that does not tell it."""

_showing = threading.Lock()


class _Line(Protocol):
    def write(self, name: str, seconds: int, fraction: float | None = None) -> None:
        """Puts a name and the seconds in the place of what the line says.

        With a `fraction` there is a bar, of which so much is filled.
        """

    def clear(self) -> None:
        """Takes the line away."""


class _TerminalLine:
    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, name: str, seconds: int, fraction: float | None = None) -> None:
        self._out.write(_CLEAR + _fitting(name, seconds, fraction, _columns(self._out) - 1))
        self._out.flush()

    def clear(self) -> None:
        self._out.write(_CLEAR)
        self._out.flush()


class _NotebookLine:
    """An output below the cell, which is made when there is something to say."""

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._output: Any = None

    def write(self, name: str, seconds: int, fraction: float | None = None) -> None:
        text = f"{name} ... {seconds} s"
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

    def clear(self) -> None:
        # An output cannot be taken back. One without data of any type is not drawn.
        self._output.update({}, raw=True)


def _columns(out: TextIO) -> int:
    try:
        return os.get_terminal_size(out.fileno()).columns or _COLUMNS
    except (OSError, ValueError):  # no file, or a terminal that does not tell
        return _COLUMNS


def _fitting(name: str, seconds: int, fraction: float | None, columns: int) -> str:
    """The line in at most so many columns: without the bar, or the middle of the name, if need be.

    A longer line would take two rows, of which the terminal could clear only the second.
    """
    name = "".join(c if c.isprintable() else "?" for c in name)
    end = f" ... {seconds} s"
    bar = "" if fraction is None else f" {_bar(fraction)}"
    if columns - _wide(end + bar) < min(_wide(name), columns // 2):
        bar = ""
    return _shortened(name, columns - _wide(end + bar)) + end + bar if columns > 20 else end[5:]


def _shortened(text: str, columns: int) -> str:
    """A text in at most so many columns: its beginning and its end."""
    if _wide(text) <= columns:
        return text
    first, last = (columns - 1) // 3, columns - 1 - (columns - 1) // 3
    head, tail = text, text
    while _wide(head) > first:
        head = head[:-1]
    while _wide(tail) > last:
        tail = tail[1:]
    return f"{head}…{tail}"


def _wide(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _bar(fraction: float) -> str:
    filled = round(min(max(fraction, 0.0), 1.0) * _WIDTH)
    return f"[{'#' * filled}{'-' * (_WIDTH - filled)}]"


def _line(stream: TextIO | None) -> _Line | None:
    """Where a line can be shown and taken away; None where it would stay, as in a file."""
    if not state.progress:
        return None
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
    where the setting `progress` is off, nor in a block inside of another one or beside it.
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
            line.write(what, round(time.monotonic() - start), done_part)
            if done.wait(_INTERVAL):
                break
        line.clear()

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
