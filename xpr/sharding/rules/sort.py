"""Sorting."""

from __future__ import annotations

from xpr.sharding.rule import ShardedWhole
from xpr.sharding.rules._forms import register_all

register_all(
    (
        "sort",
        "top_k",
        "approx_top_k",
    ),
    ShardedWhole("each element may go anywhere"),
)
