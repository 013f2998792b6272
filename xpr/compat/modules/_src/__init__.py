"""The few private modules of JAX's that its clients import."""

from __future__ import annotations
