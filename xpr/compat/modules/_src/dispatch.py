"""`jax._src.dispatch`."""

from __future__ import annotations

from xpr import effects_barrier as wait_for_tokens

__all__ = ["wait_for_tokens"]
