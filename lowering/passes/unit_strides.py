"""Strides along axes of which a slice takes one element.

IREE's code generator for SPIR-V does not get through with them where the array lies behind another
one in memory ("failed to legalize unresolved materialization"). They say nothing, and are left out.
"""

from __future__ import annotations

from xpr.lowering.ir.graph import Module, Op, dispatched
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Makes the strides of single elements 1, on all targets: others get the same program."""
    del target, hints
    for function in module.functions:
        for op in dispatched(function.body):
            if op.name == "stablehlo.slice" and _has_needless_stride(op):
                start, limit, strides = (op.attributes[k] for k in ("start", "limit", "strides"))
                single = [n == 1 for n in op.result.shape]
                op.attributes = {
                    "start": start,
                    "limit": tuple(
                        a + 1 if one else b for a, b, one in zip(start, limit, single, strict=True)
                    ),
                    "strides": tuple(
                        1 if one else s for s, one in zip(strides, single, strict=True)
                    ),
                }


def _has_needless_stride(op: Op) -> bool:
    strides = op.attributes["strides"]
    return any(s != 1 and n == 1 for s, n in zip(strides, op.result.shape, strict=True))


GUARD = Guard(
    run=run,
    gives="slices without idle strides",
    needs=needs("plain convolutions"),
    hazards=(
        Hazard(
            hazard=(
                'Vulkan: slices of one element with a stride do not compile ("failed to legalize '
                'unresolved materialization") where the array lies behind another one in memory'
            ),
            guard="the stride is left out (`lowering/passes/unit_strides.py`)",
            tests=(
                "`test_strides_of_single_elements_*`, `test_without_the_pass_strides_*` in "
                "`tests/lowering/test_alignment.py`"
            ),
        ),
    ),
)
