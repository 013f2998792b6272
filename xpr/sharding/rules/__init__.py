"""Sharding rules, one file per family of primitives, named as in `xpr/primitives`.

`load_all` imports every family and refuses a primitive without a rule, so that none can be missing
because it was forgotten.
"""

from __future__ import annotations

import importlib

from xpr.core.primitive import registry
from xpr.primitives import FAMILIES
from xpr.sharding.rule import missing_rules


def load_all() -> None:
    """Imports the rules of each family; NotImplementedError names primitives that have none."""
    for family in FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
    missing = missing_rules(tuple(registry))
    if missing:
        raise NotImplementedError(
            f"primitives without a sharding rule: {', '.join(missing)}. Register a rule, or "
            "ShardedWhole(reason), for each in xpr/sharding/rules/<family>.py"
        )
