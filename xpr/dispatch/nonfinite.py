"""What `debug_nans` and `debug_infs` look for, in the results of the functions that a user calls.

A function of the library may compute with NaNs and infinities: as constants, or where a mask takes
others in their place. So an operation outside programs that gives one is no error yet: it is one if
the function that the user called returns it, and that function is watched until it returns. There
is nothing to pay as long as no such value is seen.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from xpr import tree_util
from xpr.core.array import Array
from xpr.core.config import state
from xpr.core.errors import explained
from xpr.core.extended_array import ExtendedArray
from xpr.core.source_info import current, is_internal
from xpr.core.trace import Tracer

SHARDED = "sharded computation of"


def found_in(values: np.ndarray[Any, Any]) -> str | None:
    """`nan` or `inf` if they are among the values and are looked for, else None."""
    if values.dtype.kind in "biuV":
        return None
    if state.debug_nans and np.isnan(values).any():
        return "nan"
    if state.debug_infs and np.isinf(values).any():
        return "inf"
    return None


def error(what: str, computed_by: str, *, sharded: bool = False) -> FloatingPointError:
    """The error for such a value, and what made it."""
    first = "Invalid" if sharded else "invalid"  # as JAX spells them
    found = FloatingPointError(f"{first} value ({what}) encountered in {computed_by}")
    return explained(found, "FloatingPointError")


def check_finite(values: np.ndarray[Any, Any], computed_by: str, *, sharded: bool = False) -> None:
    """Raises FloatingPointError for what `debug_nans` and `debug_infs` look for."""
    what = found_in(values)
    if what is not None:
        raise error(what, computed_by, sharded=sharded)


class _Local(threading.local):
    watched: FrameType | None = None
    at_once: bool = False


_local = _Local()


class each_operation:
    """In this block an operation raises at once, and not the function around it."""

    __slots__ = ("_old",)

    def __enter__(self) -> None:
        self._old = _local.at_once
        _local.at_once = True

    def __exit__(self, *_: object) -> None:
        _local.at_once = self._old


def check_operation(
    values: np.ndarray[Any, Any],
    computed_by: str,
    better: Callable[[], FloatingPointError | None] | None = None,
) -> None:
    """As `check_finite`, of an operation: raises where the function returns that the user called.

    Not if that returns only values that nobody looks for. `better` gives the error for an operation
    that holds programs.
    """
    what = found_in(values)
    if what is None:
        return
    if _local.at_once:
        raise error(what, computed_by)
    frame = _called_by_the_user()
    if _local.watched is not frame:
        failure = None if better is None else better()
        if failure is None:
            failure = error(what, computed_by)
            failure.add_note(f"in {computed_by}, called from {current()}")
        _watch(frame, failure)


def _called_by_the_user() -> FrameType:
    """The frame of the library's function that the user's code called."""
    frame = sys._getframe(2)
    while frame.f_back is not None and is_internal(frame.f_back.f_code.co_filename):
        frame = frame.f_back
    return frame


def _watch(frame: FrameType, failure: FloatingPointError) -> None:
    """Raises `failure` when `frame` returns what is looked for.

    Python tells a trace function when a frame returns, and what. A debugger's is called, too.
    """
    others, frames = sys.gettrace(), frame.f_trace
    _local.watched = frame

    def told(where: FrameType, event: str, value: Any) -> Any:
        if frames is not None:
            frames(where, event, value)
        if event == "return":
            where.f_trace = frames
            _local.watched = None
            sys.settrace(others)
            if _holds_any(value):
                raise failure
        return told

    frame.f_trace = told
    if others is None:
        frame.f_trace_lines = False
        sys.settrace(_ignore)


def _ignore(frame: FrameType, event: str, value: Any) -> None:
    """The trace function of frames that are called meanwhile: none of them is of interest."""


def _holds_any(result: Any) -> bool:
    return any(map(_is_found, tree_util.tree_leaves(result)))


def _is_found(x: Any) -> bool:
    """Whether an array, a number, or what a traced array stands for, has what is looked for."""
    if isinstance(x, Tracer):
        parts = (getattr(x, name, None) for name in ("_batched", "_primal", "_tangent"))
        return any(_is_found(part) for part in parts if part is not None)
    if isinstance(x, ExtendedArray):
        return False
    if isinstance(x, (Array, np.ndarray, np.generic, float, complex)):
        return found_in(np.asarray(x)) is not None
    return False
