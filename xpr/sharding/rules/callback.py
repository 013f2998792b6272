"""Calls of Python functions: they see whole arrays, as they do on one device."""

from __future__ import annotations

from xpr.sharding.rule import ShardedWhole
from xpr.sharding.rules._forms import register_all

register_all(
    ("pure_callback", "io_callback", "debug_callback"),
    ShardedWhole("the function is written for whole arrays"),
)
