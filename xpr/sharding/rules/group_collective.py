"""Collectives of partitioned programs: they are what partitioning makes, never what it gets."""

from __future__ import annotations

from xpr.sharding.rule import ShardedWhole, register

for _name in ("group_collective", "call_once"):
    register(_name, ShardedWhole("it belongs to programs that are partitioned already"))
