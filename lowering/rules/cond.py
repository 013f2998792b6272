"""`cond` as `stablehlo.case`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xpr.core.jaxpr import ClosedJaxpr
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.ir.graph import Block
from xpr.lowering.registry import register
from xpr.lowering.rules._programs import inline_program
from xpr.primitives.cond import cond_p

_NUMBER = np.dtype(np.int32)


def _cond_lower(
    ctx: LoweringContext, index: Value, *operands: Value, branches: tuple[ClosedJaxpr, ...]
) -> list[Value]:
    results = [(a.shape, a.dtype) for a in branches[0].out_avals]
    if not results and not any(b.effects for b in branches):
        return []
    if not results:
        _effects_lower(ctx, index, operands, branches)
        return []
    regions = [
        ctx.region([], lambda inner, b=b: inline_program(inner, b, operands), control_flow=True)
        for b in branches
    ]
    # An index outside takes the last branch in StableHLO; `switch` clamps before.
    return ctx.op("stablehlo.case", [index], results, regions=regions)


def _effects_lower(
    ctx: LoweringContext,
    index: Value,
    operands: Sequence[Value],
    branches: tuple[ClosedJaxpr, ...],
) -> None:
    """Branches without results, which IREE cannot compile: each gives its number.

    The barrier keeps the numbers from being dropped again.
    """

    def region(number: int, closed: ClosedJaxpr) -> Block:
        def body(inner: LoweringContext) -> list[Value]:
            inline_program(inner, closed, operands)
            return [inner.constant(number, _NUMBER)]

        return ctx.region([], body, control_flow=True)

    regions = [region(i, b) for i, b in enumerate(branches)]
    (chosen,) = ctx.op("stablehlo.case", [index], [((), _NUMBER)], regions=regions)
    ctx.assign("util.optimization_barrier", (chosen,), (), _NUMBER)


register(cond_p, _cond_lower)
