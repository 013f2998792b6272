"""Ends a compile that nobody waits for any more."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


class InterruptedCompileError(Exception):
    """The compile was ended because nobody waits for it."""


class Interruption:
    """A wish that a compile should end, which may come at any time and from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._end: Callable[[], None] | None = None
        self.requested = False

    def request(self) -> None:
        """Ends the compile: at once where a helper does it, else after the attempt under way."""
        with self._lock:
            self.requested = True
            if self._end is not None:
                self._end()

    def check(self) -> None:
        """Raises `InterruptedCompileError` if the compile is to end."""
        if self.requested:
            raise InterruptedCompileError

    @contextlib.contextmanager
    def calls(self, end: Callable[[], None]) -> Iterator[None]:
        """Inside the block a request calls `end`."""
        with self._lock:
            self.check()
            self._end = end
        try:
            yield
        finally:
            with self._lock:
                self._end = None
