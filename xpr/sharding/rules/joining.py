"""Joining and splitting arrays: whole along the axis of the parts, the other axes pass through."""

from __future__ import annotations

from xpr.sharding.rule import FactorRule, LocalShapes, register
from xpr.sharding.rules._forms import NONE, Avals, Builder, Params


def _concatenate(operands: Avals, results: Avals, params: Params) -> FactorRule:
    build = Builder()
    factors = build.axes(results[0].shape, but=(params["dimension"],))
    return build.rule([factors for _ in operands], [factors])


register("concatenate", _concatenate)


def _stack(operands: Avals, results: Avals, params: Params) -> FactorRule:
    del results
    build = Builder()
    factors = build.axes(operands[0].shape)
    axis = params["axis"]
    return build.rule([factors for _ in operands], [[*factors[:axis], NONE, *factors[axis:]]])


register("stack", _stack)


def _unstack(operands: Avals, results: Avals, params: Params) -> FactorRule:
    build = Builder()
    axis = params["axis"]
    shape = operands[0].shape
    before, after = build.axes(shape[:axis]), build.axes(shape[axis + 1 :])
    return build.rule([[*before, NONE, *after]], [before + after for _ in results])


register("unstack", _unstack)


def _split(operands: Avals, results: Avals, params: Params) -> FactorRule:
    build = Builder()
    factors = build.axes(operands[0].shape, but=(params["axis"],))
    return build.rule([factors], [factors for _ in results])


register("split", _split)


def _fewer_copies(params: Params, local: LocalShapes) -> Params:
    mine, parts = local.results[0], local.operands[0]
    reps = tuple(
        whole // part if part else rep
        for whole, part, rep in zip(mine, parts, params["reps"], strict=True)
    )
    return {**params, "reps": reps}


def _tile(operands: Avals, results: Avals, params: Params) -> FactorRule:
    """An axis of the result is made up of copies, and within them of the operand's axis."""
    del results
    build = Builder()
    own = build.axes(operands[0].shape)
    tiled = [build.through(rep) + f for rep, f in zip(params["reps"], own, strict=True)]
    return build.rule([own], [tiled], localize=_fewer_copies)


register("tile", _tile)
