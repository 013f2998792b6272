"""Arguments that must not be overwritten.

IREE writes results into an argument's buffer when the argument has no later use, and the caller's
array changes. A use just before the return makes it copy instead; it costs nothing for arguments
that are only read. Donated arguments have none.
"""

from __future__ import annotations

import numpy as np

from xpr.core import dtypes
from xpr.lowering.ir.graph import Module, Op, Value
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Gives the entry function's arguments a last use."""
    del target, hints
    for function in module.functions:
        if function.visibility != "public":
            continue
        body = function.body
        end = body.ops.pop()
        for i, v in enumerate(body.arguments):
            if i in function.donated:
                continue
            kept = v
            if dtypes.kind(v.dtype) == "u":
                # The barrier is refused for unsigned types; this bit cast costs nothing.
                kept = Value(v.shape, np.dtype(f"i{v.dtype.itemsize}"))
                body.append(Op("stablehlo.bitcast_convert", (v,), (kept,)))
            out = Value(kept.shape, kept.dtype)
            body.append(Op("util.optimization_barrier", (kept,), (out,)))
        body.append(end)


GUARD = Guard(
    run=run,
    gives="kept arguments",
    needs=needs("few bindings"),
    hazards=(
        Hazard(
            hazard="an argument's buffer is overwritten by a result",
            guard=(
                "a last use of arguments that are not donated "
                "(`lowering/passes/argument_barriers.py`)"
            ),
            tests=(
                "`test_h1_*` in `tests/lowering/test_iree_hazards.py`, "
                "`tests/lowering/test_donation.py`"
            ),
        ),
    ),
)
