"""Events of xpr's own work, for the profiler: what was done when, and how long it took."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from xpr.core.config import state


class Event(NamedTuple):
    """A piece of work; times in nanoseconds of `time.perf_counter_ns`."""

    kind: str
    name: str
    start: int
    duration: int
    thread: int
    details: dict[str, Any]


recorders: list[list[Event]] = []
"""Lists that get each event while they are in here."""


def record(
    kind: str, name: str, start: int, details: dict[str, Any], duration: int | None = None
) -> None:
    """Hands an event that began at `start` to the recorders; without a duration it ends now."""
    if duration is None:
        duration = time.perf_counter_ns() - start
    event = Event(kind, name, start, duration, threading.get_ident(), details)
    for events in tuple(recorders):
        events.append(event)


before_compile: list[Callable[[str], None]] = []
"""Called with the name of the target before a program is compiled, or its module is taken from the
cache; what they raise forbids it."""


def log_step(text: str, *arguments: Any) -> None:
    """Logs a step on the way to a compiled program: a warning under `log_compiles`, else for DEBUG.

    Where nothing has loaded `logging`, nothing listens.
    """
    if state.log_compiles or "logging" in sys.modules:
        import logging  # noqa: PLC0415  it would take a tenth of the time of `import xpr`

        level = logging.WARNING if state.log_compiles else logging.DEBUG
        logging.getLogger("xpr.compile").log(level, text, *arguments)


class span:
    """Records the time that a `with` block takes, if anything records."""

    __slots__ = ("_details", "_kind", "_name", "_start")

    def __init__(self, kind: str, name: str, **details: Any) -> None:
        self._kind = kind
        self._name = name
        self._details = details

    def __enter__(self) -> span:
        self._start = time.perf_counter_ns() if recorders else 0
        return self

    def __exit__(self, *_: object) -> None:
        if self._start and recorders:
            record(self._kind, self._name, self._start, self._details)
