"""`jax.interpreters`: the rules of primitives, by kind."""

from __future__ import annotations

import importlib
from types import ModuleType

_MODULES = ("ad", "batching", "mlir", "partial_eval", "pxla", "xla")


def __getattr__(name: str) -> ModuleType:
    # They are loaded when they are first used: one of them needs the compile path.
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'jax.interpreters' has no attribute {name!r}")
