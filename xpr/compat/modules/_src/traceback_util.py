"""`jax._src.traceback_util`."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any

from xpr.core.source_info import is_internal
from xpr.core.source_info import register_exclusion as register_exclusion


class _Excluded(list[str]):
    """The files whose frames are not shown; those that are added are excluded."""

    def append(self, path: str) -> None:
        """Excludes the files under a path."""
        register_exclusion(path)
        super().append(path)


_exclude_paths = _Excluded()

__all__ = ["api_boundary", "include_frame", "register_exclusion"]


def include_frame(frame: FrameType) -> bool:
    """Whether a frame is of the user's, not of xpr's or an excluded library's."""
    return not is_internal(frame.f_code.co_filename)


def api_boundary(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function: xpr's errors name the user's line without changing tracebacks."""
    return function
