"""A loop as one dispatch on arrays in memory: its bindings, its program and its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.ir.builder import Builder
from xpr.lowering.ir.constants import splat_of
from xpr.lowering.ir.graph import Block, Executable, PlainValue
from xpr.lowering.loops.memory.affine import Place
from xpr.lowering.loops.memory.arrays import Array, Buffer, Scalar, View, actual, whole
from xpr.lowering.loops.memory.context import LoopContext, memory_element
from xpr.lowering.loops.memory.control import scan, while_
from xpr.lowering.loops.memory.elementwise import full
from xpr.lowering.loops.memory.program import Program
from xpr.lowering.loops.memory.rules import rule_for
from xpr.lowering.loops.refusal import NotInMemory
from xpr.lowering.loops.registers.table import NotInRegisters
from xpr.lowering.loops.single_dispatch import flat_memory, memory_dtype, shaped
from xpr.primitives.scan import scan_p
from xpr.primitives.while_loop import while_p

# What IREE lets a dispatch read and write.
_MAX_BINDINGS = 32
# Temporary arrays on the stack; others lie in a buffer of their own. IREE allows twice as much.
_STACK_BYTES = 16 << 10
_ALIGNMENT = 64

Rule = Callable[..., Sequence[Array]]


class _Dispatch:
    """The operands of a dispatch under construction, and the buffers that they are in it."""

    def __init__(self, ctx: LoweringContext) -> None:
        self.outer = ctx
        inner = LoopContext(ctx.module, Block())
        inner.source = ctx.source
        self.program = Program(inner, rule_for, self._table)
        self.operands: list[tuple[Value, Buffer]] = []
        self._tables: dict[int, Array] = {}

    def _table(self, values: Any) -> Array:
        """Values that the program holds."""
        array = np.asarray(values)
        if array.size == 1:
            number = Program.literal(array.reshape(())[()], array.dtype)
            return number.shaped(array.shape)
        found = self._tables.get(id(values))
        if found is None:
            found = self._tables[id(values)] = self.operand(self.outer.dense(array))
        return found

    def operand(self, x: Value) -> Array:
        """An array of the program around, which is never overwritten."""
        if 0 in x.shape:
            raise NotInMemory("an empty array")
        if x.number is not None:
            return Scalar((), x.dtype, place=Place(x.number), literal=x.number)
        splat = splat_of(x)
        if splat is not None:
            literal = Program.literal(np.asarray(splat).astype(x.dtype)[()], x.dtype)
            return full(literal, x.shape)
        memory = PlainValue(f"memref<{x.aval.size}x{memory_element(x.dtype)}>")
        buffer = Buffer(memory, x.aval.size, x.dtype, None)
        self.operands.append((x, buffer))
        return self.program.in_register(whole(buffer, x.shape, x.dtype))

    def finish(self, results: Sequence[Array], avals: Sequence[ShapedArray]) -> list[Value]:
        """Closes the dispatch; its results in the program around."""
        p, ctx = self.program, self.outer
        taken: set[Buffer] = set()
        views: list[View] = []
        for x in results:
            view = self._result(p, actual(x), taken)
            taken.add(view.buffer)
            views.append(view)
        used = [(x, b) for x, b in self.operands if b.memory.uses]
        fresh = [v.buffer for v in views]
        scratch = [b for b in p.fresh if b.memory.uses and b not in fresh]
        size = sum(map(_padded_bytes, scratch))
        on_stack = size <= _STACK_BYTES
        bindings = [*(b for _, b in used), *fresh]
        if len(bindings) + (not on_stack) > _MAX_BINDINGS:
            raise NotInMemory("many arrays")
        block = self._body(bindings, scratch, size, on_stack=on_stack)
        read_only = [True] * len(used) + [False] * len(views)
        flats = [Value((v.buffer.size,), memory_dtype(v.dtype)) for v in views]
        extra: list[Value] = []
        if not on_stack:
            extra.append(PlainValue(f"tensor<{size}xi8>"))
            read_only.append(False)
        symbol = ctx.module.symbol("loop")
        ctx.module.module.executables.append(Executable(symbol, read_only, block))
        ctx.append(
            "flow.dispatch",
            [flat_memory(ctx, x) for x, _ in used],
            [*flats, *extra],
            {"symbol": symbol},
        )
        return [shaped(ctx, x, a.shape, a.dtype) for x, a in zip(flats, avals, strict=True)]

    @staticmethod
    def _result(p: Program, x: Array, taken: set[Buffer]) -> View:
        if isinstance(x, View) and x.is_whole and x.buffer not in taken and x.buffer.writer:
            return x
        target = p.allocate(x.shape, x.dtype)
        p.store_all([(target, x)])
        return target

    def _body(
        self, bindings: Sequence[Buffer], scratch: Sequence[Buffer], size: int, *, on_stack: bool
    ) -> Block:
        """The operations of the dispatch, behind those that give its buffers."""
        written = self.program.ctx.block
        builder = Builder(Block())
        zero = builder.plain("arith.constant", (), "index", {"value": "0"})
        for i, b in enumerate(bindings):
            builder.append("hal.interface.binding.subspan", (zero,), (b.memory,), {"binding": i})
        if not on_stack:
            memory = builder.plain(
                "hal.interface.binding.subspan",
                (zero,),
                f"memref<{size}xi8>",
                {"binding": len(bindings)},
            )
            at = 0
            for b in scratch:
                offset = builder.plain("arith.constant", (), "index", {"value": str(at)})
                builder.append("memref.view", (memory, offset), (b.memory,))
                at += _padded_bytes(b)
        else:
            for b in scratch:
                builder.append("memref.alloca", (), (b.memory,))
        for op in written.ops:
            builder.block.append(op)
        builder.append("func.return", ())
        return builder.block


def _padded_bytes(buffer: Buffer) -> int:
    size = buffer.size * memory_dtype(buffer.dtype).itemsize
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _one_dispatch(
    ctx: LoweringContext,
    rule: Rule,
    primitive: Primitive,
    avals: Sequence[ShapedArray],
    operands: Sequence[Value],
    params: dict[str, Any],
) -> list[Value]:
    try:
        dispatch = _Dispatch(ctx)
        arrays = [dispatch.operand(x) for x in operands]
        results = rule(dispatch.program, primitive, avals, *arrays, **params)
        return dispatch.finish(results, avals)
    except NotInRegisters as refused:
        raise NotInMemory(str(refused)) from None


def memory_scan(
    ctx: LoweringContext,
    jaxpr: ClosedJaxpr,
    consts: Sequence[Value],
    carry: Sequence[Value],
    xs: Sequence[Value],
    **params: Any,
) -> list[Value]:
    """A scan as one dispatch on arrays in memory; NotInMemory if its program does not do."""
    avals = [*(v.aval for v in carry)]
    avals += [
        ShapedArray((params["length"], *a.shape), a.dtype) for a in jaxpr.out_avals[len(carry) :]
    ]
    params |= {"jaxpr": jaxpr, "num_consts": len(consts), "num_carry": len(carry)}
    return _one_dispatch(ctx, scan, scan_p, avals, [*consts, *carry, *xs], params)


def memory_while(
    ctx: LoweringContext,
    condition: ClosedJaxpr,
    body: ClosedJaxpr,
    cond_consts: Sequence[Value],
    body_consts: Sequence[Value],
    carry: Sequence[Value],
) -> list[Value]:
    """A while loop as one dispatch on arrays in memory; NotInMemory if its programs do not do."""
    params = {
        "cond_jaxpr": condition,
        "body_jaxpr": body,
        "cond_nconsts": len(cond_consts),
        "body_nconsts": len(body_consts),
    }
    avals = [v.aval for v in carry]
    operands = [*cond_consts, *body_consts, *carry]
    return _one_dispatch(ctx, while_, while_p, avals, operands, params)
