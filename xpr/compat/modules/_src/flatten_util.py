"""`jax._src.flatten_util`."""

from __future__ import annotations

from xpr.flatten_util import ravel_pytree as ravel_pytree

__all__ = ["ravel_pytree"]
