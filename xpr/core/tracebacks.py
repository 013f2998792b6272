"""Tracebacks that show the user's frames only.

Between the user's call of a transformed function and the user's line in it lie a dozen frames of
xpr, which say nothing to who reads the error. They are taken out where an exception leaves xpr.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, TypeVar

from xpr.core.config import state
from xpr.core.source_info import is_internal
from xpr.core.wrapping import wraps

_P = ParamSpec("_P")
_R = TypeVar("_R")

NOTE = "(xpr's own frames are left out; XPR_TRACEBACK_FILTERING=off shows them)"


def _without_internal_frames(traceback: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    while traceback is not None:
        if not is_internal(traceback.tb_frame.f_code.co_filename):
            kept.append(traceback)
        traceback = traceback.tb_next
    found: TracebackType | None = None
    for entry in reversed(kept):
        found = TracebackType(found, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return found


def _hide_internal_frames(traceback: TracebackType | None) -> None:
    """Marks the frames as IPython and pytest leave them out: by a local variable."""
    while traceback is not None:
        if is_internal(traceback.tb_frame.f_code.co_filename):
            traceback.tb_frame.f_locals["__tracebackhide__"] = True
        traceback = traceback.tb_next


def filter_traceback(error: BaseException) -> None:
    """Changes the traceback of `error` as the setting `traceback_filtering` has it."""
    mode = state.traceback_filtering
    if mode == "off":
        return
    if mode == "tracebackhide":
        _hide_internal_frames(error.__traceback__)
        return
    error.__traceback__ = _without_internal_frames(error.__traceback__)
    if mode != "quiet_remove_frames" and NOTE not in getattr(error, "__notes__", ()):
        error.add_note(NOTE)


def api_boundary(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function from which exceptions come with the user's frames only."""

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            filter_traceback(error)
            raise  # leaves no frame of its own

    return call
