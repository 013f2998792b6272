"""Loops inside a loop on registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core.jaxpr import ClosedJaxpr
from xpr.lowering.context import Value
from xpr.lowering.vector_context import NotInRegisters, Register, VectorContext

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
    held = num_consts + num_carry
    consts, carry, xs = operands[:num_consts], list(operands[num_consts:held]), operands[held:]
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


def _block(ctx: VectorContext, carry: Sequence[Value]) -> tuple[VectorContext, list[Register]]:
    """The inside of a loop, and the carried values there."""
    inner = ctx.nested(f"{ctx._prefix}n{ctx.module.next_region()}_")
    state = [Register(f"%{inner._prefix}s{k}", v.shape, v.dtype) for k, v in enumerate(carry)]
    return inner, state


def _results(name: str, carry: Sequence[Value]) -> list[Value]:
    names = [name] if len(carry) == 1 else [f"{name}#{k}" for k in range(len(carry))]
    return [Register(n, v.shape, v.dtype) for n, v in zip(names, carry, strict=True)]


def _counted(
    ctx: VectorContext,
    carry: Sequence[Value],
    length: int,
    step: Callable[[VectorContext, Sequence[Value]], list[Value]],
) -> list[Value]:
    low, high, one = ctx.index(0), ctx.index(length), ctx.index(1)
    inner, state = _block(ctx, carry)
    out = step(inner, state)
    types = ", ".join(v.type for v in carry)
    pairs = ", ".join(f"{s.name} = {v.name}" for s, v in zip(state, carry, strict=True))
    name = ctx.fresh()
    count = f":{len(carry)}" if len(carry) > 1 else ""
    ctx.emit(
        f"{name}{count} = scf.for %{inner._prefix}i = {low} to {high} step {one} "
        f"iter_args({pairs}) -> ({types}) {{\n"
        + "\n".join(inner.lines)
        + f"\n{inner._indent}scf.yield {', '.join(v.name for v in out)} : {types}\n{ctx._indent}}}"
    )
    return _results(name, carry)


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
    held = cond_nconsts + body_nconsts
    cond_consts, body_consts = operands[:cond_nconsts], operands[cond_nconsts:held]
    carry = operands[held:]
    types = ", ".join(v.type for v in carry)
    before, state = _block(ctx, carry)
    (holds,) = program(before, cond_jaxpr, [*cond_consts, *state])
    bit = before.fresh()
    before.emit(f"{bit} = vector.extract {holds.name}[0] : i1 from {holds.type}")
    before.emit(f"scf.condition({bit}) {', '.join(s.name for s in state)} : {types}")
    after, inside = _block(ctx, carry)
    out = program(after, body_jaxpr, [*body_consts, *inside])
    after.emit(f"scf.yield {', '.join(v.name for v in out)} : {types}")
    pairs = ", ".join(f"{s.name} = {v.name}" for s, v in zip(state, carry, strict=True))
    arguments = ", ".join(f"{v.name}: {v.type}" for v in inside)
    name = ctx.fresh()
    count = f":{len(carry)}" if len(carry) > 1 else ""
    ctx.emit(
        f"{name}{count} = scf.while ({pairs}) : ({types}) -> ({types}) {{\n"
        + "\n".join(before.lines)
        + f"\n{ctx._indent}}} do {{\n{ctx._indent}^bb0({arguments}):\n"
        + "\n".join(after.lines)
        + f"\n{ctx._indent}}}"
    )
    return _results(name, carry)
