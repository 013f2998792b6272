"""`while_loop` as `stablehlo.while`."""

from __future__ import annotations

from xpr.core import dtypes
from xpr.core.jaxpr import ClosedJaxpr, dce_jaxpr
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.loops.dispatch import memory_while
from xpr.lowering.loops.refusal import NotInMemory, explain
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
    kept = _only_tested(cond_jaxpr, cond_nconsts, body_jaxpr, body_nconsts)

    def body(inner: LoweringContext, *carry: Value) -> list[Value]:
        for i in kept:
            _use(inner, carry[i])
        return inline_program(inner, body_jaxpr, [*body_consts, *carry])

    return while_loop(
        ctx,
        operands[held:],
        lambda inner, *carry: inline_program(inner, cond_jaxpr, [*cond_consts, *carry])[0],
        body,
    )


def _only_tested(
    test: ClosedJaxpr, test_nconsts: int, body: ClosedJaxpr, body_nconsts: int
) -> list[int]:
    """The places of carried values that maybe nothing reads but the test.

    The body may read them in vain, or in what the compiler simplifies until it reads them no more:
    all but integers of rank 0 count, which are nearly always counters, and slow behind a barrier.
    """
    tested = dce_jaxpr(test.jaxpr)[1][test_nconsts:]
    read = dce_jaxpr(body.jaxpr)[1][body_nconsts:]
    places = []
    for i, v in enumerate(body.jaxpr.invars[body_nconsts:]):
        counter = not v.aval.shape and dtypes.kind(v.aval.dtype) in "iu"
        if not read[i] or (tested[i] and not counter):
            places.append(i)
    return places


def _use(ctx: LoweringContext, value: Value) -> None:
    """Keeps an argument of the body that nothing reads.

    MLIR would drop it and not the argument of the test, after which IREE's conversion of the loop
    fails or reads beyond the arguments.
    """
    if dtypes.kind(value.dtype) == "u":
        # The barrier is refused for types with a sign; this bit cast costs nothing.
        value = ctx.bitcast(value, f"i{value.dtype.itemsize}")
    ctx.assign("util.optimization_barrier", (value,), value.shape, value.dtype)


register(while_p, _while_lower)
