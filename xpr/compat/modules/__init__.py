"""What `import jax` gives: the names of xpr, and JAX's version."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

import xpr
from xpr.compat import finder, settings
from xpr.compat.high_types import typeof as typeof
from xpr.compat.unavailable import module_named
from xpr.compat.version import JAX_VERSION, JAX_VERSION_INFO

__version__ = JAX_VERSION
__version_info__ = JAX_VERSION_INFO

# Old names of functions, which warn.
_RENAMED = frozenset({"host_count", "host_id", "host_ids"})

settings.install()


def __getattr__(name: str) -> Any:
    """A name of xpr's; AttributeError if JAX has it and xpr has not, or neither has."""
    if name.startswith("__") or name in finder.NOT_JAX:
        raise AttributeError(f"module 'jax' has no attribute {name!r}")
    found = _find(name)
    if found is None:
        raise AttributeError(f"module 'jax' has no attribute {name!r} in xpr: {finder.PAGE}")
    if isinstance(found, ModuleType):
        # JAX has loaded most of its modules, and libraries look for them there.
        sys.modules.setdefault(f"jax.{name}", found)
    # Looking for a module takes a hundred times as long as all else that a call of `jax.jit` does.
    globals()[name] = found
    return found


def _find(name: str) -> Any:
    if finder.is_own(name):
        return importlib.import_module(f"{__name__}.{name}")
    found = getattr(xpr, name, None)
    if found is not None:
        return found
    if name in _RENAMED:
        return getattr(importlib.import_module(f"{__name__}._src.xla_bridge"), name)
    target = finder.target_of(name)
    return module_named(f"jax.{name}") if target is None else importlib.import_module(target)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(xpr)} - finder.NOT_JAX)
