"""`jax._src.core`."""

from __future__ import annotations

from xpr.core.aval import ShapedArray as ShapedArray

__all__ = ["ShapedArray"]
