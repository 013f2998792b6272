"""`jax.experimental`: xpr's modules of that name, and those that only JAX's clients need."""

from __future__ import annotations

import importlib
from typing import Any

import xpr.experimental
from xpr.compat import finder
from xpr.compat.unavailable import module_named
from xpr.core import high


def cur_qdd(x: Any) -> Any:
    """What the type of a mutable value is now: see `jax.experimental.hijax`."""
    return high.cur_qdd(x)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'jax.experimental' has no attribute {name!r}")
    if finder.is_own(f"experimental.{name}"):
        return importlib.import_module(f"{__name__}.{name}")
    found = getattr(xpr.experimental, name, None)
    if found is not None:
        return found
    target = finder.target_of(f"experimental.{name}")
    if target is not None:
        return importlib.import_module(target)
    missing = module_named(f"jax.experimental.{name}")
    if missing is not None:
        return missing
    raise AttributeError(
        f"module 'jax.experimental' has no attribute {name!r} in xpr: {finder.PAGE}"
    )


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(xpr.experimental)})
