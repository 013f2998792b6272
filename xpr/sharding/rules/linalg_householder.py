"""Householder reflections."""

from __future__ import annotations

from xpr.sharding.rule import ShardedWhole
from xpr.sharding.rules._forms import register_all

register_all(
    (
        "geqrf",
        "geqp3",
        "householder_product",
        "hessenberg",
        "tridiagonal",
    ),
    ShardedWhole("each element needs all"),
)
