"""Transposes of complex numbers, on GPUs that have code of their own for them.

IREE takes a transpose through the memory that a workgroup shares where the last axis moves and both
axes are multiples of 32. It asks for the width of the elements then, which complex ones do not
have, and ends the process. Here the parts are transposed. They lie behind a barrier, since IREE
would compute them in the dispatch of the transpose.
"""

from __future__ import annotations

from xpr.lowering.ir.graph import Module, Op, Value, dispatch_blocks
from xpr.lowering.ir.writer import Writer, rewrite_block
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints

_TILE = 32


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Has the parts of complex numbers transposed where the target has such code."""
    del target, hints
    for function in module.functions:
        for block in dispatch_blocks(function.body):
            if any(map(_is_tiled, block.ops)):
                writer = Writer(block)
                rewrite_block(
                    block, writer, lambda op, w=writer: _by_parts(w, op) if _is_tiled(op) else None
                )


def _is_tiled(op: Op) -> bool:
    """Whether a transpose moves the last axis of complex numbers, and one as large to its place."""
    if op.name != "stablehlo.transpose" or op.result.dtype.kind != "c":
        return False
    (x,) = op.operands
    moved = op.attributes["dims"][-1] != len(x.shape) - 1
    return moved and x.shape[-1] % _TILE == 0 and op.result.shape[-1] % _TILE == 0


def _by_parts(w: Writer, op: Op) -> Value:
    parts = (w.barrier(part) for part in w.parts(op.operands[0]))
    return w.complex(*(w.transpose(part, op.attributes["dims"]) for part in parts))


def _lacks_transposes(target: Target, hints: ProgramHints) -> bool:
    return not target.complex_transposes


GUARD = Guard(
    run=run,
    gives="transposes of parts",
    needs=needs("parts of complex numbers"),
    targets=_lacks_transposes,
    hazards=(
        Hazard(
            hazard=(
                "CUDA, ROCm: a transpose of complex numbers whose last axis moves ends the "
                "compiler's process where both axes are multiples of 32, as in `x.T` of 96 x 32"
            ),
            guard=(
                "the parts are transposed, behind a barrier "
                "(`lowering/passes/complex_transposes.py`)"
            ),
            tests="`tests/lowering/test_complex_transposes.py`",
        ),
    ),
)
