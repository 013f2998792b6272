"""`jax._src.xla_bridge`: the devices of each platform, and which platforms have been started."""

from __future__ import annotations

import warnings
from typing import Any

from xpr import process_count, process_index, process_indices
from xpr.compat.modules.extend.backend import Backend, backends, get_backend
from xpr.runtimes import registry

__all__ = [
    "Backend",
    "backends",
    "backends_are_initialized",
    "get_backend",
    "host_count",
    "host_id",
    "host_ids",
    "process_count",
    "process_index",
    "process_indices",
]


def _renamed(old: str, new: str) -> None:
    warnings.warn(f"jax.{old} has been renamed to jax.{new}", stacklevel=3)


def host_id(backend: Any = None) -> int:
    """The old name of `process_index`, with a warning."""
    _renamed("host_id", "process_index")
    return process_index(backend)


def host_count(backend: Any = None) -> int:
    """The old name of `process_count`, with a warning."""
    _renamed("host_count", "process_count")
    return process_count(backend)


def host_ids(backend: Any = None) -> list[int]:
    """The old name of `process_indices`, with a warning."""
    _renamed("host_ids", "process_indices")
    return process_indices(backend)


def backends_are_initialized() -> bool:
    """Whether devices of any platform have been asked for."""
    return bool(registry.live())


def __getattr__(name: str) -> Any:
    if name == "_backends":
        # Libraries look here whether it is too late to choose the number of CPU devices.
        return {platform: get_backend(platform) for platform in registry.live()}
    raise AttributeError(f"module 'jax._src.xla_bridge' has no attribute {name!r} in xpr")
