"""Parts of arrays that begin where no vector of elements does.

Of an elementwise operation on a part of an array IREE makes loads of vectors for SPIR-V, and reads
up to three elements before what was asked for (`lowering/ir/alignment.py`). Such a part is copied
on its own, between barriers: from a copy of the array, since a barrier alone is an alias to IREE,
which may update the array before the part is read.
"""

from __future__ import annotations

from xpr.lowering.ir import rewrite
from xpr.lowering.ir.alignment import is_misaligned
from xpr.lowering.ir.graph import Module, Op, Value, dispatch_blocks
from xpr.lowering.ir.layouts import is_from_barrier
from xpr.lowering.ir.writer import Writer, change_operands
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Puts copies before slices and pads that are not aligned, and barriers behind the slices."""
    del target, hints
    parts: list[Op] = []
    for function in module.functions:
        for block in dispatch_blocks(function.body):
            found = {op for op in block.ops if _is_misaligned(op)}
            if found:
                change_operands(block, found, _copy)
                parts += [op for op in block.ops if op in found and op.name != "stablehlo.pad"]
    rewrite.bar_results(parts)


def _copy(writer: Writer, op: Op) -> None:
    x, *others = op.operands
    if not is_from_barrier(x):
        op.replace_operands([writer.barrier(writer.copied(x)), *others])


def _is_misaligned(op: Op) -> bool:
    about = op.attributes
    if op.name == "stablehlo.slice":
        return all(s == 1 for s in about["strides"]) and _is_cut(op, about["start"])
    if op.name == "stablehlo.dynamic_slice":
        return _is_cut(op, [_number(v) for v in op.operands[1:]])
    if op.name != "stablehlo.pad":
        return False
    x, out = op.operands[0], op.result
    first, cut = [max(0, n) for n in about["low"]], [max(0, -n) for n in about["low"]]
    return is_misaligned(x.dtype, out.shape, x.shape, first) or is_misaligned(
        x.dtype, x.shape, out.shape, cut
    )


def _is_cut(op: Op, starts: list[int | None]) -> bool:
    x = op.operands[0]
    return is_misaligned(x.dtype, x.shape, op.result.shape, starts)


def _number(start: Value) -> int | None:
    """A start that is written in the program."""
    return None if start.op is None else start.op.attributes.get("number")


GUARD = Guard(
    run=run,
    gives="aligned slices",
    needs=needs("transposes of parts"),
    targets=lambda target, hints: not target.vectors_anywhere,
    hazards=(
        Hazard(
            hazard=(
                "Vulkan: elementwise operations on a part of an array, such as `x[:, 1:33] * 2`, "
                "read vectors of four elements from the place before where the part begins"
            ),
            guard=(
                "a copy of the array, and of the part between barriers, where it does not begin "
                "at a multiple of a vector (`lowering/passes/misaligned_slices.py`)"
            ),
            tests=(
                "`test_a_part_is_read_*`, `test_programs_of_parts` in "
                "`tests/lowering/test_alignment.py`"
            ),
        ),
    ),
)
