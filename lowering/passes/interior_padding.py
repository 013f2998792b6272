"""Pads with gaps between the elements.

Of two pads in a row, one of them with gaps, StableHLO makes one without gaps. Such pads lie between
barriers.
"""

from __future__ import annotations

from xpr.lowering.ir import rewrite
from xpr.lowering.ir.graph import Module, dispatched
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Puts barriers around pads with gaps."""
    del target, hints
    pads = [
        op
        for function in module.functions
        for op in dispatched(function.body)
        if op.name == "stablehlo.pad" and any(op.attributes["interior"])
    ]
    rewrite.bar_operands({op: (0,) for op in pads})
    rewrite.bar_results(pads)


GUARD = Guard(
    run=run,
    gives="pads apart",
    needs=needs("aligned slices"),
    hazards=(
        Hazard(
            hazard="two pads in a row lose their gaps",
            guard="barriers (`lowering/passes/interior_padding.py`)",
            tests="`test_two_pads_*`",
        ),
    ),
)
