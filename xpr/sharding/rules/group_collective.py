"""Collectives of partitioned programs: they are what partitioning makes, never what it gets."""

from __future__ import annotations

from xpr.sharding.rule import ShardedWhole, register

register(
    "group_collective",
    ShardedWhole("it belongs to programs that are partitioned already"),
)
