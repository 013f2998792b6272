"""`jax._src.state.types`."""

from __future__ import annotations

from xpr.core.references import AbstractRef as AbstractRef

__all__ = ["AbstractRef"]
