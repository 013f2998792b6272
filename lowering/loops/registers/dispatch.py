"""Loops over small values as one dispatch: the state in registers, slices read from memory.

The loop is an `scf.for` (or `scf.while`) inside a `flow.dispatch.region`. The carried values are
vectors; sequences and stacked results stay in memory and are read and written a slice at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, sub_jaxprs
from xpr.lowering.context import LoweringContext, Shape, Value
from xpr.lowering.ir.graph import Block, PlainValue
from xpr.lowering.loops.registers.context import (
    Limit,
    Memory,
    NotInRegisters,
    Register,
    VectorContext,
    register_type,
)
from xpr.lowering.loops.registers.control import nested_while
from xpr.lowering.loops.registers.rules import program
from xpr.lowering.loops.single_dispatch import (
    emit_dispatch,
    flat_memory,
    memory_dtype,
    memory_type,
    shaped,
)

# What IREE lets a dispatch read and write.
_MAX_BINDINGS = 32

# Beyond these the plain form is as good, or compiling takes too long.
_MAX_STATE = 4096
_MAX_EQUATIONS = 400


def worthwhile(state: Sequence[ShapedArray], programs: Sequence[ClosedJaxpr]) -> bool:
    """Whether a loop's state and programs are small enough to try."""
    if sum(a.size for a in state) > _MAX_STATE:
        return False
    return sum(_equations(p.jaxpr) for p in programs) <= _MAX_EQUATIONS


def _equations(jaxpr: Jaxpr) -> int:
    return sum(1 + sum(_equations(s) for s in sub_jaxprs(e.params)) for e in jaxpr.eqns)


class _Dispatch:
    """One dispatch under construction: its operands, its operations and its results.

    Nothing is written to the program around it before it is finished.
    """

    def __init__(self, ctx: LoweringContext, limit: Limit) -> None:
        self.outer = ctx
        self.region = VectorContext(ctx.module, Block(), limit)
        self.region.source = ctx.source
        # What the operands are called inside.
        self._operands: list[tuple[Value, PlainValue]] = []

    def operand(self, x: Value) -> Memory:
        """A value of the program in memory; registers are read from it."""
        inside = PlainValue(memory_type(x.shape, x.dtype))
        self._operands.append((x, inside))
        return Memory(inside, x.shape, x.dtype)

    def loop_invariant(self, x: Value) -> Value:
        """A value that does not change: in registers if it is small, else in memory."""
        memory = self.operand(x)
        try:
            register_type(x.shape, x.dtype)
        except NotInRegisters:
            # No operation has made it, so that nothing but slices can be taken of it.
            register = Register(x.shape, x.dtype)
        else:
            register = self.region.read(memory, self.region.index(0), x.shape)
        self.region.memory[register] = memory
        return register

    def stored(self, values: Sequence[Value]) -> list[Value]:
        """Registers written to arrays of their own."""
        region, results = self.region, []
        for x in values:
            empty = region.plain("tensor.empty", (), memory_type(x.shape, x.dtype))
            results.append(region.write(x, empty, region.index(0)))
        return results

    def finish(
        self, results: Sequence[Value], types: Sequence[tuple[Shape, np.dtype[Any]]]
    ) -> list[Value]:
        """Closes the dispatch, whose results are flat arrays; they get their own shapes.

        NotInRegisters if it has more operands and results than a dispatch can have.
        """
        ctx = self.outer
        read = [(x, inside) for x, inside in self._operands if inside.uses]
        if len(read) + len(results) > _MAX_BINDINGS:
            raise NotInRegisters("many arrays")
        for x, inside in read:
            flat = flat_memory(ctx, x)
            for op in tuple(inside.uses):
                op.replace_operands([flat if v is inside else v for v in op.operands])
        flats = emit_dispatch(
            ctx, self.region, results, [((math.prod(s),), memory_dtype(d)) for s, d in types]
        )
        return [
            shaped(ctx, x, shape, dtype) for x, (shape, dtype) in zip(flats, types, strict=True)
        ]


def vector_scan(
    ctx: LoweringContext,
    jaxpr: ClosedJaxpr,
    consts: Sequence[Value],
    carry: Sequence[Value],
    xs: Sequence[Value],
    length: int,
    reverse: bool,
    limit: Limit,
) -> list[Value]:
    """A scan as one dispatch; NotInRegisters if its program does not do."""
    ys_avals = jaxpr.out_avals[len(carry) :]
    worth = [*(v.aval for v in carry), *(a for a in jaxpr.in_avals[len(consts) + len(carry) :])]
    if length == 0 or not worthwhile([*worth, *ys_avals], [jaxpr]) or not (carry or ys_avals):
        raise NotInRegisters("a large loop")
    dispatch = _Dispatch(ctx, limit)
    region = dispatch.region
    invariants = [dispatch.loop_invariant(c) for c in consts]
    starts = [region.read(dispatch.operand(c), region.index(0), c.shape) for c in carry]
    sources = [dispatch.operand(x) for x in xs]
    stacks = []
    for a in ys_avals:
        register_type(a.shape, a.dtype)
        stacks.append(region.plain("tensor.empty", (), memory_type((length, *a.shape), a.dtype)))
    bounds = region.index(0), region.index(length), region.index(1)
    counter = PlainValue("index")
    state = [Register(v.shape, v.dtype) for v in starts]
    targets = [PlainValue(v.type) for v in stacks]
    inner = region.nested(Block([counter, *state, *targets]))
    place: Value = counter
    if reverse:
        place = inner.plain("arith.subi", (inner.index(length - 1), counter), "index")
    slices = []
    for x, source in zip(xs, sources, strict=True):
        shape = x.shape[1:]
        register_type(shape, x.dtype)
        offset = inner.times_index(place, math.prod(shape))
        slices.append(inner.read(source, offset, shape))
    out = program(inner, jaxpr, [*invariants, *state, *slices])
    if any(map(_is_constant, out)):
        raise NotInRegisters("a result that is the same in each round")
    written = []
    for a, y, target in zip(ys_avals, out[len(carry) :], targets, strict=True):
        offset = inner.times_index(place, math.prod(a.shape))
        written.append(inner.write(y, target, offset))
    inner.append("scf.yield", [*out[: len(carry)], *written])
    final = [Register(v.shape, v.dtype) for v in starts]
    stacked = [PlainValue(v.type) for v in stacks]
    region.counted(bounds, [*starts, *stacks], inner.block, [*final, *stacked])
    all_types = [(v.shape, v.dtype) for v in starts]
    all_types += [((length, *a.shape), a.dtype) for a in ys_avals]
    return dispatch.finish([*dispatch.stored(final), *stacked], all_types)


def _is_constant(x: Value) -> bool:
    """Whether a value is computed from constants alone.

    IREE stores two such results of one type in one place when only parts of them are read.
    """
    x = x.root if isinstance(x, Register) else x
    return x.op is not None and not x.op.regions and all(map(_is_constant, x.op.operands))


def vector_while(
    ctx: LoweringContext,
    condition: ClosedJaxpr,
    body: ClosedJaxpr,
    cond_consts: Sequence[Value],
    body_consts: Sequence[Value],
    carry: Sequence[Value],
    limit: Limit,
) -> list[Value]:
    """A while loop as one dispatch; NotInRegisters if its programs do not do."""
    if not carry or not worthwhile([v.aval for v in carry], [condition, body]):
        raise NotInRegisters("a large loop")
    dispatch = _Dispatch(ctx, limit)
    region = dispatch.region
    cond_invariants = [dispatch.loop_invariant(c) for c in cond_consts]
    body_invariants = [dispatch.loop_invariant(c) for c in body_consts]
    starts = [region.read(dispatch.operand(c), region.index(0), c.shape) for c in carry]
    found = nested_while(
        program,
        region,
        [*cond_invariants, *body_invariants, *starts],
        cond_jaxpr=condition,
        body_jaxpr=body,
        cond_nconsts=len(cond_invariants),
        body_nconsts=len(body_invariants),
    )
    return dispatch.finish(dispatch.stored(found), [(v.shape, v.dtype) for v in starts])
