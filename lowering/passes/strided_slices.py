"""Strided slices, of which single elements are read or written.

IREE does not compile a gather from such a slice, nor its reversal or a running sum of it, when it
fuses the two: neither with strides nor where the last axis was cut to one element. Such an operand
gets a barrier, also where the slice stands in a function and the gather in another one, which the
compiler inlines. On GPUs a scatter copies its operand inside of the dispatch, where it is a slice;
strided ones, and complex numbers, end the process there: these are copied before.
"""

from __future__ import annotations

from collections.abc import Collection

from xpr.lowering.ir import rewrite
from xpr.lowering.ir.graph import Module, Op, Value, dispatched
from xpr.lowering.ir.layouts import is_running_sum, is_strided
from xpr.lowering.ir.writer import copy_operands
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints

# What changes neither the places nor the number of elements.
_SAME_PLACES = frozenset({"stablehlo.bitcast_convert", "stablehlo.complex"})


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Puts barriers on strided operands, and copies those of scatters on GPUs."""
    del hints
    barred: dict[Op, tuple[int, ...]] = {}
    copied: dict[Op, tuple[int, ...]] = {}
    known = _through_functions(module)
    for function in module.functions:
        for op in dispatched(function.body):
            if op.name == "stablehlo.scatter":
                if not target.host_memory and _is_copied_inside(op.operands[0], known):
                    copied[op] = (0,)
            elif _reads_single_elements(op) and _is_strided(op.operands[0], known):
                barred[op] = (0,)
    copy_operands(copied)
    rewrite.bar_operands(barred)


def _reads_single_elements(op: Op) -> bool:
    if op.name == "stablehlo.reduce_window":
        return is_running_sum(op)
    return op.name in ("stablehlo.gather", "stablehlo.reverse")


def _through_functions(module: Module) -> set[Value]:
    """The arguments and results of functions that are strided slices on the other side."""
    known: set[Value] = set()
    functions = {function.name: function for function in module.functions}
    calls = [
        (op, functions[op.attributes["callee"]].body)
        for function in module.functions  # each stands before those that call it
        for op in dispatched(function.body)
        if op.name == "func.call" and op.attributes["callee"] in functions
    ]
    for op, body in calls:
        pairs = zip(op.results, body.ops[-1].operands, strict=True)
        known.update(v for v, result in pairs if _is_strided(result, known))
    for op, body in reversed(calls):
        pairs = zip(op.operands, body.arguments, strict=True)
        known.update(v for operand, v in pairs if _is_strided(operand, known))
    return known


def _is_copied_inside(x: Value, known: Collection[Value]) -> bool:
    """Whether a scatter into `x` copies a slice; what a scatter gives is no slice."""
    if x.op is not None and x.op.name == "stablehlo.scatter":
        return False
    return x.dtype.kind == "c" or _is_strided(x, known)


def _is_strided(x: Value, known: Collection[Value]) -> bool:
    while x.op is not None and x.op.name in _SAME_PLACES:
        x = x.op.operands[0]
    return is_strided(x, known)


GUARD = Guard(
    run=run,
    gives="slices in memory",
    needs=needs("pads apart"),
    hazards=(
        Hazard(
            hazard=(
                "a gather, a reversal or a running sum of a strided slice, as in `x[:, :, 1][i]`, "
                'does not compile ("unrealized_conversion_cast")'
            ),
            guard=(
                "such slices lie behind a barrier where single elements of them are read "
                "(`lowering/passes/strided_slices.py`)"
            ),
            tests="`tests/lowering/test_strided_slices.py`",
        ),
        Hazard(
            hazard=(
                "GPUs: a scatter into a strided slice, or into one of complex numbers, ends the "
                "compiler's process"
            ),
            guard="into a copy (`lowering/passes/strided_slices.py`)",
            tests=(
                "`tests/lowering/test_strided_slices.py`, `test_a_scatter_into_a_slice_*` in "
                "`tests/lowering/test_gpu_targets.py`"
            ),
        ),
    ),
)
