"""Decompositions of general matrices."""

from __future__ import annotations

from xpr.sharding.rule import ShardedWhole
from xpr.sharding.rules._forms import register_all

register_all(
    (
        "eig",
        "schur",
    ),
    ShardedWhole("each element needs all"),
)
