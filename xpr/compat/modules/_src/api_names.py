"""What `jax._src.api` has beside public names."""

from __future__ import annotations

from typing import Any

from xpr.core.trace import get_aval

__all__ = ["_dtype"]


def _dtype(x: Any) -> Any:
    """The dtype that a value has as an array."""
    return get_aval(x).dtype
