"""Collectives: operations over an axis that has a name, of `vmap` or of a mesh of devices.

Each example (under `vmap`) or each device (under `shard_map`) has one value; a collective combines
them across the named axis. `vmap` replaces a collective over its axis by operations on the whole
batch; under `shard_map` devices exchange what they have. The files `_collective_*` hold the rules.
"""

from __future__ import annotations

from xpr.primitives._collective_exchanges import (
    all_to_all,
    all_to_all_p,
    ppermute,
    ppermute_p,
    pshuffle,
    pswapaxes,
)
from xpr.primitives._collective_gathers import (
    all_gather,
    all_gather_invariant_p,
    all_gather_p,
    psum_scatter,
    reduce_scatter_p,
)
from xpr.primitives._collective_sums import (
    axis_index,
    axis_index_p,
    axis_size,
    pmax,
    pmax_p,
    pmean,
    pmin,
    pmin_p,
    psum,
    psum_invariant_p,
    psum_p,
    pvary_p,
)
from xpr.primitives._collective_unreduced import (
    all_gather_reduced_p,
    pcast,
    preduced_p,
    reduced_vary_cast_p,
    unreduced_psum_p,
    unreduced_reduce_scatter_p,
    vary_unreduced_cast_p,
)

__all__ = [
    "all_gather",
    "all_gather_invariant_p",
    "all_gather_p",
    "all_gather_reduced_p",
    "all_to_all",
    "all_to_all_p",
    "axis_index",
    "axis_index_p",
    "axis_size",
    "pcast",
    "pmax",
    "pmax_p",
    "pmean",
    "pmin",
    "pmin_p",
    "ppermute",
    "ppermute_p",
    "preduced_p",
    "pshuffle",
    "psum",
    "psum_invariant_p",
    "psum_p",
    "psum_scatter",
    "pswapaxes",
    "pvary_p",
    "reduce_scatter_p",
    "reduced_vary_cast_p",
    "unreduced_psum_p",
    "unreduced_reduce_scatter_p",
    "vary_unreduced_cast_p",
]
