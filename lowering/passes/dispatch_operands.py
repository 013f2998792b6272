"""Bytes made of booleans, which a dispatch that is written by hand reads.

IREE draws the conversion into the dispatch, and then refuses it ("restricted to workgroup
distributed contexts"). It gets a barrier.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xpr.lowering.ir import rewrite
from xpr.lowering.ir.graph import Module, Op, Value, captured, dispatched
from xpr.lowering.ir.traits import Kind
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints

_I1 = np.dtype(np.bool_)


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Puts barriers behind conversions of booleans that such dispatches read."""
    del target, hints
    rewrite.bar_results(
        dict.fromkeys(
            op
            for function in module.functions
            for dispatch in dispatched(function.body)
            for x in _read(dispatch)
            if (op := _conversion(x)) is not None
        )
    )


def _read(op: Op) -> Sequence[Value]:
    if op.kind is Kind.DISPATCH:
        return captured(op)
    return op.operands if op.kind is Kind.EXECUTABLE else ()


def _conversion(x: Value) -> Op | None:
    """The conversion of booleans whose results these are, perhaps in another shape."""
    while (op := x.op) is not None and op.name == "stablehlo.reshape":
        x = op.operands[0]
    if op is None or op.name != "stablehlo.convert" or op.operands[0].dtype != _I1:
        return None
    return op


GUARD = Guard(
    run=run,
    gives="operands of kernels",
    needs=needs("plain gathers"),
    hazards=(
        Hazard(
            hazard=(
                "IREE draws the conversion of booleans to bytes into a dispatch that is written "
                'by hand, and refuses it ("restricted to workgroup distributed contexts")'
            ),
            guard=("a barrier behind the conversion (`lowering/passes/dispatch_operands.py`)"),
            tests=(
                "`tests/lowering/passes/test_dispatch_operands.py`, "
                "`test_a_small_loop_over_booleans_*` in `tests/lax/test_loops.py`"
            ),
        ),
    ),
)
