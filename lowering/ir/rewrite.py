"""Changes of a graph that passes are made of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from xpr.lowering.ir.graph import Block, Op, Value, walk

BARRIER = "stablehlo.optimization_barrier"


def barrier_behind(op: Op) -> Op:
    """A barrier that takes over the results of `op`, whose block is yet to get it."""
    results = op.results
    op.results = inner = [Value(v.shape, v.dtype) for v in results]
    for v in inner:
        v.owner = op
    barrier = Op(BARRIER, inner, results, source=op.source)
    barrier.block = op.block
    return barrier


def replace_uses(old: Value, new: Value) -> None:
    """Has all operations use `new` in place of `old`."""
    for op in dict.fromkeys(old.uses):
        op.operands = [new if v is old else v for v in op.operands]
    new.uses += old.uses
    old.uses = []


def remove_unused(block: Block, among: Callable[[Op], bool]) -> None:
    """Removes those operations of a block whose results nothing uses, and what only they used."""
    kept: list[Op] = []
    for op in reversed(block.ops):
        if among(op) and not any(v.uses for v in op.results):
            op.replace_operands(())
        else:
            kept.append(op)
    block.ops = kept[::-1]


def cloned(block: Block, values: dict[Value, Value] | None = None) -> Block:
    """The same operations once more; `values` stand for others around the block."""
    values = {} if values is None else values

    def new(old: Value) -> Value:
        values[old] = made = Value(old.shape, old.dtype)
        return made

    copy = Block([new(v) for v in block.arguments])
    for op in block.ops:
        operands = [values.get(v, v) for v in op.operands]
        regions = [cloned(region, values) for region in op.regions]
        results = [new(v) for v in op.results]
        copy.append(Op(op.name, operands, results, op.attributes, regions, op.source))
    return copy


def bar_results(ops: Iterable[Op]) -> None:
    """Puts the results of operations behind barriers, so that they are computed on their own."""
    blocks: dict[Block, dict[Op, Op]] = {}
    for op in ops:
        assert op.block is not None
        blocks.setdefault(op.block, {})[op] = barrier_behind(op)
    for block, barriers in blocks.items():
        block.ops = [
            o for op in block.ops for o in ((op, barriers[op]) if op in barriers else (op,))
        ]


def _barrier_before(op: Op, x: Value) -> Op:
    """A barrier for what `op` makes of `x`; the block of `op` is yet to get it."""
    barrier = Op(BARRIER, (x,), (Value(x.shape, x.dtype),), source=op.source)
    barrier.block = op.block
    return barrier


def _insert_before(barriers: Mapping[Op, Sequence[Op]]) -> None:
    """Puts operations before others, in their blocks."""
    blocks: dict[Block, None] = {}
    for op in barriers:
        assert op.block is not None
        blocks[op.block] = None
    for block in blocks:
        block.ops = [o for op in block.ops for o in (*barriers.get(op, ()), op)]


def bar_operands(places: Mapping[Op, Collection[int]]) -> None:
    """Puts the operands at these places of operations behind barriers of their own."""
    barriers: dict[Op, list[Op]] = {}
    for op, indices in places.items():
        if not indices:
            continue
        barriers[op] = []
        operands = list(op.operands)
        for i in indices:
            barrier = _barrier_before(op, operands[i])
            barriers[op].append(barrier)
            operands[i] = barrier.result
        op.replace_operands(operands)
    _insert_before(barriers)


def bar_captured(values: Mapping[Op, Iterable[Value]]) -> None:
    """Puts values around operations, which these use in their regions, behind barriers there."""
    barriers: dict[Op, list[Op]] = {}
    for op, found in values.items():
        changed = {v: _barrier_before(op, v) for v in found}
        if not changed:
            continue
        barriers[op] = list(changed.values())
        for region in op.regions:
            for inner in walk(region):
                if any(v in changed for v in inner.operands):
                    inner.replace_operands(
                        [changed[v].result if v in changed else v for v in inner.operands]
                    )
    _insert_before(barriers)
