"""The few private modules of JAX's that its clients import."""

from __future__ import annotations

import importlib
from typing import Any

from xpr.compat import finder


def __getattr__(name: str) -> Any:
    # In JAX all of them are loaded, so that clients name them without importing them.
    if not name.startswith("__") and finder.is_own(f"_src.{name}"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'jax._src' has no attribute {name!r} in xpr: {finder.PAGE}")
