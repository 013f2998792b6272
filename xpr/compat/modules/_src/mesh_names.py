"""What `jax._src.mesh` has beside public names."""

from __future__ import annotations

from typing import Any

from xpr.compat.modules.interpreters.pxla import thread_resources as thread_resources
from xpr.sharding.context import concrete_mesh


def get_concrete_mesh() -> Any:
    """The mesh of devices in use; None if there is none."""
    return concrete_mesh()


__all__ = ["get_concrete_mesh", "thread_resources"]
