"""`while_loop` as `stablehlo.while`."""

from __future__ import annotations

from xpr.core.jaxpr import ClosedJaxpr
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.loops.memory.dispatch import memory_while
from xpr.lowering.loops.refusal import NotInMemory, explain
from xpr.lowering.loops.registers.dispatch import vector_while
from xpr.lowering.loops.registers.table import NotInRegisters
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
    held = cond_nconsts + body_nconsts
    cond_consts, body_consts = operands[:cond_nconsts], operands[cond_nconsts:held]
    if ctx.target.single_dispatch_loops:
        try:
            return vector_while(
                ctx, cond_jaxpr, body_jaxpr, cond_consts, body_consts, operands[held:]
            )
        except NotInRegisters:
            pass
        try:
            return memory_while(
                ctx, cond_jaxpr, body_jaxpr, cond_consts, body_consts, operands[held:]
            )
        except NotInMemory as refused:
            explain(ctx, "while_loop", refused)  # the plain form takes every program

    def body(inner: LoweringContext, *carry: Value) -> list[Value]:
        return inline_program(inner, body_jaxpr, [*body_consts, *carry])

    return while_loop(
        ctx,
        operands[held:],
        lambda inner, *carry: inline_program(inner, cond_jaxpr, [*cond_consts, *carry])[0],
        body,
    )


register(while_p, _while_lower)
