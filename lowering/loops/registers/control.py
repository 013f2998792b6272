"""Loops inside a loop on registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core.jaxpr import ClosedJaxpr
from xpr.lowering.context import Value
from xpr.lowering.ir.graph import Block, PlainValue
from xpr.lowering.loops.registers.context import Register, VectorContext
from xpr.lowering.loops.registers.table import NotInRegisters

# An inner scan over slices is written out: registers cannot be indexed by a counter.
_MAX_WRITTEN_OUT = 256

Program = Callable[[VectorContext, ClosedJaxpr, Sequence[Value]], list[Value]]


def nested_scan(
    program: Program,
    ctx: VectorContext,
    operands: Sequence[Value],
    *,
    jaxpr: ClosedJaxpr,
    length: int,
    reverse: bool,
    num_carry: int,
    num_consts: int,
    **_: Any,
) -> list[Value]:
    """A scan on registers: a loop if nothing is sliced or stacked, else written out."""
    carry_end = num_consts + num_carry
    consts, carry, xs = (
        operands[:num_consts],
        list(operands[num_consts:carry_end]),
        operands[carry_end:],
    )
    stacks = jaxpr.out_avals[num_carry:]
    if not xs and not stacks and length > 1:
        return _counted(ctx, carry, length, lambda inner, s: program(inner, jaxpr, [*consts, *s]))
    if length == 0 or length * len(jaxpr.eqns) > _MAX_WRITTEN_OUT:
        raise NotInRegisters("an inner loop over slices")
    columns: list[list[Value]] = []
    for i in range(length - 1, -1, -1) if reverse else range(length):
        slices = [ctx.rearranged([x], _numbers(x)[i]) for x in xs]
        out = program(ctx, jaxpr, [*consts, *carry, *slices])
        carry = out[:num_carry]
        columns.append(out[num_carry:])
    if reverse:
        columns.reverse()
    ys = []
    for k, aval in enumerate(stacks):
        parts = [column[k] for column in columns]
        places = np.arange(length * math.prod(aval.shape)).reshape(length, *aval.shape)
        ys.append(ctx.rearranged(parts, places))
    return [*carry, *ys]


def _numbers(x: Value) -> np.ndarray[Any, Any]:
    return np.arange(math.prod(x.shape)).reshape(x.shape)


def _block(
    ctx: VectorContext, carry: Sequence[Value], *others: Value
) -> tuple[VectorContext, list[Value]]:
    """The inside of a loop, and the carried values there; `others` are arguments before them."""
    state: list[Value] = [Register(v.shape, v.dtype) for v in carry]
    return ctx.nested(Block([*others, *state])), state


def _counted(
    ctx: VectorContext,
    carry: Sequence[Value],
    length: int,
    step: Callable[[VectorContext, Sequence[Value]], list[Value]],
) -> list[Value]:
    bounds = ctx.index(0), ctx.index(length), ctx.index(1)
    inner, state = _block(ctx, carry, PlainValue("index"))
    inner.append("scf.yield", step(inner, state))
    results = [Register(v.shape, v.dtype) for v in carry]
    ctx.counted(bounds, carry, inner.block, results)
    return [*results]


def nested_while(
    program: Program,
    ctx: VectorContext,
    operands: Sequence[Value],
    *,
    cond_jaxpr: ClosedJaxpr,
    body_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_nconsts: int,
) -> list[Value]:
    """A while loop on registers."""
    num_consts = cond_nconsts + body_nconsts
    cond_consts, body_consts = operands[:cond_nconsts], operands[cond_nconsts:num_consts]
    carry = operands[num_consts:]
    before, state = _block(ctx, carry)
    (holds,) = program(before, cond_jaxpr, [*cond_consts, *state])
    bit = before.plain("vector.extract", (holds,), "i1")
    before.append("scf.condition", [bit, *state])
    after, inside = _block(ctx, carry)
    after.append("scf.yield", program(after, body_jaxpr, [*body_consts, *inside]))
    results = [Register(v.shape, v.dtype) for v in carry]
    ctx.append("scf.while", carry, results, regions=[before.block, after.block])
    return [*results]
