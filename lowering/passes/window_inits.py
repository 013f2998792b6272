"""Windows of several reductions that begin with the same number.

IREE fills an array of the result's size with the number, and the reduction updates it in place.
Arrays of two reductions that have the same number of elements are merged. Where the array is not
filled in the dispatch of the reduction, as with the plainest flags, both reductions then update one
array, and each result holds elements of both. The array of a single result is the number itself,
which may be a result of the program, too: it is copied, as what a barrier gives is what went in.
"""

from __future__ import annotations

from xpr.lowering.ir import rewrite
from xpr.lowering.ir.graph import Module, Op, dispatched
from xpr.lowering.ir.numbering import Numbering
from xpr.lowering.ir.writer import copy_operands
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Puts the init values of all but the first of such reductions behind barriers of their own."""
    del target, hints
    for function in module.functions:
        numbering = Numbering()
        arrays: set[tuple[int, int]] = set()
        shared: dict[Op, list[int]] = {}
        single: dict[Op, list[int]] = {}
        for op in dispatched(function.body):
            if op.name != "stablehlo.reduce_window":
                continue
            inits = range(len(op.results), len(op.operands))
            keys = [
                (numbering.of(op.operands[i]), result.aval.size)
                for i, result in zip(inits, op.results, strict=True)
            ]
            places = list(zip(inits, keys, strict=True))
            single[op] = [i for i, (_, size) in places if size == 1]
            shared[op] = [
                i for i, key in places if key[1] != 1 and (key in arrays or keys.count(key) > 1)
            ]
            arrays.update(keys)
        rewrite.bar_operands(shared)
        copy_operands({op: places for op, places in single.items() if places})


GUARD = Guard(
    run=run,
    gives="inits of windows apart",
    needs=needs("places apart from their elements"),
    hazards=(
        Hazard(
            hazard=(
                "two reductions over windows with the same number of results, which begin with "
                "the same number: with the plainest flags both update one array, and each result "
                "holds elements of both; one with a single result updates the number itself"
            ),
            guard=(
                "the number lies behind a barrier of its own, or is copied "
                "(`lowering/passes/window_inits.py`)"
            ),
            tests="`tests/lowering/test_window_inits.py`",
        ),
    ),
)
