"""`jax.extend.backend`: the runtimes that there are."""

from __future__ import annotations

from xpr.runtimes.base import Runtime
from xpr.runtimes.registry import backends as backends
from xpr.runtimes.registry import default_backend, get_runtime

__all__ = ["backends", "get_backend"]


def get_backend(platform: str | None = None) -> Runtime:
    """The runtime of a platform, or that where programs run."""
    return get_runtime(platform or default_backend())
