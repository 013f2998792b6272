"""The few private modules of JAX's that its clients import."""

from __future__ import annotations

import importlib
from typing import Any

from xpr.compat import finder
from xpr.compat.aliases import alias_named, is_alias
from xpr.compat.unavailable import module_named


def __getattr__(name: str) -> Any:
    # In JAX all of them are loaded, so that clients name them without importing them.
    if not name.startswith("__"):
        if finder.is_own(f"_src.{name}"):
            return importlib.import_module(f"{__name__}.{name}")
        if is_alias(f"_src.{name}"):
            return alias_named(f"jax._src.{name}")
        missing = module_named(f"jax._src.{name}")
        if missing is not None:
            return missing
    raise AttributeError(f"module 'jax._src' has no attribute {name!r} in xpr: {finder.PAGE}")
