"""`jax._src.traceback_util`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xpr.core.source_info import register_exclusion as register_exclusion

__all__ = ["api_boundary", "register_exclusion"]


def api_boundary(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function: xpr's errors name the user's line without changing tracebacks."""
    return function
