"""Changes of a graph that passes are made of."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from xpr.lowering.ir.graph import Block, Op, Value

BARRIER = "stablehlo.optimization_barrier"


def barrier_behind(op: Op) -> Op:
    """A barrier that takes over the results of `op`, whose block is yet to get it."""
    held = op.results
    op.results = inner = [Value(v.shape, v.dtype) for v in held]
    for v in inner:
        v.owner = op
    barrier = Op(BARRIER, inner, held, source=op.source)
    barrier.block = op.block
    return barrier


def hold(ops: Iterable[Op]) -> None:
    """Puts the results of operations behind barriers, so that they are computed on their own."""
    blocks: dict[Block, dict[Op, Op]] = {}
    for op in ops:
        assert op.block is not None
        blocks.setdefault(op.block, {})[op] = barrier_behind(op)
    for block, barriers in blocks.items():
        block.ops = [
            o for op in block.ops for o in ((op, barriers[op]) if op in barriers else (op,))
        ]


def bar_operands(places: Mapping[Op, Collection[int]]) -> None:
    """Puts the operands at these places of operations behind barriers of their own."""
    blocks: dict[Block, dict[Op, list[Op]]] = {}
    for op, indices in places.items():
        if not indices:
            continue
        assert op.block is not None
        barriers, operands = [], list(op.operands)
        for i in indices:
            v = operands[i]
            barrier = Op(BARRIER, (v,), (Value(v.shape, v.dtype),), source=op.source)
            barrier.block = op.block
            barriers.append(barrier)
            operands[i] = barrier.result
        op.replace_operands(operands)
        blocks.setdefault(op.block, {})[op] = barriers
    for block, found in blocks.items():
        block.ops = [o for op in block.ops for o in (*found.get(op, ()), op)]
