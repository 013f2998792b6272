"""Branches without results, which only call functions: IREE does not compile them.

Each gives its number. A barrier behind the branches keeps the numbers from being dropped again.
"""

from __future__ import annotations

import numpy as np

from xpr.lowering.ir.graph import Block, Module, Op, Value, dispatch_blocks
from xpr.lowering.ir.writer import Writer
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints

_NUMBER = np.dtype(np.int32)


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Gives a result to each choice that has none."""
    del target, hints
    for function in module.functions:
        for block in dispatch_blocks(function.body):
            for op in [op for op in block.ops if op.name == "stablehlo.case" and not op.results]:
                _give_numbers(block, op)


def _give_numbers(block: Block, op: Op) -> None:
    chosen, kept = (Value((), _NUMBER) for _ in range(2))
    chosen.owner = op
    op.results = (chosen,)
    for i, region in enumerate(op.regions):
        end = region.ops.pop()
        end.replace_operands([Writer(region).constant(i, _NUMBER)])
        region.append(end)
    barrier = Op("util.optimization_barrier", (chosen,), (kept,), source=op.source)
    block.insert_after(op, barrier)


GUARD = Guard(
    run=run,
    gives="branches with results",
    needs=needs("short loops"),
    hazards=(
        Hazard(
            hazard="branches without results, which only call functions, do not compile",
            guard=(
                "each gives its number, behind which lies a barrier "
                "(`lowering/passes/branches_without_results.py`)"
            ),
            tests=(
                "`tests/lowering/passes/test_branches_without_results.py`, "
                "`tests/transforms/test_callbacks.py`"
            ),
        ),
    ),
)
