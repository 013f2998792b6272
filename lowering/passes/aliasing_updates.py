"""Updates of arrays that others read.

IREE takes what a barrier gives for an array of its own, though it is the one that went in: an
update of either overwrites the other, whoever reads it later. A function that is inlined may hold
such an update, or the barrier. There the operand is copied before. So it is where an array that a
call of the host takes or gives is handed on once more, to another call or to who called the
program: IREE hands on the buffer that the first call saw, and does not count it among what reads
the array. Where an update is a slice of the array itself, IREE would copy from one place of a
buffer to another that overlaps it: updates get barriers. An array that is made of constants
alone is copied where something else uses it, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from xpr.lowering.ir import rewrite
from xpr.lowering.ir.graph import TIED, Block, Module, Op, Value, dispatched, walk
from xpr.lowering.ir.layouts import is_from_barrier
from xpr.lowering.ir.numbering import Numbering
from xpr.lowering.ir.rewrite import BARRIER
from xpr.lowering.ir.traits import ON_ELEMENTS, Kind
from xpr.lowering.ir.updates import behind_moves, calls, functions_with, is_update, updated
from xpr.lowering.ir.writer import copy_operands
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints

_CONSTANT = "stablehlo.constant"
_CONTROL = ("stablehlo.case", "stablehlo.if", "stablehlo.while")
_COMPUTED = ON_ELEMENTS | {Kind.CONSTANT, Kind.REDUCTION, Kind.CONTRACTION, Kind.SORT}


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Copies what others have under another name before it is updated."""
    del target, hints
    updating = functions_with(module, is_update)
    if not updating:
        return
    arrays = _Arrays(module, functions_with(module, _is_read_barrier))
    updates: dict[Op, tuple[int, ...]] = {}
    copied: dict[Op, list[int]] = {}
    for function in module.functions:
        numbering = Numbering()
        made_anew = _made_anew(function.body, updating, numbering)
        captured = _captured(function.body, numbering)
        for op in dispatched(function.body):
            if op.name == "stablehlo.dynamic_update_slice" and not _is_only_carried(op.operands[0]):
                updates[op] = (1,)
            places = [
                i
                for i in updated(op, updating)
                if arrays.are_aliased(op.operands[i])
                or numbering.of(behind_moves(op.operands[i])) in made_anew
                or (
                    TIED in op.attributes and numbering.of(behind_moves(op.operands[i])) in captured
                )
            ]
            if places:
                copied[op] = places
    rewrite.bar_operands(updates)
    copy_operands(copied)


def _made_anew(body: Block, updating: Collection[str], numbering: Numbering) -> set[int]:
    """The numbers of arrays made of constants alone that are updated and have other users.

    Where IREE does not compute such an array when the module is loaded, it makes it anew for each
    user and then merges those that are alike again, after it has decided which of them may be
    overwritten. Constants and arrays of one number are none of these.
    """
    is_made: dict[Value, bool] = {}
    users: Counter[int] = Counter()
    found: set[int] = set()
    for op in dispatched(body):
        operands = {behind_moves(x) for x in op.operands}
        users.update({numbering.of(x) for x in operands if _is_made_of_constants(x, is_made)})
        for x in {behind_moves(op.operands[i]) for i in updated(op, updating)}:
            if _is_made_of_constants(x, is_made) and not _is_splat(x):
                found.add(numbering.of(x))
    return {number for number in found if users[number] > 1}


def _captured(body: Block, numbering: Numbering) -> set[int]:
    """The numbers of values that branches and loops read from outside.

    IREE does not count these readers where a dispatch overwrites such an array.
    """
    own = set(body.ops)
    return {
        numbering.of(behind_moves(x))
        for op in body.ops
        if op.name in _CONTROL
        for region in op.regions
        for inner in walk(region)
        for x in inner.operands
        if x.owner is body or x.op in own
    }


def _is_made_of_constants(x: Value, known: dict[Value, bool]) -> bool:
    if x not in known:
        op = x.op
        known[x] = (
            op is not None
            and op.kind in _COMPUTED
            and all(_is_made_of_constants(operand, known) for operand in op.operands)
        )
    return known[x]


def _is_splat(x: Value) -> bool:
    """Whether it is a constant, or one number in all places."""
    assert x.op is not None
    return x.op.name == _CONSTANT or (
        x.op.name == "stablehlo.broadcast_in_dim" and not x.op.operands[0].shape
    )


def _is_only_carried(x: Value) -> bool:
    """Whether a loop carries it for this update alone, as results of a scan: no part is read."""
    block = x.owner
    return isinstance(block, Block) and isinstance(block.parent, Op) and len(x.uses) == 1


class _Arrays:
    """The arrays that barriers give and take, where what they give is read, and those of calls."""

    def __init__(self, module: Module, barring: Collection[str]) -> None:
        self._numbering = Numbering()
        self._entering: set[int] = set()
        known = {function.name for function in module.functions}

        def is_host_call(op: Op) -> bool:
            return op.kind is Kind.CALL and op.attributes["callee"] not in known

        handing = functions_with(module, is_host_call)
        called: set[int] = set()
        handed: Counter[int] = Counter()
        for function in module.functions:
            for op in dispatched(function.body):
                if _is_read_barrier(op) or calls(op, barring):
                    self._entering |= self._numbers(op.operands)
                if is_host_call(op) or calls(op, handing):
                    found = self._numbers([*op.operands, *op.results])
                    called |= found
                    handed.update(found)
                elif handing and op.kind is Kind.TERMINATOR:
                    handed.update(self._numbers(op.operands))
        self._entering |= {n for n in called if handed[n] > 1}

    def _numbers(self, values: Iterable[Value]) -> set[int]:
        return {self._numbering.of(behind_moves(v)) for v in values}

    def are_aliased(self, x: Value) -> bool:
        """Whether IREE would take `x` for an array of its own, though others read it."""
        if not x.shape or 0 in x.shape:
            return False
        return is_from_barrier(x) or not self._entering.isdisjoint(self._numbers((x,)))


def _is_read_barrier(op: Op) -> bool:
    return op.name == BARRIER and any(v.uses for v in op.results)


GUARD = Guard(
    run=run,
    gives="updates of copies",
    needs=needs("places apart from their elements", "inits of windows apart"),
    hazards=(
        Hazard(
            hazard=(
                "what a barrier gives and what went into it are one array: an update of either "
                "overwrites the other, whoever reads it later"
            ),
            guard=(
                "a copy before such updates (`lowering/passes/aliasing_updates.py`); complex "
                "arrays get no barrier of their own"
            ),
            tests=(
                "`test_h1_what_a_barrier_*`, `tests/primitives/test_updates_behind_barriers.py`"
            ),
        ),
        Hazard(
            hazard=(
                "an array made of constants alone, as `arange(n) * 2 + 1`, is made anew for each "
                "user in programs that compute it when they run (those of more than 1500 "
                "operations), and those that are alike are merged after it is decided which may "
                "be overwritten: an update of one is seen by the others"
            ),
            guard=(
                "a copy before updates of such arrays with other users "
                "(`lowering/passes/aliasing_updates.py`)"
            ),
            tests="`tests/lowering/test_made_anew.py`",
        ),
        Hazard(
            hazard=(
                "an array that a call of the host took or gave, a callback's or a sort's, is "
                "handed on under the name that the call saw, and that is no read to IREE: "
                "`v.at[i].add(1)` overwrites the `v` that is returned, or that another callback "
                "gets"
            ),
            guard=(
                "a copy before updates of what is handed on more than once "
                "(`lowering/passes/aliasing_updates.py`)"
            ),
            tests="`tests/lowering/test_host_aliases.py`",
        ),
        Hazard(
            hazard="an update that is a part of its operand reads what it has written",
            guard="a barrier on the update (`lowering/passes/aliasing_updates.py`)",
            tests="`test_an_update_with_a_part_*`",
        ),
    ),
)
