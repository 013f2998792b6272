"""Where the processor's time goes while a program is made ready: for `xpr.debug.explain`."""

from __future__ import annotations

import contextlib
import contextvars
import time
from collections.abc import Iterator
from typing import Any

try:
    import resource
except ImportError:  # Windows counts no processor time of processes that have ended
    resource = None

LINK = "link"


def _seconds() -> tuple[float, float]:
    """Processor time of this process, in all of its threads, and of its ended child processes."""
    if resource is None:
        return time.process_time(), 0.0
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time(), children.ru_utime + children.ru_stime


class Stopwatch:
    """Processor time by stage, in the order of the stages.

    The compiler has no child process but the linker, whose time is a stage of its own.
    """

    def __init__(self) -> None:
        self.stages: dict[str, float] = {}
        self.dispatches: int | None = None
        self.kept: int | None = None
        self.flags: tuple[str, ...] = ()
        """Those that the program was compiled with."""
        self.attempts = 0
        """How many sets of flags were tried, and other forms of the program."""
        self.separate = False
        """Whether it took barriers behind all operations."""
        self.entry: str | None = None
        """The file in the disk cache that holds the program already."""
        self._last = _seconds()

    def passed(self, stage: str) -> None:
        """What was done since the last call was this stage, or more of it."""
        now = _seconds()
        own, linker = now[0] - self._last[0], now[1] - self._last[1]
        self.stages[stage] = self.stages.get(stage, 0.0) + own
        if linker:
            self.stages[LINK] = self.stages.get(LINK, 0.0) + linker
        self._last = _seconds()

    def record(self) -> dict[str, Any]:
        """The stages of a compile, for the process that asked for it."""
        return {"stages": self.stages, "dispatches": self.dispatches, "kept": self.kept}

    def add(self, record: dict[str, Any]) -> None:
        """Adds the stages of a compile in another process."""
        for stage, seconds in record["stages"].items():
            self.stages[stage] = self.stages.get(stage, 0.0) + seconds
        self.dispatches, self.kept = record["dispatches"], record["kept"]


_watching: contextvars.ContextVar[Stopwatch | None] = contextvars.ContextVar(
    "xpr_stopwatch", default=None
)


@contextlib.contextmanager
def watching() -> Iterator[Stopwatch]:
    """Inside the block programs are compiled anew, in this thread, and their stages are timed."""
    token = _watching.set(Stopwatch())
    try:
        found = _watching.get()
        assert found is not None
        yield found
    finally:
        _watching.reset(token)


def current() -> Stopwatch | None:
    """The stopwatch that runs in this context."""
    return _watching.get()


def passed(stage: str) -> None:
    """Tells the stopwatch that runs, if one does, that a stage has ended."""
    watch = _watching.get()
    if watch is not None:
        watch.passed(stage)
