"""Updates of arrays that others read.

IREE takes what a barrier gives for an array of its own, though it is the one that went in: an
update of either overwrites the other, whoever reads it later. A function that is inlined may hold
such an update, or the barrier. There the operand is copied before. Where an update is a slice of
the array itself, IREE would copy from one place of a buffer to another that overlaps it: updates
get barriers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

from xpr.lowering.ir import rewrite
from xpr.lowering.ir.graph import Block, Module, Op, Value
from xpr.lowering.ir.layouts import is_from_barrier
from xpr.lowering.ir.numbering import Numbering
from xpr.lowering.ir.rewrite import BARRIER
from xpr.lowering.ir.traits import TRAITS, Kind, dispatched
from xpr.lowering.ir.writer import copy_operands
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Copies what comes from a barrier, or goes into one, before it is updated."""
    del target, hints
    updating = _holding(module, lambda op: op.name in _UPDATES)
    if not updating:
        return
    arrays = _Arrays(module, _holding(module, _is_read_barrier))
    updates: dict[Op, tuple[int, ...]] = {}
    copied: dict[Op, list[int]] = {}
    for function in module.functions:
        for op in dispatched(function.body):
            if op.name == "stablehlo.dynamic_update_slice" and not _is_only_carried(op.operands[0]):
                updates[op] = (1,)
            places = [i for i in _updated(op, updating) if arrays.are_barred(op.operands[i])]
            if places:
                copied[op] = places
    rewrite.bar_operands(updates)
    copy_operands(copied)


_UPDATES = ("stablehlo.dynamic_update_slice", "stablehlo.scatter")


def _holding(module: Module, holds: Callable[[Op], bool]) -> set[str]:
    """The functions with an operation of that kind, there or in a function that they call."""
    found: set[str] = set()
    while True:
        before = len(found)
        for function in module.functions:
            if any(holds(op) or _calls(op, found) for op in dispatched(function.body)):
                found.add(function.name)
        if len(found) == before:
            return found


def _calls(op: Op, functions: Collection[str]) -> bool:
    return TRAITS[op.name].kind is Kind.CALL and op.attributes["callee"] in functions


def _updated(op: Op, updating: Collection[str]) -> range:
    """The places of operands that may be overwritten."""
    if op.name in _UPDATES:
        return range(1)
    return range(len(op.operands) if _calls(op, updating) else 0)


def _is_only_carried(x: Value) -> bool:
    """Whether a loop carries it for this update alone, as results of a scan: no part is read."""
    block = x.owner
    return isinstance(block, Block) and isinstance(block.parent, Op) and len(x.uses) == 1


class _Arrays:
    """The arrays that barriers give and take, where what they give is read."""

    def __init__(self, module: Module, barring: Collection[str]) -> None:
        self._numbering = Numbering()
        self._entering = {
            self._numbering.of(_behind_moves(v))
            for function in module.functions
            for op in dispatched(function.body)
            if _is_read_barrier(op) or _calls(op, barring)
            for v in op.operands
        }

    def are_barred(self, x: Value) -> bool:
        """Whether IREE would take `x` for an array of its own, though others read it."""
        if not x.shape or 0 in x.shape:
            return False
        return is_from_barrier(x) or self._numbering.of(_behind_moves(x)) in self._entering


def _is_read_barrier(op: Op) -> bool:
    return op.name == BARRIER and any(v.uses for v in op.results)


_MOVES = frozenset({Kind.LAYOUT, Kind.MOVEMENT, Kind.INDEXED})


def _behind_moves(x: Value) -> Value:
    """The array whose elements these may be, as they lie in memory."""
    while (op := x.op) is not None:
        is_move = op.name == "stablehlo.bitcast_convert" or TRAITS[op.name].kind in _MOVES
        source = op.operands[0] if op.operands else x
        if not is_move or op.name in _UPDATES or math.prod(source.shape) != math.prod(x.shape):
            break
        x = source
    return x
