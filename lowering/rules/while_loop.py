"""`while_loop` as `stablehlo.while`."""

from __future__ import annotations

from xpr.core.jaxpr import ClosedJaxpr
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.loops.choice import while_in_one_dispatch
from xpr.lowering.loops.memory.dispatch import memory_call, shared_product
from xpr.lowering.loops.products_apart import (
    has_large_products,
    in_one_dispatch_p,
    products_apart,
    shared_product_p,
)
from xpr.lowering.loops.refusal import NotInMemory
from xpr.lowering.numerics.while_loop import while_loop
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
    loops = ctx.target.single_dispatch_loops
    if loops and has_large_products(body_jaxpr.jaxpr, body_nconsts):
        body_jaxpr = products_apart(body_jaxpr, body_nconsts)
    elif loops:
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


def _in_one_dispatch_lower(
    ctx: LoweringContext, *operands: Value, jaxpr: ClosedJaxpr
) -> list[Value]:
    try:
        return memory_call(ctx, jaxpr, operands)
    except NotInMemory:
        return inline_program(ctx, jaxpr, operands)


def _shared_product_lower(
    ctx: LoweringContext, *operands: Value, jaxpr: ClosedJaxpr
) -> list[Value]:
    try:
        return shared_product(ctx, jaxpr, operands)
    except NotInMemory:
        return inline_program(ctx, jaxpr, operands)


register(shared_product_p, _shared_product_lower)
register(in_one_dispatch_p, _in_one_dispatch_lower)
register(while_p, _while_lower)
