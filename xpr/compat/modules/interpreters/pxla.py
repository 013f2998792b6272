"""`jax.interpreters.pxla`: what clients look up on meshes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from xpr.sharding import Mesh as Mesh
from xpr.sharding.context import concrete_mesh

__all__ = ["Mesh", "global_result_handlers", "thread_resources"]

global_result_handlers: dict[Any, Any] = {}
"""Rules that libraries add for types of results of their own. xpr does not look here."""


class _Resources:
    """What is in use in this thread."""

    @property
    def env(self) -> Any:
        """The mesh in use, as `physical_mesh`: an empty one if there is none."""
        mesh = concrete_mesh()
        return SimpleNamespace(physical_mesh=Mesh((), ()) if mesh is None else mesh)


thread_resources = _Resources()
