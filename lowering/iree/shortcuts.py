"""Shortcuts around IREE's own way of compiling. Each may decline; none may fail a compile.

A shortcut depends on things that IREE does not promise: the text of its intermediate forms, names
of passes, layouts of files. Another version may change any of them. So the driver starts a compile
with the shortcuts that the setting `shortcuts` allows, and when one declines or raises, it compiles
again without it. Without any shortcut a program still compiles: the compile is slower, and the
module may be.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeVar

_Result = TypeVar("_Result")

_log = logging.getLogger("xpr.compile")

OBJECTS = "objects"
DISPATCHES = "dispatches"
TEMPLATES = "templates"
TILES = "tiles"
SESSIONS = "sessions"
MERGING = "merging"
PLUGINS = "plugins"
SHORT_PASSES = "short_passes"
TRANSLATION = "translation"
DEVICE_FUNCTIONS = "device_functions"

OF_PROCESSES = frozenset({PLUGINS, DEVICE_FUNCTIONS})
"""Those that are options of a whole process, given before its first compile."""

ALL = OF_PROCESSES | {
    *(OBJECTS, DISPATCHES, TEMPLATES, TILES, SESSIONS, MERGING, SHORT_PASSES, TRANSLATION)
}
"""The names that the setting `shortcuts` knows (`xpr/core/config.py` lists them, too, since the
helper process does not load NumPy, which `xpr.core` imports)."""


class DeclinedError(Exception):
    """A shortcut does not apply to a program, or failed on it. The compile goes on without it."""

    def __init__(self, declined: Collection[str], reason: str) -> None:
        super().__init__(f"compiled without {', '.join(sorted(declined))}: {reason}")
        self.declined = frozenset(declined)
        self.reason = reason


class RefusedError(Exception):
    """The compiler refuses the program."""


_PASSED_ON = (DeclinedError, RefusedError, MemoryError)


@contextlib.contextmanager
def declines(shortcut: str) -> Iterator[None]:
    """Raise `DeclinedError` for whatever goes wrong inside the block, which is this shortcut's."""
    try:
        yield
    except _PASSED_ON:
        raise
    except Exception as error:
        raise DeclinedError(
            {shortcut}, f"{type(error).__name__}: {str(error)[:_LONGEST]}"
        ) from error


_LONGEST = 300
"""Characters of a reason: a message of the compiler may hold a whole module."""

_lock = threading.Lock()
_counts: Counter[str] = Counter()


def record(error: DeclinedError) -> None:
    """Count and log a decline."""
    with _lock:
        _counts.update(error.declined)
    _log.debug("%s", error)


def attempt(shortcut: str, function: Callable[..., _Result], *arguments: Any) -> _Result | None:
    """The result of a function that belongs to a shortcut; None if it raises."""
    try:
        with declines(shortcut):
            return function(*arguments)
    except DeclinedError as error:
        record(error)
        return None


def declined() -> dict[str, int]:
    """How often each shortcut has declined, here or in the helper process for this one."""
    with _lock:
        return dict(_counts)
