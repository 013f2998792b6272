"""Constraints: the engines do what they say (`xpr/sharding/structure.py`)."""

from __future__ import annotations

from xpr.sharding.rule import Structural, register

for _name in ("sharding_constraint", "reshard", "shard_alike"):
    register(_name, Structural("what it says of its operands is what the partitioner does"))
