"""Gathers of one element, and of a part of an axis.

In the dispatch of a reduction IREE makes a vector without axes of one element of the two that an
operation takes, and not of the other one: the program does not compile, or the compiler's process
ends. A gather of one element gets a barrier.

Of an axis without starts a gather reads what comes first. Where that is a part of it, a transpose
of the result ends the process now and then: the part is cut before.
"""

from __future__ import annotations

import math

from xpr.lowering.ir import rewrite
from xpr.lowering.ir.attributes import GatherNumbers
from xpr.lowering.ir.graph import Module, Op, Shape, dispatch_blocks
from xpr.lowering.ir.writer import Writer, change_operands
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Puts barriers behind gathers of one element, and cuts what others read a part of."""
    del target, hints
    single: list[Op] = []
    for function in module.functions:
        for block in dispatch_blocks(function.body):
            gathers = [op for op in block.ops if op.name == "stablehlo.gather"]
            single += [op for op in gathers if math.prod(op.result.shape) == 1]
            parts = {op for op in gathers if _part(op) != op.operands[0].shape}
            if parts:
                change_operands(block, parts, _cut)
    rewrite.bar_results(single)


def _cut(writer: Writer, op: Op) -> None:
    """Has a gather take the part of its operand that it may read."""
    x, *others = op.operands
    op.replace_operands((writer.slice(x, (0,) * len(x.shape), _part(op)), *others))


def _part(op: Op) -> Shape:
    """How much of each axis a gather may read, from the axis's beginning on."""
    numbers, sizes = op.attributes["dimension_numbers"], op.attributes["slice_sizes"]
    assert isinstance(numbers, GatherNumbers)
    anywhere = {*numbers.start_index_map, *numbers.operand_batching_dims}
    shape = op.operands[0].shape
    return tuple(n if a in anywhere else sizes[a] for a, n in enumerate(shape))


GUARD = Guard(
    run=run,
    gives="plain gathers",
    needs=needs("plain scatters"),
    hazards=(
        Hazard(
            hazard=(
                "one gathered element, computed with in the dispatch of a reduction, as in "
                '`median` inside of loops: the process ends ("arith.mulf op requires the same '
                'type for all operands and results")'
            ),
            guard=("a barrier behind gathers of one element (`lowering/passes/gathers.py`)"),
            tests=(
                "`test_without_the_pass_one_element_*`, `test_one_element_*` in "
                "`tests/lowering/test_gather_hazards.py`, `test_a_median_in_a_loop` in "
                "`tests/lowering/test_fallbacks.py`"
            ),
        ),
        Hazard(
            hazard=(
                "a gather of a part of an axis along which it has no starts, and a transpose of "
                "it: the process ends now and then"
            ),
            guard="the part is cut before (`lowering/passes/gathers.py`)",
            tests=(
                "`test_without_the_pass_parts_*`, `test_starts_known_to_the_compiler` in "
                "`tests/lowering/test_gather_hazards.py`"
            ),
        ),
    ),
)
