"""Named collectives: the engine resolves their names in the body of a `shard_map`."""

from __future__ import annotations

from typing import Any

from xpr.sharding.rule import Structural, register

for _name in (
    "psum",
    "psum_invariant",
    "unreduced_psum",
    "pvary",
    "preduced",
    "vary_unreduced_cast",
    "reduced_vary_cast",
    "pmax",
    "pmin",
    "axis_index",
    "all_gather",
    "all_gather_invariant",
    "all_gather_reduced",
    "reduce_scatter",
    "unreduced_reduce_scatter",
    "all_to_all",
    "ppermute",
):
    register(_name, Structural("named collectives"))


def kept_axes(name: str, params: dict[str, Any], rank: int) -> list[tuple[int, int]]:
    """The operand's axes that the collective leaves alone, each with its place in the result.

    Along these, parts may be sharded over mesh axes that the collective does not name. Axes that
    are split, joined or new are whole.
    """
    if name == "all_to_all":
        split, concat = params["split_axis"], params["concat_axis"]
        if params["tiled"]:
            return [(i, i) for i in range(rank) if i not in (split, concat)]
        rest = [i for i in range(rank) if i != split]
        return [(i, n + (n >= concat)) for n, i in enumerate(rest)]
    if name in ("reduce_scatter", "unreduced_reduce_scatter"):
        dim, tiled = params["scatter_dimension"], params["tiled"]
        return [(i, i if tiled or i < dim else i - 1) for i in range(rank) if i != dim]
    if name in ("all_gather", "all_gather_invariant", "all_gather_reduced"):
        dim = params["all_gather_dimension"]
        if params["tiled"]:
            return [(i, i) for i in range(rank) if i != dim]
        return [(i, i + (i >= dim)) for i in range(rank)]
    return [(i, i) for i in range(rank)]
