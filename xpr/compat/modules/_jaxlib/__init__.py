"""What `import jaxlib` gives: a version. Of the library itself there is nothing."""

from __future__ import annotations

import importlib
from typing import Any

from xpr.compat.unavailable import PAGE, module_named
from xpr.compat.version import JAX_VERSION

__version__ = JAX_VERSION


def __getattr__(name: str) -> Any:
    if name in ("version", "_jax"):
        return importlib.import_module(f"{__name__}.{name}")
    missing = module_named(f"jaxlib.{name}")
    if missing is not None:
        return missing
    raise AttributeError(f"module 'jaxlib' has no attribute {name!r} in xpr: {PAGE}")
