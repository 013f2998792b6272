"""A loop as one dispatch on arrays in memory: its bindings, its program and its results."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr, Var
from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Shape, Value
from xpr.lowering.ir.builder import Builder
from xpr.lowering.ir.constants import splat_of
from xpr.lowering.ir.graph import TIED, Block, Executable, Op, PlainValue, walk
from xpr.lowering.ir.numbering import Numbering
from xpr.lowering.ir.updates import behind_moves
from xpr.lowering.loops.memory.affine import Place
from xpr.lowering.loops.memory.arrays import Array, Buffer, Scalar, View, actual, whole
from xpr.lowering.loops.memory.context import LoopContext, memory_element
from xpr.lowering.loops.memory.control import call, scan, while_
from xpr.lowering.loops.memory.elementwise import full
from xpr.lowering.loops.memory.nest import Share
from xpr.lowering.loops.memory.products import product_in_shares
from xpr.lowering.loops.memory.program import Program, empty
from xpr.lowering.loops.memory.rules import rule_for
from xpr.lowering.loops.memory.split import Split, split_of
from xpr.lowering.loops.refusal import NotInMemory
from xpr.lowering.loops.registers.table import NotInRegisters
from xpr.lowering.loops.single_dispatch import flat_memory, memory_dtype, shaped
from xpr.primitives.call import jit_p
from xpr.primitives.scan import scan_p
from xpr.primitives.while_loop import while_p

# What IREE lets a dispatch read and write.
_MAX_BINDINGS = 32
# Temporary arrays on the stack; others lie in a buffer of their own. IREE allows twice as much.
_STACK_BYTES = 16 << 10
_ALIGNMENT = 64
# Arrays of at most so many bytes may share a binding: putting them together is a copy of each.
_SMALL_BYTES = 4 << 10
# What a loop is taken for whose rounds only the running program knows.
_UNKNOWN_ROUNDS = 16

Rule = Callable[..., Sequence[Array]]


class _Dispatch:
    """The operands of a dispatch under construction, and the buffers that they are in it."""

    def __init__(
        self, ctx: LoweringContext, split: Split | None = None, shared: int | None = None
    ) -> None:
        self.outer = ctx
        self._split = split
        # The number of a workgroup, of which there are as many as parts, or as share the loops.
        self._own: Value = PlainValue("index")
        self.share = None if shared is None else Share(self._own, shared)
        # The operands that are cut in parts.
        self._cut: set[Buffer] = set()
        inner = LoopContext(ctx.module, Block())
        inner.source = ctx.source
        self.program = Program(inner, rule_for, self._table, stores_early=shared is None)
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
            return empty(x.shape, x.dtype)
        if x.number is not None:
            return Scalar((), x.dtype, place=Place(x.number), literal=x.number)
        splat = splat_of(x)
        if splat is not None:
            literal = Program.literal(np.asarray(splat).astype(x.dtype)[()], x.dtype)
            return full(literal, self._inner_shape(x.shape))
        shape = self._inner_shape(x.shape)
        size = math.prod(shape)
        memory = PlainValue(f"memref<{size}x{memory_element(x.dtype)}>")
        buffer = Buffer(memory, size, x.dtype, None)
        if shape != x.shape:
            self._cut.add(buffer)
        self.operands.append((x, buffer))
        return self.program.in_register(whole(buffer, shape, x.dtype))

    def _inner_shape(self, shape: Shape) -> Shape:
        """The shape of an array, or of its part, inside of the dispatch."""
        return (self._split.size,) if self._split and self._split.is_cut(shape) else shape

    def finish(self, results: Sequence[Array], avals: Sequence[ShapedArray]) -> list[Value]:
        """Closes the dispatch; its results in the program around, which makes the empty ones."""
        pairs = [(x, a) for x, a in zip(results, avals, strict=True) if a.size]
        found = iter(self._finish([x for x, _ in pairs], [a for _, a in pairs]) if pairs else ())
        return [next(found) if a.size else self.outer.constant(0, a.dtype, a.shape) for a in avals]

    def _finish(self, results: Sequence[Array], avals: Sequence[ShapedArray]) -> list[Value]:
        p, ctx = self.program, self.outer
        views = self._shares(results) if self.share else self._results(results, avals)
        used = [(x, b) for x, b in self.operands if b.memory.uses]
        fresh = [v.buffer for v in views]
        scratch = [b for b in p.fresh if b.memory.uses and b not in fresh]
        size = sum(map(_padded_bytes, scratch))
        on_stack = size <= _STACK_BYTES
        read, written = [[b] for _, b in used], [[b] for b in fresh]
        tied: dict[Buffer, Buffer] = {}
        if len(used) + len(fresh) + (not on_stack) > _MAX_BINDINGS:
            read, written = self._packed(read), self._packed(written)
            if len(read) + len(written) + (not on_stack) > _MAX_BINDINGS:
                raise NotInMemory("many arrays")
        else:
            tied = self._tied(used, fresh)
            read = [[tied.get(b, b)] for _, b in used]
            written = [[b] for b in fresh if b not in tied.values()]
        parts = self._split.count if self._split else self.share.count if self.share else 1
        block = self._body([*read, *written], scratch, size, on_stack=on_stack)
        in_place = set(tied.values())
        read_only = [in_place.isdisjoint(g) for g in read] + [False] * len(written)
        given = {tied.get(b, b): x for x, b in used}
        operands = [
            _flat_bits(ctx, given[group[0]])
            if len(group) == 1
            else ctx.concatenate([flat_memory(ctx, given[b]) for b in group], 0)
            for group in read
        ]
        sizes = {b: a.size for b, a in zip(fresh, avals, strict=True)}
        packs = [Value((sum(sizes[b] for b in g),), memory_dtype(g[0].dtype)) for g in written]
        extra: list[Value] = []
        if not on_stack:
            extra.append(PlainValue(f"tensor<{size * parts}xi8>"))
            read_only.append(False)
        symbol = ctx.module.symbol("loop")
        ctx.module.module.executables.append(Executable(symbol, read_only, block, parts))
        places = [i for i, is_read in enumerate(read_only[: len(read)]) if not is_read]
        changed = [Value(operands[i].shape, operands[i].dtype) for i in places]
        attributes = {"symbol": symbol, TIED: tuple(places)}
        ctx.append("flow.dispatch", operands, [*changed, *packs, *extra], attributes)
        flats: dict[Buffer, Value] = {read[i][0]: v for i, v in zip(places, changed, strict=True)}
        for group, pack in zip(written, packs, strict=True):
            at = 0
            for b in group:
                one = len(group) == 1
                flats[b] = pack if one else ctx.slice(pack, (at,), (at + b.size,), (1,))
                at += b.size
        return [shaped(ctx, flats[b], a.shape, a.dtype) for b, a in zip(fresh, avals, strict=True)]

    def _tied(
        self, used: Sequence[tuple[Value, Buffer]], fresh: Sequence[Buffer]
    ) -> dict[Buffer, Buffer]:
        """For operands that are only copied to a result, which is then updated: the result.

        They have one binding, and nothing is copied here: IREE copies an operand that is needed
        later, or that the program may not overwrite, before the dispatch. It makes one copy of
        what are two operands of one value, so these stay apart.
        """
        numbering = Numbering()
        numbers = {b: numbering.of(behind_moves(x)) for x, b in used}
        count = Counter(numbers.values())
        found: dict[Buffer, Buffer] = {}
        for result in fresh:
            operand, copying = self.program.copies.get(result, (None, ()))
            if operand not in numbers or count[numbers[operand]] > 1 or operand in found:
                continue
            if not self._cut.isdisjoint((operand, result)):
                continue
            if operand.size * memory_dtype(operand.dtype).itemsize <= _SMALL_BYTES:
                continue
            inside = {op for first in copying for op in (first, *_inside(first))}
            if set(operand.memory.uses) <= inside:
                _remove(copying, self.program.ctx.block)
                found[operand] = result
        return found

    def _packed(self, groups: Sequence[list[Buffer]]) -> list[list[Buffer]]:
        """Small buffers of a dtype put together: each of them would be a binding."""
        packs: dict[np.dtype[Any], list[Buffer]] = {}
        alone: list[list[Buffer]] = []
        for (b,) in groups:
            dtype = memory_dtype(b.dtype)
            if b in self._cut or b.size * dtype.itemsize > _SMALL_BYTES:
                alone.append([b])
            else:
                packs.setdefault(dtype, []).append(b)
        return [*packs.values(), *alone]

    def _shares(self, results: Sequence[Array]) -> list[View]:
        """The results, each stored in shares."""
        assert self.share is not None
        p = self.program
        stored = [x for x in results if isinstance(x, View) and x.buffer in p.fresh]
        if len(stored) == len(results):
            return stored
        views = [p.allocate(x.shape, x.dtype) for x in results]
        p.store_shares(views, results, self.share)
        return views

    def _results(self, results: Sequence[Array], avals: Sequence[ShapedArray]) -> list[View]:
        taken: set[Buffer] = set()
        views: list[View] = []
        for x, aval in zip(results, avals, strict=True):
            view = self._result(self.program, actual(x), taken)
            taken.add(view.buffer)
            views.append(view)
            if self._inner_shape(aval.shape) != aval.shape:
                self._cut.add(view.buffer)
        return views

    @staticmethod
    def _result(p: Program, x: Array, taken: set[Buffer]) -> View:
        if isinstance(x, View) and x.is_whole and x.buffer not in taken and x.buffer.writer:
            return x
        target = p.allocate(x.shape, x.dtype)
        p.store_all([(target, x)])
        return target

    def _body(
        self,
        bindings: Sequence[Sequence[Buffer]],
        scratch: Sequence[Buffer],
        size: int,
        *,
        on_stack: bool,
    ) -> Block:
        """The operations of the dispatch, behind those that give its buffers."""
        written = self.program.ctx.block
        builder = Builder(Block())

        def number(value: int) -> Value:
            return builder.plain("arith.constant", (), "index", {"value": str(value)})

        def bound(binding: int, count: int) -> Value:
            memory = PlainValue(f"memref<{count}xi8>")
            attributes = {"binding": binding}
            builder.append("hal.interface.binding.subspan", (zero,), (memory,), attributes)
            return memory

        zero = number(0)
        parts, own = 1, zero
        if self._split is not None or self.share is not None:
            builder.append("hal.interface.workgroup.id", (), (self._own,))
        if self._split is not None:
            parts, own = self._split.count, self._own
        for i, group in enumerate(bindings):
            if len(group) > 1:
                itemsize = memory_dtype(group[0].dtype).itemsize
                memory, at = bound(i, sum(b.size for b in group) * itemsize), 0
                for b in group:
                    builder.append("memref.view", (memory, number(at)), (b.memory,))
                    at += b.size * itemsize
                continue
            (b,) = group
            if b not in self._cut:
                attributes = {"binding": i}
                builder.append("hal.interface.binding.subspan", (zero,), (b.memory,), attributes)
                continue
            count = b.size * memory_dtype(b.dtype).itemsize
            offset = builder.plain("arith.muli", (own, number(count)), "index")
            builder.append("memref.view", (bound(i, count * parts), offset), (b.memory,))
        if not on_stack:
            memory = bound(len(bindings), size * parts)
            first = builder.plain("arith.muli", (own, number(size)), "index")
            at = 0
            for b in scratch:
                offset = builder.plain("arith.addi", (first, number(at)), "index")
                builder.append("memref.view", (memory, offset), (b.memory,))
                at += _padded_bytes(b)
        else:
            for b in scratch:
                builder.append("memref.alloca", (), (b.memory,))
        for op in written.ops:
            builder.block.append(op)
        builder.append("func.return", ())
        return builder.block


def _flat_bits(ctx: LoweringContext, x: Value) -> Value:
    """A flat array with these bits, of any type: a binding has none, and a bitcast is a copy."""
    while x.op is not None and x.op.name == "stablehlo.bitcast_convert":
        (source,) = x.op.operands
        if not _is_whole_bytes(source) or not _is_whole_bytes(x):
            break
        x = source
    return flat_memory(ctx, x)


def _is_whole_bytes(x: Value) -> bool:
    return dtypes.kind(x.dtype) in "iuf" and x.dtype not in dtypes.SMALL_INT_TYPES


def _inside(op: Op) -> Iterator[Op]:
    for region in op.regions:
        yield from walk(region)


def _remove(ops: Sequence[Op], block: Block) -> None:
    """Takes operations without results that anything else needs out of their block."""
    for op in ops:
        for each in (op, *_inside(op)):
            each.replace_operands(())
    block.ops = [op for op in block.ops if op not in ops]


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
    split: Split | None,
) -> list[Value]:
    try:
        dispatch = _Dispatch(ctx, split)
        arrays = [dispatch.operand(x) for x in operands]
        inner = avals if split is None else list(map(split.aval, avals))
        results = rule(dispatch.program, primitive, inner, *arrays, **params)
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
    stacks = bool(xs) or len(jaxpr.out_avals) > len(carry)
    split = None if stacks else split_of([jaxpr], params["length"])
    if split is not None:
        jaxpr = split.part(jaxpr)
    params |= {"jaxpr": jaxpr, "num_consts": len(consts), "num_carry": len(carry)}
    return _one_dispatch(ctx, scan, scan_p, avals, [*consts, *carry, *xs], params, split)


def memory_while(
    ctx: LoweringContext,
    condition: ClosedJaxpr,
    body: ClosedJaxpr,
    cond_consts: Sequence[Value],
    body_consts: Sequence[Value],
    carry: Sequence[Value],
) -> list[Value]:
    """A while loop as one dispatch on arrays in memory; NotInMemory if its programs do not do."""
    split = split_of([condition, body], _UNKNOWN_ROUNDS)
    if split is not None:
        condition, body = split.part(condition), split.part(body)
    params = {
        "cond_jaxpr": condition,
        "body_jaxpr": body,
        "cond_nconsts": len(cond_consts),
        "body_nconsts": len(body_consts),
    }
    avals = [v.aval for v in carry]
    operands = [*cond_consts, *body_consts, *carry]
    return _one_dispatch(ctx, while_, while_p, avals, operands, params, split)


def memory_call(
    ctx: LoweringContext, closed: ClosedJaxpr, operands: Sequence[Value]
) -> list[Value]:
    """A program as one dispatch on arrays in memory; NotInMemory if it does not do."""
    params = {"jaxpr": closed}
    return _one_dispatch(ctx, call("jaxpr"), jit_p, closed.out_avals, operands, params, None)


def shared_product(
    ctx: LoweringContext, closed: ClosedJaxpr, operands: Sequence[Value]
) -> list[Value]:
    """The product of a large matrix and a few vectors, each workgroup a part of it.

    NotInMemory if its elements do not lie along lanes.
    """
    (aval,) = closed.out_avals
    size = max(x.aval.nbytes for x in operands)
    count = max(1, min(_MOST_SHARES, size // _SHARE_BYTES))
    dispatch = _Dispatch(ctx, shared=count)
    p, share = dispatch.program, dispatch.share
    assert share is not None
    (eqn,) = closed.eqns
    known = dict(zip(closed.jaxpr.invars, map(dispatch.operand, operands), strict=True))
    x, y = (known.get(v) for v in eqn.invars if isinstance(v, Var))
    out = p.allocate(aval.shape, aval.dtype)
    if not isinstance(x, View) or not isinstance(y, View):
        raise NotInMemory("a product with one number")
    if not product_in_shares(p.ctx, x, y, out, eqn.params["dimension_numbers"][0], share):
        raise NotInMemory("a product of elements that lie apart")
    return dispatch.finish([out], [aval])


# What a workgroup stores, about, and the most workgroups of one dispatch.
_SHARE_BYTES = 64 << 10
_MOST_SHARES = 64


def one_pass(ctx: LoweringContext, closed: ClosedJaxpr, operands: Sequence[Value]) -> list[Value]:
    """A program of operations on elements, slices, pads and concatenations in one pass.

    Its results have one shape. Nothing is stored but they, so that what is read at several places
    is computed several times; workgroups share the loops. NotInMemory if that does not do.
    """
    avals = closed.out_avals
    size = sum(a.nbytes for a in avals)
    try:
        dispatch = _Dispatch(ctx, shared=max(1, min(_MOST_SHARES, size // _SHARE_BYTES)))
        arrays = [dispatch.operand(x) for x in operands]
        return dispatch.finish(dispatch.program.run(closed, arrays), avals)
    except NotInRegisters as refused:
        raise NotInMemory(str(refused)) from None
