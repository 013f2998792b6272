"""The end of the process, when daemon threads may still be inside IREE.

Python ends a thread that comes back to an interpreter that is being finalised. Where it comes back
in the middle of C++ code, that aborts the process. So at the end all threads but the last are
stopped before they enter IREE, and those that are inside are waited for.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])

_PATIENCE = 10.0
"""Seconds that the end of the process waits for daemon threads."""

is_near = False
"""Whether no thread but the last may enter IREE any more."""

_entering: set[CodeType] = set()
_called: set[CodeType] = set()
_first: list[Callable[[], None]] = []
_when_near: list[Callable[[], None]] = []
_last_thread: int | None = None
_stopped: set[int] = set()
_never = threading.Event()


def enters_iree(function: F) -> F:
    """Marks a function that the end of the process waits for.

    It calls what gives up the interpreter's lock inside of IREE or another C++ library, or what
    runs Python code there, and begins with
    ``if shutdown.is_near: shutdown.stop_other_threads()``, or lets `when_near` see to that.
    """
    _entering.add(function.__code__)
    return function


def called_by_iree(function: F) -> F:
    """Marks a function that IREE calls: a thread that is in one must go on to leave IREE."""
    _called.add(function.__code__)
    return function


def at_first(function: Callable[[], None]) -> None:
    """Has a function called at the end of the process while threads may still enter IREE."""
    _first.append(function)


def when_near(function: Callable[[], None]) -> None:
    """Has a function called when other threads than the calling one are to be stopped."""
    _when_near.append(function)


def stop_other_threads() -> None:
    """In any thread but the last one: waits for ever, unless it is inside IREE already.

    Threads that are not daemons go on: Python has waited for all that were there, so that a
    function that atexit called has started this one, and waits for it.
    """
    thread = threading.get_ident()
    if thread == _last_thread or not threading.current_thread().daemon:
        return
    if not _is_in(_called, sys._getframe()):
        _stopped.add(thread)
        _never.wait()


def stop_if_near() -> None:
    """Called before IREE is entered: does not return once the end of the process is near."""
    if is_near:
        stop_other_threads()


def _is_in(functions: set[CodeType], frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code in functions:
            return True
        frame = frame.f_back
    return False


def _at_exit() -> None:
    """Lets programs in queues and what is inside IREE finish, and starts no other."""
    global is_near, _last_thread
    for function in _first:
        function()
    _last_thread = threading.get_ident()
    is_near = True
    for function in _when_near:
        function()
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        others = sys._current_frames().items()
        waiting = {_last_thread, *_stopped}
        if not any(_is_in(_entering, frame) for t, frame in others if t not in waiting):
            return
        time.sleep(0.001)


atexit.register(_at_exit)
