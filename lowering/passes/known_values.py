"""What is reduced, or read at places, and may be known to the compiler as one number repeated.

IREE takes a sum, product or window of one number repeated for one of few elements. It draws such a
value into a dispatch that is written by hand, which has one workgroup. Of a gather's start that it
knows it makes a number in a map of axes, which a transpose that follows takes for an axis: now and
then that ends the process. Here such operands get barriers; those of functions, too, which may
be inlined.
"""

from __future__ import annotations

from collections.abc import Collection

from xpr.lowering.ir import rewrite
from xpr.lowering.ir.graph import Module, Op, Value, captured, dispatched
from xpr.lowering.ir.known_values import KnownValues
from xpr.lowering.ir.traits import Kind
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints

_GUARDED = frozenset({Kind.REDUCTION, Kind.CALL, Kind.INDEXED, Kind.DISPATCH})


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Puts barriers on known operands of reductions, gathers, calls and dispatches."""
    del target, hints
    known = KnownValues(module)
    places: dict[Op, list[int]] = {}
    dispatches: dict[Op, list[Value]] = {}
    for function in module.functions:
        for op in dispatched(function.body):
            if op.kind not in _GUARDED:
                continue
            found = [i for i in _guarded(op) if known.is_known(op.operands[i])]
            if found:
                places[op] = found
            elif op.kind is Kind.DISPATCH:
                dispatches[op] = [v for v in captured(op) if known.is_known(v)]
    rewrite.bar_operands(places)
    rewrite.bar_captured(dispatches)


def _guarded(op: Op) -> Collection[int]:
    """The places of the operands that are guarded."""
    kind = op.kind
    if kind is Kind.REDUCTION:
        return range(len(op.operands) // 2)
    if kind is Kind.CALL:
        return [i for i, v in enumerate(op.operands) if v.shape]
    return (1,) if op.name == "stablehlo.gather" else ()


GUARD = Guard(
    run=run,
    gives="hidden numbers",
    needs=needs("signed division"),
    hazards=(
        Hazard(
            hazard=(
                "a gather from places that the compiler knows, and a transpose of it: the process "
                "ends now and then"
            ),
            guard="known starts behind a barrier (`lowering/passes/known_values.py`)",
            tests=(
                "`test_known_starts_*`, `test_starts_known_to_the_compiler` in "
                "`tests/lowering/test_gather_hazards.py`"
            ),
        ),
        Hazard(
            hazard=(
                "a sum or product of what the compiler knows to be one number repeated counts few "
                "of the elements, also where a function, a branch or a loop gives it"
            ),
            guard="a barrier before the reduction (`lowering/passes/known_values.py`)",
            tests=(
                "`test_a_sum_of_one_number_repeated_*`, `tests/primitives/test_reduce_uniform.py`"
            ),
        ),
    ),
)
