"""Scatters, whose dispatch IREE fills with more than it gets through with.

A dispatch on a processor that computes the updates, too, keeps all of them on the stack; where they
are gathered from what is updated, the compiler's process may end. There the updates get a barrier,
and so do places that it computes, if they are many: they are kept on the stack, too.
Unsigned integers that a loop carries do not compile: they are scattered as signed ones, whose bits
are the same, and are unsigned only where two of them are combined.

Targets whose scatter cannot be into a slice have the operand copied (`strided_slices.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.lowering.ir.graph import Block, Module, Op, Value, dispatch_blocks
from xpr.lowering.ir.rewrite import replace_uses
from xpr.lowering.ir.writer import Writer, rewrite_block
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints

_SCATTER = "stablehlo.scatter"

_MOST_ON_THE_STACK = 16 << 10
"""How many bytes of computed places a dispatch may hold: IREE refuses twice as many."""


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Puts barriers behind updates, and has unsigned integers scattered as signed ones."""
    del hints
    for function in module.functions:
        for block in dispatch_blocks(function.body):
            if any(op.name == _SCATTER for op in block.ops):
                scatters = _Scatters(Writer(block), has_barriers=target.host_memory)
                rewrite_block(block, scatters.writer, scatters.rewritten)


class _Scatters:
    """The scatters of one block."""

    def __init__(self, writer: Writer, *, has_barriers: bool) -> None:
        self.writer = writer
        self._has_barriers = has_barriers

    def rewritten(self, op: Op) -> Value | None:
        """What takes the place of an operation, if it is a scatter of unsigned integers."""
        if op.name != _SCATTER:
            return None
        if self._has_barriers:
            x, places, updates = op.operands
            if places.op is not None and places.aval.nbytes > _MOST_ON_THE_STACK:
                places = self.writer.barrier(places)
            op.replace_operands((x, places, self.writer.barrier(updates)))
        return self._signed(op) if dtypes.kind(op.result.dtype) == "u" else None

    def _signed(self, op: Op) -> Value:
        """The same of signed integers."""
        w = self.writer
        x, places, updates = op.operands
        signed = np.dtype(f"i{x.dtype.itemsize}")
        operands = (w.bitcast(x, signed), places, w.bitcast(updates, signed))
        _take_signed(op.regions[0], signed)
        out = w.assign(op.name, operands, x.shape, signed, op.attributes, op.regions)
        return w.bitcast(out, x.dtype)


def _take_signed(region: Block, signed: np.dtype[Any]) -> None:
    """Has a function of two unsigned integers take their bits, and return those of its result."""
    unsigned = region.arguments
    region.arguments = [Value((), signed) for _ in unsigned]
    for v in region.arguments:
        v.owner = region
    ops, region.ops = region.ops, []
    writer = Writer(region)
    for old, bits in zip(unsigned, region.arguments, strict=True):
        replace_uses(old, writer.bitcast(bits, old.dtype))
    *body, end = ops
    region.ops += body
    end.replace_operands([writer.bitcast(v, signed) for v in end.operands])
    region.ops.append(end)


GUARD = Guard(
    run=run,
    gives="plain scatters",
    needs=needs("branches with results"),
    hazards=(
        Hazard(
            hazard=(
                "a scatter whose updates, or whose places, are computed in its dispatch: all of "
                "them lie on the stack, or, where they are gathered from what is updated, the "
                "compiler's process ends"
            ),
            guard=(
                "a barrier behind the updates, and behind more than 16 kB of places, on CPUs "
                "(`lowering/passes/scatters.py`)"
            ),
            tests=("`test_without_the_pass_updates_*` in `tests/lowering/test_scatter_hazards.py`"),
        ),
        Hazard(
            hazard=(
                "a scatter of unsigned integers into what a loop carries does not compile "
                '("failed to legalize unresolved materialization")'
            ),
            guard="as signed integers (`lowering/passes/scatters.py`)",
            tests=(
                "`test_without_the_pass_unsigned_*` in `tests/lowering/test_scatter_hazards.py`, "
                "`test_updates_of_unsigned_integers_*` in `tests/lax/test_loops.py`"
            ),
        ),
    ),
)
