"""Updates of what a loop or a branch gives, where that is an array from outside of it.

A branch may return an array as it was given it, and so may a loop of no rounds. IREE takes the
result for an array of its own, and updates it in place, whoever reads the other one later; a
function's argument is overwritten, too. Nor are two results apart that a branch returns one array
for. Where such an array is read elsewhere, what is updated is a copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xpr.lowering.ir.graph import Block, Function, Module, Op, Value, dispatched, walk
from xpr.lowering.ir.numbering import Numbering
from xpr.lowering.ir.rewrite import BARRIER
from xpr.lowering.ir.traits import Kind
from xpr.lowering.ir.updates import behind_moves, functions_with, is_move, is_update, updated
from xpr.lowering.ir.writer import copy_operands
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Copies what loops and branches give before it is updated."""
    del target, hints
    updating = functions_with(module, is_update)
    if not updating or not functions_with(module, lambda op: op.name in _CONTROL):
        return
    arrays = _Arrays(module)
    copied: dict[Op, list[int]] = {}
    for function in module.functions:
        for op in dispatched(function.body):
            places = [i for i in updated(op, updating) if arrays.is_read_elsewhere(op, i)]
            if places:
                copied[op] = places
    copy_operands(copied)


_WHILE, _CASE = "stablehlo.while", "stablehlo.case"
_CONTROL = (_WHILE, _CASE)


class _Origins(NamedTuple):
    """What a value may be the array of."""

    arrays: list[Value]
    through: set[Op]
    """The loops, branches and calls that hand them on."""
    is_twice: bool
    """Whether another result of one of these may be the same array."""


class _Arrays:
    """The arrays of a module, and what reads them."""

    def __init__(self, module: Module) -> None:
        self._functions = {function.name: function for function in module.functions}
        self._numbering = Numbering()
        self._found: dict[int, list[Op]] | None = None

    def is_read_elsewhere(self, update: Op, place: int) -> bool:
        """Whether something reads the array of an operand by another of its names."""
        x = update.operands[place]
        if not x.shape or 0 in x.shape:
            return False
        origins = self._origins(x)
        if not any(op.name in _CONTROL for op in origins.through):
            return False
        return origins.is_twice or any(
            self._is_read(array, update, place, origins.through) for array in origins.arrays
        )

    def _origins(self, x: Value) -> _Origins:
        start = _behind(x)
        seen, through, is_twice = {start}, set[Op](), False
        pending = [start]
        while pending:
            v = pending.pop()
            if v.op is None:
                found = list(self._given(v, through))
            elif v.op.name in _CONTROL or v.op.kind is Kind.CALL:
                through.add(v.op)
                i = list(v.op.results).index(v)
                ends = self._ends(v.op)
                found = [end[i] for end in ends]
                is_twice = is_twice or (v.op.name in _CONTROL and self._is_twice(v.op, ends, i))
            else:
                continue
            for u in map(_behind, found):
                if u not in seen:
                    seen.add(u)
                    pending.append(u)
        return _Origins([v for v in seen if v is not start], through, is_twice)

    def _ends(self, op: Op) -> list[Sequence[Value]]:
        """What the results of a loop, a branch or a call may be: lists of all of them."""
        if op.name == _CASE:
            return [region.ops[-1].operands for region in op.regions]
        if op.name == _WHILE:
            return [op.operands, op.regions[1].ops[-1].operands]
        callee = self._functions.get(op.attributes["callee"])
        return [] if callee is None else [callee.body.ops[-1].operands]

    def _given(self, x: Value, through: set[Op]) -> Iterator[Value]:
        """What an argument of a block may be, if it is one of a loop or a function gone through."""
        block = x.owner
        assert isinstance(block, Block)
        i = list(block.arguments).index(x)
        parent = block.parent
        if isinstance(parent, Op) and parent.name == _WHILE and parent in through:
            yield from (end[i] for end in self._ends(parent))
        elif isinstance(parent, Function):
            for op in through:
                if op.attributes.get("callee") == parent.name:
                    yield op.operands[i]

    def _is_twice(self, op: Op, ends: Sequence[Sequence[Value]], i: int) -> bool:
        return any(
            op.results[k].uses and self._number(end[k]) == self._number(end[i])
            for end in ends
            for k in range(len(op.results))
            if k != i
        )

    def _number(self, x: Value) -> int:
        return self._numbering.of(_behind(x))

    @property
    def _readers(self) -> dict[int, list[Op]]:
        if self._found is None:
            self._found = {}
            for function in self._functions.values():
                for op in walk(function.body):
                    for v in op.operands:
                        self._found.setdefault(self._number(v), []).append(op)
        return self._found

    def _is_read(self, x: Value, update: Op, place: int, through: set[Op]) -> bool:
        """Whether `x` is read by anything that does not come before the update."""
        block = x.owner.block if isinstance(x.owner, Op) else x.owner
        assert block is not None
        if isinstance(block.parent, Function):
            callees = {op.attributes.get("callee") for op in through}
            is_public = block.parent.visibility == "public"
            if x.op is None and not is_public and block.parent.name not in callees:
                return True
        loop = _loop_of(update.block)
        if loop is not None and not _is_inside(block, loop):
            return True  # in the next round
        number = self._number(x)
        for op in self._readers.get(number, ()):
            if op is update:
                others = [v for i, v in enumerate(op.operands) if i != place]
                if any(self._number(v) == number for v in others):
                    return True
            elif not (is_move(op) or op.name == BARRIER or self._is_within(op, through)):
                return True
        return False

    def _is_within(self, op: Op, through: set[Op]) -> bool:
        callees = {outer.attributes.get("callee") for outer in through}
        while op not in through:
            assert op.block is not None
            parent = op.block.parent
            if not isinstance(parent, Op):
                return isinstance(parent, Function) and parent.name in callees
            op = parent
        return True


def _behind(x: Value) -> Value:
    """The array that a value lies in, also behind barriers."""
    while True:
        x = behind_moves(x)
        if x.op is None or x.op.name != BARRIER:
            return x
        x = x.op.operands[list(x.op.results).index(x)]


def _loop_of(block: Block | None) -> Block | None:
    """The body of the innermost loop around a block."""
    while block is not None and isinstance(block.parent, Op):
        if block.parent.name == _WHILE:
            return block
        block = block.parent.block
    return None


def _is_inside(block: Block | None, outer: Block) -> bool:
    while block is not None and block is not outer:
        block = block.parent.block if isinstance(block.parent, Op) else None
    return block is outer


GUARD = Guard(
    run=run,
    gives="results of regions apart",
    needs=needs("updates of copies"),
    hazards=(
        Hazard(
            hazard=(
                "what a branch returns may be an array from outside of it, or two of its results "
                "one array, and so may what a loop of no rounds returns: an update overwrites it, "
                "whoever reads it later; on Vulkan the caller's argument, too"
            ),
            guard=(
                "a copy before such updates, where something reads the array by another name "
                "(`lowering/passes/region_results.py`)"
            ),
            tests="`tests/lowering/test_region_results.py`",
        ),
    ),
)
