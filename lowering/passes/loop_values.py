"""What loops start with, and what their steps return twice.

IREE may not see that what uses both the start of a loop and its results comes after the loop, and
then fails to order the program: what is computed and carried gets a barrier. It may also know in
the loop an array that no round changes. Integers of rank 0 may be counters, which the host keeps,
unless they are elements of an array.

Of two results of a step that are one value MLIR makes one, and not always of their arguments,
after which IREE's conversion of the loop fails or ends the process: the second gets a barrier.
"""

from __future__ import annotations

from xpr.lowering.ir import rewrite
from xpr.lowering.ir.constants import splat_of
from xpr.lowering.ir.graph import Block, Module, Op, Value, dispatched
from xpr.lowering.ir.traits import Kind
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Puts barriers on what loops start with, and on what steps return a second time."""
    del target, hints
    places: dict[Op, list[int]] = {}
    for function in module.functions:
        for op in dispatched(function.body):
            if op.name == "stablehlo.while":
                places[op] = [i for i, v in enumerate(op.operands) if _is_computed(v)]
                end = op.regions[1].ops[-1]
                places[end] = _again(end)
    rewrite.bar_operands(places)


def _is_computed(x: Value) -> bool:
    if isinstance(x.owner, Block) or (not x.shape and splat_of(x) is not None):
        return False
    return bool(x.shape) or x.dtype.kind not in "iub" or _is_of_array(x)


def _is_of_array(x: Value) -> bool:
    """Whether a number is computed from elements of an array, and not on the host."""
    pending, seen = [x], {x}
    while pending:
        op = pending.pop().op
        if op is None or op.kind is Kind.CONTROL:
            continue
        if any(v.shape for v in op.operands):
            return True
        pending += [v for v in op.operands if v not in seen]
        seen.update(op.operands)
    return False


def _again(end: Op) -> list[int]:
    """The places of operands that have come before."""
    return [i for i, v in enumerate(end.operands) if any(v is u for u in end.operands[:i])]


GUARD = Guard(
    run=run,
    gives="distinct loop values",
    needs=needs("kept arguments"),
    hazards=(
        Hazard(
            hazard=(
                "a loop whose step returns one value twice does not compile, or ends the "
                "compiler's process"
            ),
            guard="a barrier on the second (`lowering/passes/loop_values.py`)",
            tests=(
                "`test_a_value_that_a_step_*` in `tests/lowering/test_iree_hazards.py`, "
                "`test_a_step_that_returns_a_value_twice` in `tests/lax/test_loops.py`"
            ),
        ),
        Hazard(
            hazard=(
                "a program in which what a loop starts with is used after the loop too does not "
                'compile ("circular dependency", "without cyclic dependencies")'
            ),
            guard=("a barrier on what is computed and carried (`lowering/passes/loop_values.py`)"),
            tests="`tests/lowering/test_loop_starts.py`",
        ),
    ),
)
