"""Windows of several reductions that begin with the same number.

IREE fills an array of the result's size with the number, and the reduction updates it in place.
Arrays of two reductions that have the same number of elements are merged. Where the array is not
filled in the dispatch of the reduction, as with the plainest flags, both reductions then update one
array, and each result holds elements of both.
"""

from __future__ import annotations

from xpr.lowering.ir import rewrite
from xpr.lowering.ir.graph import Module, Op, dispatched
from xpr.lowering.ir.numbering import Numbering
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Puts the init values of all but the first of such reductions behind barriers of their own."""
    del target, hints
    for function in module.functions:
        numbering = Numbering()
        arrays: set[tuple[int, int]] = set()
        shared: dict[Op, list[int]] = {}
        for op in dispatched(function.body):
            if op.name != "stablehlo.reduce_window":
                continue
            inits = range(len(op.results), len(op.operands))
            keys = [
                (numbering.of(op.operands[i]), result.aval.size)
                for i, result in zip(inits, op.results, strict=True)
            ]
            shared[op] = [
                i
                for i, key in zip(inits, keys, strict=True)
                if key in arrays or keys.count(key) > 1
            ]
            arrays.update(keys)
        rewrite.bar_operands(shared)
