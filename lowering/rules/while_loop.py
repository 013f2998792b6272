"""`while_loop` as `stablehlo.while`."""

from __future__ import annotations

from xpr.core.jaxpr import ClosedJaxpr
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import register
from xpr.lowering.rules._programs import inline_program
from xpr.lowering.vector_context import NotInRegisters
from xpr.lowering.vector_loops import vector_while
from xpr.lowering.while_loop import while_loop
from xpr.primitives.while_loop import while_p


def _while_lower(
    ctx: LoweringContext,
    *operands: Value,
    cond_jaxpr: ClosedJaxpr,
    body_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_nconsts: int,
) -> list[Value]:
    ctx.module.note_hints(has_control_flow=True)
    held = cond_nconsts + body_nconsts
    cond_consts, body_consts = operands[:cond_nconsts], operands[cond_nconsts:held]
    if ctx.target.single_dispatch_loops:
        try:
            return vector_while(
                ctx, cond_jaxpr, body_jaxpr, cond_consts, body_consts, operands[held:]
            )
        except NotInRegisters:
            pass  # the plain form takes every program
    return while_loop(
        ctx,
        operands[held:],
        lambda inner, *carry: inline_program(inner, cond_jaxpr, [*cond_consts, *carry])[0],
        lambda inner, *carry: inline_program(inner, body_jaxpr, [*body_consts, *carry]),
    )


register(while_p, _while_lower)
