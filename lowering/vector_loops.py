"""Loops over small values as one dispatch: the state in registers, slices read from memory.

The loop is an `scf.for` (or `scf.while`) inside a `flow.dispatch.region`. The carried values are
vectors; sequences and stacked results stay in memory and are read and written a slice at a time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, sub_jaxprs
from xpr.lowering.context import I1, LoweringContext, Shape, Value
from xpr.lowering.single_dispatch import emit_dispatch
from xpr.lowering.vector_context import (
    NotInRegisters,
    Register,
    VectorContext,
    register_element,
    register_type,
)
from xpr.lowering.vector_nested import nested_while
from xpr.lowering.vector_rules import program

# What IREE lets a dispatch read and write.
_MAX_BINDINGS = 32

# Beyond these the plain form is as good, or compiling takes too long.
_MAX_STATE = 4096
_MAX_EQUATIONS = 400
_MEMORY_BYTE = np.dtype(np.int8)


def worthwhile(state: Sequence[ShapedArray], programs: Sequence[ClosedJaxpr]) -> bool:
    """Whether a loop's state and programs are small enough to try."""
    if sum(a.size for a in state) > _MAX_STATE:
        return False
    return sum(_equations(p.jaxpr) for p in programs) <= _MAX_EQUATIONS


def _equations(jaxpr: Jaxpr) -> int:
    return sum(1 + sum(_equations(s) for s in sub_jaxprs(e.params)) for e in jaxpr.eqns)


def _memory_type(shape: Shape, dtype: np.dtype[Any]) -> str:
    """The type of a flat array as the dispatch sees it."""
    element = "i8" if dtype == I1 else register_element(dtype)
    return f"tensor<{math.prod(shape)}x{element}>"


def _flat(ctx: LoweringContext, x: Value) -> Value:
    """`x` as a flat array of a type that registers are read from."""
    if x.dtype == I1:
        # Behind a barrier: IREE may draw the conversion into the dispatch, which it then refuses.
        x = ctx.barrier(ctx.convert(x, _MEMORY_BYTE))
        flat = ctx.reshape(x, (math.prod(x.shape),))
        return _renamed(flat, I1)
    dtype = x.dtype
    if dtypes.kind(dtype) == "u":
        x = ctx.bitcast(x, np.dtype(f"i{dtype.itemsize}"))
    flat = ctx.reshape(x, (math.prod(x.shape),))
    return _renamed(flat, dtype)


def _renamed(x: Value, dtype: np.dtype[Any]) -> Value:
    return Value(x.name, x.shape, dtype)


def _shaped(ctx: LoweringContext, name: str, shape: Shape, dtype: np.dtype[Any]) -> Value:
    """A flat result of the dispatch in its own shape and dtype."""
    stored = (
        _MEMORY_BYTE
        if dtype == I1
        else np.dtype(f"i{dtype.itemsize}")
        if dtypes.kind(dtype) == "u"
        else dtype
    )
    x = ctx.reshape(Value(name, (math.prod(shape),), stored), shape)
    if dtype == I1:
        return ctx.compare("NE", x, 0)
    return ctx.bitcast(x, dtype) if stored != dtype else x


class _Dispatch:
    """One dispatch under construction: its operands, its text and its results."""

    def __init__(self, ctx: LoweringContext) -> None:
        self.outer = ctx
        number = ctx.module.next_region()
        self.region = VectorContext(ctx.module, f"v{number}_", ctx._indent + "  ")
        self.region.source = ctx.source
        self._operands: set[str] = set()

    def operand(self, x: Value) -> Value:
        """A value of the program in memory, flat; registers are read from it."""
        register_element(x.dtype)
        # What computes it must not be drawn into the dispatch, which has one workgroup: IREE does
        # so with what it knows to be one number repeated.
        flat = _flat(self.outer, self.outer.unfolded(x))
        self._operands.add(flat.name)
        return flat

    def held(self, x: Value) -> Value:
        """A value that does not change: in registers if it is small, else in memory."""
        flat = self.operand(x)
        try:
            register_type(x.shape, x.dtype)
        except NotInRegisters:
            name = f"{flat.name}"
            self.region.memory[name] = Value(flat.name, x.shape, x.dtype)
            # Its type as a vector raises, so that nothing but slices can be taken of it.
            return Register(name, x.shape, x.dtype)
        register = self.region.read(flat, self.region.index(0), x.shape)
        self.region.memory[register.name] = Value(flat.name, x.shape, x.dtype)
        return register

    def finish(
        self, results: Sequence[str], types: Sequence[tuple[Shape, np.dtype[Any]]]
    ) -> list[Value]:
        """Closes the dispatch, whose results are flat arrays; they get their own shapes.

        NotInRegisters if it has more operands and results than a dispatch can have.
        """
        ctx = self.outer
        if len(self._operands) + len(results) > _MAX_BINDINGS:
            read = set(re.findall(r"%\w+(?:#\d+)?", "\n".join(self.region.lines)))
            if len(self._operands & read) + len(results) > _MAX_BINDINGS:
                raise NotInRegisters("many arrays")
        memory = [_memory_type(s, d) for s, d in types]
        names = emit_dispatch(ctx, self.region.lines, results, memory)
        return [
            _shaped(ctx, name, shape, dtype)
            for name, (shape, dtype) in zip(names, types, strict=True)
        ]


def vector_scan(
    ctx: LoweringContext,
    jaxpr: ClosedJaxpr,
    consts: Sequence[Value],
    carry: Sequence[Value],
    xs: Sequence[Value],
    length: int,
    reverse: bool,
) -> list[Value]:
    """A scan as one dispatch; NotInRegisters if its program does not do."""
    ys_avals = jaxpr.out_avals[len(carry) :]
    worth = [*(v.aval for v in carry), *(a for a in jaxpr.in_avals[len(consts) + len(carry) :])]
    if length == 0 or not worthwhile([*worth, *ys_avals], [jaxpr]) or not (carry or ys_avals):
        raise NotInRegisters("a large loop")
    dispatch = _Dispatch(ctx)
    region = dispatch.region
    held = [dispatch.held(c) for c in consts]
    starts = [region.read(dispatch.operand(c), region.index(0), c.shape) for c in carry]
    sources = [dispatch.operand(x) for x in xs]
    stacks = []
    for a in ys_avals:
        register_type(a.shape, a.dtype)
        name = region.fresh()
        region.emit(f"{name} = tensor.empty() : {_memory_type((length, *a.shape), a.dtype)}")
        stacks.append(name)
    low, high, one = region.index(0), region.index(length), region.index(1)
    inner = region.nested(f"{region._prefix}b")
    counter = "%" + inner._prefix + "i"
    types = [
        *(v.type for v in starts),
        *(_memory_type((length, *a.shape), a.dtype) for a in ys_avals),
    ]
    arguments = [f"%{inner._prefix}s{k}" for k in range(len(types))]
    place = counter
    if reverse:
        last = inner.index(length - 1)
        place = inner.fresh()
        inner.emit(f"{place} = arith.subi {last}, {counter} : index")
    slices = []
    for x, source in zip(xs, sources, strict=True):
        shape = x.shape[1:]
        register_type(shape, x.dtype)
        offset = inner.times_index(place, math.prod(shape))
        slices.append(inner.read(source, offset, shape))
    state = [
        Register(name, v.shape, v.dtype)
        for name, v in zip(arguments[: len(starts)], starts, strict=True)
    ]
    out = program(inner, jaxpr, [*held, *state, *slices])
    written = []
    for a, y, target in zip(ys_avals, out[len(carry) :], arguments[len(starts) :], strict=True):
        offset = inner.times_index(place, math.prod(a.shape))
        written.append(inner.write(y, target, offset, length * math.prod(a.shape)))
    yielded = [*(v.name for v in out[: len(carry)]), *written]
    loop = region.fresh()
    count = f":{len(types)}" if len(types) > 1 else ""
    pairs = ", ".join(
        f"{a} = {s}" for a, s in zip(arguments, [*(v.name for v in starts), *stacks], strict=True)
    )
    joined = ", ".join(types)
    region.emit(
        f"{loop}{count} = scf.for {counter} = {low} to {high} step {one} iter_args({pairs}) -> "
        f"({joined}) {{\n"
        + "\n".join(inner.lines)
        + f"\n{inner._indent}scf.yield {', '.join(yielded)} : {joined}\n{region._indent}}}"
    )
    names = [loop] if len(types) == 1 else [f"{loop}#{k}" for k in range(len(types))]
    carry_types = [(v.shape, v.dtype) for v in starts]
    results = _stored(region, names[: len(starts)], carry_types)
    all_types = [*carry_types, *(((length, *a.shape), a.dtype) for a in ys_avals)]
    return dispatch.finish([*results, *names[len(starts) :]], all_types)


def _stored(
    region: VectorContext, names: Sequence[str], types: Sequence[tuple[Shape, np.dtype[Any]]]
) -> list[str]:
    """Registers written to arrays of their own."""
    results = []
    for name, (shape, dtype) in zip(names, types, strict=True):
        empty = region.fresh()
        region.emit(f"{empty} = tensor.empty() : {_memory_type(shape, dtype)}")
        x = Register(name, shape, dtype)
        results.append(region.write(x, empty, region.index(0), max(1, math.prod(shape))))
    return results


def vector_while(
    ctx: LoweringContext,
    condition: ClosedJaxpr,
    body: ClosedJaxpr,
    cond_consts: Sequence[Value],
    body_consts: Sequence[Value],
    carry: Sequence[Value],
) -> list[Value]:
    """A while loop as one dispatch; NotInRegisters if its programs do not do."""
    if not carry or not worthwhile([v.aval for v in carry], [condition, body]):
        raise NotInRegisters("a large loop")
    dispatch = _Dispatch(ctx)
    region = dispatch.region
    cond_held = [dispatch.held(c) for c in cond_consts]
    body_held = [dispatch.held(c) for c in body_consts]
    starts = [region.read(dispatch.operand(c), region.index(0), c.shape) for c in carry]
    found = nested_while(
        program,
        region,
        [*cond_held, *body_held, *starts],
        cond_jaxpr=condition,
        body_jaxpr=body,
        cond_nconsts=len(cond_held),
        body_nconsts=len(body_held),
    )
    names = [v.name for v in found]
    carry_types = [(v.shape, v.dtype) for v in starts]
    return dispatch.finish(_stored(region, names, carry_types), carry_types)
