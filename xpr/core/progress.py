"""A line that says what takes so long, on a terminal only."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

_PATIENCE = 1.0
"""Seconds after which the line appears."""

_INTERVAL = 0.25
_CLEAR = "\r\033[K"


_showing = threading.Lock()


@contextmanager
def phase(
    name: str | Callable[[], str], stream: TextIO | None = None, patience: float = _PATIENCE
) -> Iterator[None]:
    """Shows `name` and the seconds while the block runs, once it has run for `patience` seconds.

    The line is taken away at the end. A function as `name` is called when that appears. Nothing is
    written where `stream`, standard error by default, is no terminal, nor in a block inside of
    another one or beside it.
    """
    out = sys.stderr if stream is None else stream
    # Programs without a console have no standard error.
    if out is None or not out.isatty() or not _showing.acquire(blocking=False):
        yield
        return
    done = threading.Event()
    start = time.monotonic()

    def show() -> None:
        if done.wait(patience):
            return
        what = name if isinstance(name, str) else name()
        while True:
            out.write(f"{_CLEAR}{what} ... {time.monotonic() - start:.0f} s")
            out.flush()
            if done.wait(_INTERVAL):
                break
        out.write(_CLEAR)
        out.flush()

    thread = threading.Thread(target=show, name="xpr-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        _showing.release()
