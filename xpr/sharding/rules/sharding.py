"""Constraints: the engines do what they say (`xpr/sharding/structure.py`)."""

from __future__ import annotations

from xpr.sharding.rule import FactorRule, Structural, register
from xpr.sharding.rules._forms import Avals, Builder, Params, no_sharding, setting

for _name in ("place", "sharding_constraint", "reshard", "shard_alike"):
    register(_name, Structural("what it says of its operands is what the partitioner does"))
register("inspect_sharding", Structural("it is told what was decided"))
register("custom_partitioning", Structural("the user's functions say how it is partitioned"))


def _mesh_cast(operands: Avals, results: Avals, params: Params) -> FactorRule:
    del results, params
    build = Builder()
    factors = build.axes(operands[0].shape)
    return build.rule([factors], [factors], localize=setting(sharding=no_sharding))


register("mesh_cast", _mesh_cast)
