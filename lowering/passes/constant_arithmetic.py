"""Arithmetic of numbers that are written in the program, as the `1 / n` in the gradient of a mean.

IREE computes such a number when the module is loaded, and keeps it in a global. Programs with
globals take a longer way through the compiler: a training step of an MLP compiled in 1.3 times the
time.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from xpr.lowering.ir.constants import LITERAL, constant_attributes, source_of
from xpr.lowering.ir.graph import Block, Module, Op, dispatched
from xpr.lowering.passes.guard import Guard, Hazard
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints

_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "stablehlo.add": operator.add,
    "stablehlo.subtract": operator.sub,
    "stablehlo.multiply": operator.mul,
    "stablehlo.divide": operator.truediv,
    "stablehlo.negate": operator.neg,
}
_DTYPES = frozenset({np.dtype(np.float32), np.dtype(np.float64)})


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Computes what is made of numbers alone, in its own precision; what is not finite stays."""
    del target, hints
    blocks: dict[Block, dict[Op, Op]] = {}
    for function in module.functions:
        for op in dispatched(function.body):
            if op.name in _ARITHMETIC and op.results[0].dtype in _DTYPES:
                made = _computed(op)
                if made is not None and op.block is not None:
                    made.block = op.block
                    blocks.setdefault(op.block, {})[op] = made
    for block, changed in blocks.items():
        block.ops = [changed.get(op, op) for op in block.ops]


def _computed(op: Op) -> Op | None:
    """The constant that takes the place of an operation, whose result is its own from then on."""
    dtype = op.result.dtype
    sources = [source for x in op.operands if (source := source_of(x)) is not None]
    is_number = ["number" in s.attributes and s.result.dtype == dtype for s in sources]
    if len(sources) < len(op.operands) or not all(is_number):
        return None
    numbers = [dtype.type(source.attributes["number"]) for source in sources]
    with np.errstate(all="ignore"):
        number = _ARITHMETIC[op.name](*numbers)
    if not math.isfinite(number):
        return None
    attributes = constant_attributes(number, dtype, op.result.shape)
    if any(source.attributes.get(LITERAL) for source in sources):
        attributes[LITERAL] = True
    op.replace_operands(())
    return Op("stablehlo.constant", (), op.results, attributes, source=op.source)


GUARD = Guard(
    run=run,
    gives="folded numbers",
    targets=lambda target, hints: target.folds_numbers,
    hazards=(
        Hazard(
            hazard=(
                "numbers made of numbers, as the `1 / n` in the gradient of a mean, become a "
                "global that is computed when the module is loaded, and programs with globals "
                "take 1.3 times as long to compile"
            ),
            guard=(
                "they are computed when the program is lowered "
                "(`lowering/passes/constant_arithmetic.py`)"
            ),
            tests="`tests/lowering/passes/test_constant_arithmetic.py`",
        ),
    ),
)
