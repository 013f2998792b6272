"""Which form a loop gets: one dispatch in registers or in memory, or none of the two."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.loops.complex_parts import (
    count_of_parts,
    has_complex,
    in_parts,
    parts_of,
    scan_in_parts,
    whole_values,
)
from xpr.lowering.loops.memory.dispatch import memory_scan, memory_while, one_pass
from xpr.lowering.loops.refusal import NotInMemory, explain
from xpr.lowering.loops.registers.context import LONG, SHORT, Limit
from xpr.lowering.loops.registers.dispatch import vector_scan, vector_while
from xpr.lowering.loops.registers.table import LongProgram, NotInRegisters

Form = Callable[..., list[Value]]


def _one_dispatch(
    ctx: LoweringContext, what: str, registers: Callable[[Limit], list[Value]], memory: Form
) -> list[Value] | None:
    """The loop as one dispatch; None, and a word of explanation, if no form takes it.

    `registers` gets the most that a step may be. A step that would fill many registers is done
    in memory where that does: it compiles faster, and is hardly slower or faster.
    """
    is_long = False
    try:
        return registers(SHORT)
    except LongProgram:
        is_long = True
    except NotInRegisters:
        pass
    try:
        return memory()
    except NotInMemory as refused:
        reason = refused
    if is_long:
        try:
            return registers(LONG)
        except NotInRegisters:
            pass
    explain(ctx, what, reason)
    return None


def scan_in_one_dispatch(
    ctx: LoweringContext,
    operands: Sequence[Value],
    *,
    jaxpr: ClosedJaxpr,
    length: int,
    reverse: bool,
    num_consts: int,
    num_carry: int,
) -> list[Value] | None:
    """A scan as one dispatch, if it can be."""
    if not has_complex(jaxpr.jaxpr):
        return _scan(ctx, operands, jaxpr, length, num_consts, num_carry, reverse=reverse)
    try:
        parts, consts, carry = scan_in_parts(jaxpr, num_consts, num_carry)
    except NotInMemory as refused:
        explain(ctx, "scan", refused)
        return None
    flat = [p for x in operands for p in parts_of(ctx, x)]
    found = _scan(ctx, flat, parts, length, consts, carry, reverse=reverse)
    if found is None:
        return None
    return whole_values(ctx, jaxpr.out_avals, found)


def one_pass_in_parts(
    ctx: LoweringContext, closed: ClosedJaxpr, operands: Sequence[Value]
) -> list[Value]:
    """A program of operations on elements in one pass; complex numbers are taken apart for it.

    NotInMemory if it cannot be.
    """
    if not has_complex(closed.jaxpr):
        return one_pass(ctx, closed, operands)
    parts = in_parts(closed)
    found = one_pass(ctx, parts, [p for x in operands for p in parts_of(ctx, x)])
    return whole_values(ctx, closed.out_avals, found)


def _scan(
    ctx: LoweringContext,
    operands: Sequence[Value],
    jaxpr: ClosedJaxpr,
    length: int,
    num_consts: int,
    num_carry: int,
    *,
    reverse: bool,
) -> list[Value] | None:
    carry_end = num_consts + num_carry
    consts, carry, xs = operands[:num_consts], operands[num_consts:carry_end], operands[carry_end:]
    return _one_dispatch(
        ctx,
        "scan",
        lambda limit: vector_scan(ctx, jaxpr, consts, carry, xs, length, reverse, limit),
        lambda: memory_scan(ctx, jaxpr, consts, carry, xs, length=length, reverse=reverse),
    )


def while_in_one_dispatch(
    ctx: LoweringContext,
    operands: Sequence[Value],
    *,
    cond_jaxpr: ClosedJaxpr,
    body_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_nconsts: int,
) -> list[Value] | None:
    """A while loop as one dispatch, if it can be."""
    if not (has_complex(cond_jaxpr.jaxpr) or has_complex(body_jaxpr.jaxpr)):
        return _while(ctx, operands, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts)
    try:
        cond, body = in_parts(cond_jaxpr), in_parts(body_jaxpr)
    except NotInMemory as refused:
        explain(ctx, "while_loop", refused)
        return None
    flat = [p for x in operands for p in parts_of(ctx, x)]
    counts = [
        count_of_parts(_avals(jaxpr, n))
        for jaxpr, n in ((cond_jaxpr, cond_nconsts), (body_jaxpr, body_nconsts))
    ]
    found = _while(ctx, flat, cond, body, *counts)
    return None if found is None else whole_values(ctx, body_jaxpr.out_avals, found)


def _avals(jaxpr: ClosedJaxpr, count: int) -> Sequence[ShapedArray]:
    return jaxpr.in_avals[:count]


def _while(
    ctx: LoweringContext,
    operands: Sequence[Value],
    cond: ClosedJaxpr,
    body: ClosedJaxpr,
    cond_nconsts: int,
    body_nconsts: int,
) -> list[Value] | None:
    num_consts = cond_nconsts + body_nconsts
    parts = operands[:cond_nconsts], operands[cond_nconsts:num_consts], operands[num_consts:]
    return _one_dispatch(
        ctx,
        "while_loop",
        lambda limit: vector_while(ctx, cond, body, *parts, limit),
        lambda: memory_while(ctx, cond, body, *parts),
    )
