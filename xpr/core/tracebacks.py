"""Tracebacks that show the user's frames only.

Between the user's call of a transformed function and the user's line in it lie a dozen frames of
xpr, which say nothing to who reads the error. They are taken out where an exception leaves xpr.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from types import FunctionType, TracebackType
from typing import Any, ParamSpec, TypeVar

from xpr.core.config import state
from xpr.core.source_info import is_internal
from xpr.core.wrapping import wraps

_P = ParamSpec("_P")
_R = TypeVar("_R")
_C = TypeVar("_C", bound=type)

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
    """Changes the tracebacks of `error` and of its causes as `traceback_filtering` has it."""
    mode = state.traceback_filtering
    if mode == "off":
        return
    shown: BaseException | None = error
    while shown is not None:
        if mode == "tracebackhide":
            _hide_internal_frames(shown.__traceback__)
        else:
            shown.__traceback__ = _without_internal_frames(shown.__traceback__)
        shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)
    if mode == "auto" and NOTE not in getattr(error, "__notes__", ()):
        error.add_note(NOTE)


def api_boundary(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function from which exceptions come with the user's frames only."""

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            filter_traceback(error)
            raise  # leaves no frame of its own
        if args and result is args[0] and state.mutable_arrays and isinstance(result, _mutable):
            return copy.copy(result)  # assigning to the result must not change the operand
        return result

    return call


_mutable: tuple[type, ...] = ()


def register_mutable(cls: type) -> None:
    """Has API boundaries return copies of operands of this type, if arrays can be assigned to."""
    global _mutable
    _mutable = (*_mutable, cls)


_exported: dict[FunctionType, FunctionType] = {}
_BOUNDARY = api_boundary(filter_traceback).__code__


def exported(value: Any) -> Any:
    """What a package has for `value` of one of its files: for a function, its API boundary.

    The boundary takes the function's place in its file too, so that it can be pickled. Everything
    else, and a function that is a boundary by itself, is exported as it is.
    """
    if not isinstance(value, FunctionType) or value.__code__ is _BOUNDARY:
        return value
    if not is_internal(value.__code__.co_filename):
        return value
    boundary = _exported.get(value)
    if boundary is None:
        boundary = _exported[value] = api_boundary(value)
        file = vars(sys.modules[value.__module__])
        file.update({name: boundary for name, other in list(file.items()) if other is value})
    return boundary


def export_functions(package: str) -> None:
    """Makes the functions that `package` has imported from its files API boundaries."""
    names = vars(sys.modules[package])
    for name, value in list(names.items()):
        if isinstance(value, FunctionType) and not name.startswith("_"):
            if value.__module__ != package:
                names[name] = exported(value)


def export_methods(cls: _C) -> _C:
    """A class decorator: public methods and operators become API boundaries."""
    for name, value in list(vars(cls).items()):
        private = name == "__init__" or (name.startswith("_") and not name.startswith("__"))
        if isinstance(value, FunctionType) and not private:
            setattr(cls, name, api_boundary(value))
    return cls
