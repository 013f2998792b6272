"""`while_loop` as `stablehlo.while`."""

from __future__ import annotations

from xpr.core.jaxpr import ClosedJaxpr
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.loops.choice import while_in_one_dispatch
from xpr.lowering.loops.while_loop import while_loop
from xpr.lowering.registry import register
from xpr.lowering.rules._programs import inline_program
from xpr.primitives.while_loop import while_p


def _while_lower(
    ctx: LoweringContext,
    *operands: Value,
    cond_jaxpr: ClosedJaxpr,
    body_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_nconsts: int,
) -> list[Value]:
    num_consts = cond_nconsts + body_nconsts
    cond_consts, body_consts = operands[:cond_nconsts], operands[cond_nconsts:num_consts]
    if ctx.target.single_dispatch_loops:
        found = while_in_one_dispatch(
            ctx,
            operands,
            cond_jaxpr=cond_jaxpr,
            body_jaxpr=body_jaxpr,
            cond_nconsts=cond_nconsts,
            body_nconsts=body_nconsts,
        )
        if found is not None:
            return found

    def body(inner: LoweringContext, *carry: Value) -> list[Value]:
        return inline_program(inner, body_jaxpr, [*body_consts, *carry])

    return while_loop(
        ctx,
        operands[num_consts:],
        lambda inner, *carry: inline_program(inner, cond_jaxpr, [*cond_consts, *carry])[0],
        body,
    )


register(while_p, _while_lower)
