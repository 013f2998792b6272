"""Slices."""

from __future__ import annotations

from xpr.sharding.rule import ShardedWhole
from xpr.sharding.rules._forms import register_all

register_all(
    (
        "slice",
        "dynamic_slice",
        "dynamic_update_slice",
    ),
    ShardedWhole("parts lie anywhere"),
)
