"""References: none is left when a program is partitioned (`xpr/interpreters/references.py`)."""

from __future__ import annotations

from xpr.sharding.rule import ShardedWhole
from xpr.sharding.rules._forms import register_all

register_all(
    ("addupdate", "freeze", "get", "new_ref", "swap"),
    ShardedWhole("references are values before programs are partitioned"),
)
