"""Windows."""

from __future__ import annotations

from xpr.sharding.rule import ShardedWhole
from xpr.sharding.rules._forms import register_all

register_all(
    (
        "reduce_window_sum",
        "reduce_window_max",
        "reduce_window_min",
        "reduce_window",
        "select_and_scatter_add",
        "select_and_gather_add",
    ),
    ShardedWhole("windows need neighbours"),
)
