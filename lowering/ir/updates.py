"""Operations that overwrite an operand, and the array that a value lies in."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

from xpr.lowering.ir.graph import TIED, Module, Op, Value, dispatched
from xpr.lowering.ir.traits import MOVES, Kind

_UPDATES = ("stablehlo.dynamic_update_slice", "stablehlo.scatter")


def is_update(op: Op) -> bool:
    """Whether it may overwrite an operand, by itself."""
    return op.name in _UPDATES or bool(op.attributes.get(TIED))


def functions_with(module: Module, matches: Callable[[Op], bool]) -> set[str]:
    """The functions with an operation of that kind, there or in a function that they call."""
    found = {f.name for f in module.functions if any(map(matches, dispatched(f.body)))}
    before = 0
    while len(found) > before:
        before = len(found)
        for function in module.functions:
            if function.name not in found and any(
                calls(op, found) for op in dispatched(function.body)
            ):
                found.add(function.name)
    return found


def calls(op: Op, functions: Collection[str]) -> bool:
    """Whether it is a call of one of the functions."""
    return op.kind is Kind.CALL and op.attributes["callee"] in functions


def updated(op: Op, updating: Collection[str]) -> Sequence[int]:
    """The places of operands that may be overwritten; `updating` are functions that do."""
    if op.name in _UPDATES:
        return range(1)
    if TIED in op.attributes:
        return op.attributes[TIED]
    return range(len(op.operands) if calls(op, updating) else 0)


def is_move(op: Op) -> bool:
    """Whether the elements of the result may be those of the operand, as they lie in memory."""
    kind = op.kind
    if is_update(op) or not op.operands or not (op.name == _BITCAST or kind in _KEEPING):
        return False
    return math.prod(op.operands[0].shape) == math.prod(op.results[0].shape)


_BITCAST = "stablehlo.bitcast_convert"
_KEEPING = MOVES | {Kind.INDEXED}


def behind_moves(x: Value) -> Value:
    """The array whose elements these may be, as they lie in memory."""
    while (op := x.op) is not None and is_move(op):
        x = op.operands[0]
    return x
