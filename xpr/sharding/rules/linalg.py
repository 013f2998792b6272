"""Decompositions and solves: batches of matrices pass through, each matrix is whole."""

from __future__ import annotations

from xpr.sharding.rule import FactorRule, register
from xpr.sharding.rules._forms import NONE, Avals, Builder, Params, batched, register_all

register_all(("cholesky", "lu", "qr", "qr_pivoted", "eigh", "svd"), batched(2))


def _triangular_solve(operands: Avals, results: Avals, params: Params) -> FactorRule:
    """Right sides are solved for one by one."""
    del results
    build = Builder()
    a, b = operands
    batch = build.axes(a.shape[:-2])
    if params["left_side"]:
        sides = [*batch, NONE, build.through(b.shape[-1])]
    else:
        sides = [*batch, build.through(b.shape[-2]), NONE]
    return build.rule([[*batch, NONE, NONE], sides], [sides])


register("triangular_solve", _triangular_solve)
