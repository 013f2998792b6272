"""Named collectives: the engine resolves their names in the body of a `shard_map`."""

from __future__ import annotations

from xpr.sharding.rule import Structural, register

for _name in (
    "psum",
    "psum_invariant",
    "pvary",
    "pmax",
    "pmin",
    "axis_index",
    "all_gather",
    "all_gather_invariant",
    "reduce_scatter",
    "all_to_all",
    "ppermute",
):
    register(_name, Structural("named collectives"))
