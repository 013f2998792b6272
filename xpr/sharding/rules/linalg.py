"""Decompositions."""

from __future__ import annotations

from xpr.sharding.rule import ShardedWhole
from xpr.sharding.rules._forms import register_all

register_all(
    (
        "cholesky",
        "triangular_solve",
        "lu",
        "qr",
        "qr_pivoted",
        "eigh",
        "svd",
    ),
    ShardedWhole("each element needs all"),
)
