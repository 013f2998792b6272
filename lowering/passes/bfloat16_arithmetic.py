"""Arithmetic of bfloat16 rounds each result, as outside of compiled programs.

IREE computes bfloat16 in float32, rounds each result, and then removes every rounding whose
result is widened again in the same dispatch: `(a * b).astype("float32")` keeps all of float32's
digits, and `(a + b) - a` gives `b`. Here such operations widen their operands themselves, and round
by integer arithmetic (`conversions.py`), which the compiler does not see through. Each becomes one
`stablehlo.map`, so that fusion sees one operation, as before.
"""

from __future__ import annotations

import numpy as np

from xpr.lowering.ir.graph import Block, Module, Op, Value
from xpr.lowering.ir.traits import Kind
from xpr.lowering.ir.writer import Writer, rewrite_block
from xpr.lowering.numerics.bfloat16 import BFLOAT16, mapped, round_to_bfloat16
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints

_F32 = np.dtype(np.float32)
# Their results need no rounding, or they hold the operations that do.
_EXACT = frozenset(
    f"stablehlo.{name}"
    for name in "abs bitcast_convert ceil clamp convert floor map maximum minimum negate remainder "
    "round_nearest_afz round_nearest_even select sign".split()
)

_INSTRUCTIONS = frozenset(
    f"stablehlo.{name}" for name in ("add", "divide", "multiply", "sqrt", "subtract")
)


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Has arithmetic of bfloat16 compute in float32, and round."""
    del hints
    for function in module.functions:
        _run_block(function.body, target)


def _run_block(block: Block, target: Target) -> None:
    rounding = [op for op in block.ops if _rounds(op)]
    parent = block.parent
    # An accumulator lies in memory, or is better not rounded.
    accumulates = isinstance(parent, Op) and (
        parent.kind is Kind.REDUCTION or parent.name == "stablehlo.scatter"
    )
    if len(rounding) > accumulates:
        writer = Writer(block)

        def change(op: Op) -> Value | None:
            return _rewritten(writer, op, target) if _rounds(op) else None

        rewrite_block(block, writer, change)
    for op in block.ops:
        if op.regions and op.kind is not Kind.DISPATCH:
            for region in op.regions:
                _run_block(region, target)


def _rounds(op: Op) -> bool:
    """Whether an operation rounds to bfloat16."""
    if op.kind is not Kind.ELEMENTWISE or op.name in _EXACT:
        return False
    return op.results[0].dtype == BFLOAT16


def _rewritten(w: Writer, op: Op, target: Target) -> Value:
    # A processor hands a NaN on, or makes one whose lower bits are zero; GPUs have others.
    short_nans = target.host_memory and op.name in _INSTRUCTIONS

    def computed(inner: Writer, *operands: Value) -> Value:
        wide = [inner.convert(v, _F32) if v.dtype == BFLOAT16 else v for v in operands]
        result = inner.assign(op.name, wide, operands[0].shape, _F32, op.attributes)
        return round_to_bfloat16(inner, result, short_nans=short_nans)

    return mapped(w, computed, op.operands, BFLOAT16)


GUARD = Guard(
    run=run,
    gives="rounded arithmetic",
    needs=needs("opaque arithmetic"),
    hazards=(
        Hazard(
            hazard=(
                "bfloat16 is computed in float32, and each rounding whose result is widened again "
                'in the same dispatch is removed: `(a * b).astype("float32")` keeps all digits, '
                "`(a + b) - a` gives `b`, and so does a conversion from float32 and back"
            ),
            guard=(
                "such arithmetic is written in float32, one `stablehlo.map` for each operation "
                "(`lowering/passes/bfloat16_arithmetic.py`), and rounds by integer arithmetic "
                "(`lowering/numerics/bfloat16.py`)"
            ),
            tests="`tests/primitives/test_narrowing.py`",
        ),
    ),
)
