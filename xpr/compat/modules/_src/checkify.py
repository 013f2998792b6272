"""`jax._src.checkify`."""

from __future__ import annotations

from typing import Any, TypeVar

from xpr.experimental import checkify as _public
from xpr.experimental.checkify.errors import JaxException as JaxException

Out = TypeVar("Out")


def __getattr__(name: str) -> Any:
    return getattr(_public, name)
