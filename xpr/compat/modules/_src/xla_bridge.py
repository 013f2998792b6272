"""`jax._src.xla_bridge`: the devices of each platform, and which platforms have been started."""

from __future__ import annotations

from typing import Any

from xpr.compat.modules.extend.backend import Backend, backends, get_backend
from xpr.runtimes import registry

__all__ = ["Backend", "backends", "backends_are_initialized", "get_backend"]


def backends_are_initialized() -> bool:
    """Whether devices of any platform have been asked for."""
    return bool(registry.live())


def __getattr__(name: str) -> Any:
    if name == "_backends":
        # Libraries look here whether it is too late to choose the number of CPU devices.
        return {platform: get_backend(platform) for platform in registry.live()}
    raise AttributeError(f"module 'jax._src.xla_bridge' has no attribute {name!r} in xpr")
