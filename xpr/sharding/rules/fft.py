"""Fourier transforms."""

from __future__ import annotations

from xpr.sharding.rule import ShardedWhole
from xpr.sharding.rules._forms import register_all

register_all(
    ("fft",),
    ShardedWhole("each element needs all"),
)
