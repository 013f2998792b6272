"""`cond` as `stablehlo.case`."""

from __future__ import annotations

from xpr.core.jaxpr import ClosedJaxpr
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import register
from xpr.lowering.rules._programs import inline_program
from xpr.primitives.cond import cond_p


def _cond_lower(
    ctx: LoweringContext, index: Value, *operands: Value, branches: tuple[ClosedJaxpr, ...]
) -> list[Value]:
    results = [(a.shape, a.dtype) for a in branches[0].out_avals]
    if not results and not any(b.effects for b in branches):
        return []
    regions = [
        ctx.region([], lambda inner, b=b: inline_program(inner, b, operands), control_flow=True)
        for b in branches
    ]
    # An index outside takes the last branch in StableHLO; `switch` clamps before.
    return ctx.op("stablehlo.case", [index], results, regions=regions)


register(cond_p, _cond_lower)
