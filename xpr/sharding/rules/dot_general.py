"""Contractions: batch and free axes pass through, contracting axes are summed."""

from __future__ import annotations

from xpr.sharding.rule import FactorRule, register
from xpr.sharding.rules._forms import Avals, AxisFactors, Builder, Params, no_sharding, setting


def _dot_general(operands: Avals, results: Avals, params: Params) -> FactorRule:
    build = Builder()
    lhs, rhs = operands
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = params["dimension_numbers"]
    # For booleans the sum is "or".
    op = "or" if results[0].dtype == bool else "sum"
    left: dict[int, AxisFactors] = {}
    right: dict[int, AxisFactors] = {}
    for i, j in zip(lhs_batch, rhs_batch, strict=True):
        left[i] = right[j] = build.through(lhs.shape[i])
    batch = [left[i] for i in lhs_batch]
    for i, j in zip(lhs_contract, rhs_contract, strict=True):
        left[i] = right[j] = build.reduced(lhs.shape[i], op)
    lhs_free = [i for i in range(lhs.ndim) if i not in left]
    rhs_free = [j for j in range(rhs.ndim) if j not in right]
    left.update((i, build.through(lhs.shape[i])) for i in lhs_free)
    right.update((j, build.through(rhs.shape[j])) for j in rhs_free)
    return build.rule(
        [[left[i] for i in range(lhs.ndim)], [right[j] for j in range(rhs.ndim)]],
        [batch + [left[i] for i in lhs_free] + [right[j] for j in rhs_free]],
        localize=setting(out_sharding=no_sharding),
    )


register("dot_general", _dot_general)
