"""Random bits."""

from __future__ import annotations

from xpr.sharding.rule import ShardedWhole
from xpr.sharding.rules._forms import register_all

register_all(
    (
        "threefry2x32",
        "random_bits",
        "random_split",
        "random_fold_in",
    ),
    ShardedWhole("bits are counted over the whole array"),
)
