"""Single elements of the places of a scatter.

IREE computes the places of a scatter in its dispatch, and again in others that read them. Where one
of these cuts a single element out of them and computes on with it and others, as in `i[0] + i`, its
tiling never ends: the tile that takes the place of the cut is cut to one element again
(`tileConsumerAndFuseProducersUsingSCF`, called by the pass `LLVMCPUTileAndFuseProducerConsumer`).
Two updates of one array at the same places are such a program: where the last of several updates
counts, those outside of the array are sent to the place of the last one inside of it.
Such a single element gets a barrier.

Equal operations become one in the compiler, so that those of one name and type count as one here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from xpr.lowering.ir import rewrite
from xpr.lowering.ir.graph import Block, Module, Op, dispatch_blocks
from xpr.lowering.ir.traits import ON_ELEMENTS, SLICES, Kind
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints

_SCATTER = "stablehlo.scatter"
_COMPUTED = ON_ELEMENTS | {Kind.CONSTANT, Kind.CALL}


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Puts barriers behind single elements of what scatters may compute."""
    del target, hints
    blocks = [block for f in module.functions for block in dispatch_blocks(f.body)]
    if any(op.name == _SCATTER for block in blocks for op in block.ops):
        # The compiler inlines these: what they take and return may be computed around a call.
        inlined = [f.body for f in module.functions if f.visibility == "private"]
        rewrite.bar_results(_to_bar(blocks, inlined))


def _to_bar(blocks: Sequence[Block], inlined: Sequence[Block]) -> list[Op]:
    """The single elements of what scatters may compute without reading them.

    A dispatch of a scatter that reads such an element, too, finds both of them computed.
    """
    parameters = {v for block in inlined for v in block.arguments}
    singles: dict[tuple[str, str], list[Op]] = {}
    found: list[Op] = []
    for op in (op for block in blocks for op in block.ops if op.name in SLICES):
        source = op.operands[0]
        if math.prod(op.result.shape) != 1 or math.prod(source.shape) == 1:
            continue
        if source in parameters:
            found.append(op)
        elif source.op is not None and _is_computed(source.op):
            singles.setdefault((source.op.name, source.type), []).append(op)
    if not singles:
        return found
    readers: dict[tuple[str, str], list[Op]] = {name: [] for name in singles}
    for op in (op for block in blocks for op in block.ops):
        for v in op.results:
            if (name := (op.name, v.type)) in readers:
                readers[name] += v.uses
    ends = {block.ops[-1] for block in inlined}
    for name, ops in singles.items():
        users = _users(readers[name], without=_users(ops, set()))
        if any(op.name == _SCATTER or op.kind is Kind.CALL or op in ends for op in users):
            found += ops
    return found


def _is_computed(op: Op) -> bool:
    """Whether IREE may compute an operation in the dispatch of what uses it."""
    return op.kind in _COMPUTED or op.traits.may_fuse


def _users(ops: Iterable[Op], without: set[Op]) -> set[Op]:
    """Operations, and what reads their results in the same dispatch."""
    found: set[Op] = set()
    pending = list(ops)
    while pending:
        op = pending.pop()
        if op in found or op in without:
            continue
        found.add(op)
        if _is_computed(op):
            pending += [user for v in op.results for user in v.uses]
    return found


GUARD = Guard(
    run=run,
    gives="places apart from their elements",
    needs=needs("elements of one access map"),
    hazards=(
        Hazard(
            hazard=(
                "a scatter whose places are computed, and another dispatch that cuts a single "
                "element out of them and computes on with it: the tiling of that dispatch never "
                "ends, nor does the compile; two updates at the same places, `x.at[i].set(0.0), "
                "x.at[i].add(1.0)`, are such a program"
            ),
            guard=("a barrier behind the single element (`lowering/passes/single_elements.py`)"),
            tests="`tests/lowering/test_single_elements.py`",
        ),
    ),
)
