"""Blocks in low precision: all axes but the one that blocks run along pass through."""

from __future__ import annotations

from xpr.sharding.rules._forms import batched, register_all

register_all(("dequantize",), batched(1))
