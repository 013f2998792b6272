"""`jax.interpreters.pxla`: what clients look up on meshes."""

from __future__ import annotations

from xpr.sharding import Mesh as Mesh

__all__ = ["Mesh"]
