"""Updates of arrays that others read.

IREE takes what a barrier gives for an array of its own, and an update of it overwrites what went
into the barrier, whoever reads it later; a function that is inlined may hold such an update. There
the operand is copied before. Where an update is a slice of the array itself, IREE would copy from
one place of a buffer to another that overlaps it: updates get barriers.
"""

from __future__ import annotations

from xpr.lowering.ir import rewrite
from xpr.lowering.ir.graph import Block, Module, Op, Value
from xpr.lowering.ir.layouts import is_from_barrier
from xpr.lowering.ir.traits import TRAITS, Kind, dispatched
from xpr.lowering.ir.writer import copy_operands
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Copies what comes from a barrier before it is updated."""
    del target, hints
    functions = _updating(module)
    updates: dict[Op, tuple[int, ...]] = {}
    copied: dict[Op, list[int]] = {}
    for function in module.functions:
        for op in dispatched(function.body):
            if op.name == "stablehlo.dynamic_update_slice" and not _is_only_carried(op.operands[0]):
                updates[op] = (1,)
            found = [i for i in _updated(op, functions) if _is_alias(op.operands[i])]
            if found:
                copied[op] = found
    rewrite.bar_operands(updates)
    copy_operands(copied)


_UPDATES = ("stablehlo.dynamic_update_slice", "stablehlo.scatter")


def _updating(module: Module) -> set[str]:
    """The functions in which something is updated, there or in a function that they call."""
    found: set[str] = set()
    while True:
        before = len(found)
        for function in module.functions:
            if any(_updated(op, found) for op in dispatched(function.body)):
                found.add(function.name)
        if len(found) == before:
            return found


def _updated(op: Op, updating: set[str]) -> range:
    """The places of operands that may be overwritten."""
    if op.name in _UPDATES:
        return range(1)
    is_call = TRAITS[op.name].kind is Kind.CALL and op.attributes["callee"] in updating
    return range(len(op.operands) if is_call else 0)


def _is_only_carried(x: Value) -> bool:
    """Whether a loop carries it for this update alone, as results of a scan: no part is read."""
    block = x.owner
    return isinstance(block, Block) and isinstance(block.parent, Op) and len(x.uses) == 1


def _is_alias(x: Value) -> bool:
    return bool(x.shape) and 0 not in x.shape and is_from_barrier(x)
