"""`jax.experimental.array_serialization`: what orbax takes from it."""

from __future__ import annotations
