"""Tridiagonal equations: batches and right sides pass through, each matrix is whole."""

from __future__ import annotations

from xpr.sharding.rule import FactorRule, register
from xpr.sharding.rules._forms import NONE, Avals, Builder, Params


def _tridiagonal_solve(operands: Avals, results: Avals, params: Params) -> FactorRule:
    del results, params
    build = Builder()
    *diagonals, b = operands
    batch = build.axes(b.shape[:-2])
    sides = [*batch, NONE, build.through(b.shape[-1])]
    return build.rule([*([*batch, NONE] for _ in diagonals), sides], [sides])


register("tridiagonal_solve", _tridiagonal_solve)
