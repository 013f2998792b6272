"""Checks: an error state is whole on each device."""

from __future__ import annotations

from xpr.sharding.rule import ShardedWhole
from xpr.sharding.rules._forms import register_all

register_all(("check",), ShardedWhole("a check sees whole arrays"))
