"""Running folds."""

from __future__ import annotations

from xpr.sharding.rule import ShardedWhole
from xpr.sharding.rules._forms import register_all

register_all(
    (
        "cumsum",
        "cumprod",
        "cummax",
        "cummin",
        "cumlogsumexp",
    ),
    ShardedWhole("each element needs those before"),
)
