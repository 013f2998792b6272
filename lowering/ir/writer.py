"""Writes operations into a block, in passes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np

from xpr.lowering.ir.graph import Block, Op, Value
from xpr.lowering.ir.rewrite import replace_uses
from xpr.lowering.ir.stablehlo import I1, StablehloBuilder
from xpr.lowering.ir.types import scalar_text


class Writer(StablehloBuilder):
    """Appends operations, some of which take the place of others."""

    def known_constant(self, number: float, x: Value) -> Value | None:
        """The constant that stands for `x`, one of the block's own; None if that is the first."""
        found = self._constants.setdefault((scalar_text(number, x.dtype), x.dtype, x.shape), x)
        return None if found is x else found

    def parts(self, x: Value) -> tuple[Value, Value]:
        """The real and the imaginary parts of complex numbers."""
        if x.op is not None and x.op.name == "stablehlo.complex":
            re, im = x.op.operands
            return re, im
        return super().parts(x)

    def copied(self, x: Value) -> Value:
        """Another array with the bits of `x`: the last bit of n (n + 1) is added, which is zero.

        Of equal values the compiler would make one copy, which each of its owners updates, and of
        constants none. So each has a barrier in front, of the kind that is not merged with others.
        """
        if x.dtype.kind == "c":
            return self.complex(*map(self.copied, self.parts(x)))
        if x.dtype == I1:
            return self.compare("NE", self.copied(self.convert(x, np.dtype(np.uint8))), 0)
        # Of unsigned integers IREE refuses such a barrier.
        bits = self.bitcast(x, np.dtype(f"i{x.dtype.itemsize}"))
        bits = self.assign("util.optimization_barrier", (bits,), bits.shape, bits.dtype)
        bits = self.bitcast(bits, np.dtype(f"u{x.dtype.itemsize}"))
        zero = self.and_(self.mul(bits, self.add(bits, 1)), 1)
        return self.bitcast(self.xor(bits, zero), x.dtype)


def copy_operands(places: Mapping[Op, Collection[int]]) -> None:
    """Has operations take copies of the operands at these places."""

    def copy(writer: Writer, op: Op) -> None:
        operands = list(op.operands)
        for i in places[op]:
            operands[i] = writer.copied(operands[i])
        op.replace_operands(operands)

    for block in dict.fromkeys(op.block for op in places):
        if block is not None:
            change_operands(block, places, copy)


def change_operands(
    block: Block, ops: Collection[Op], change: Callable[[Writer, Op], None]
) -> None:
    """Has `change` write what some operations of a block are to take, in front of each."""
    old, block.ops = block.ops, []
    writer = Writer(block)
    for op in old:
        if op in ops:
            writer.source = op.source
            change(writer, op)
        block.ops.append(op)


def rewrite_block(block: Block, writer: Writer, of: Callable[[Op], Value | None]) -> None:
    """Goes through the operations of a block; `of` writes what is to stand in place of one.

    It returns the value to be used for the operation's only result, or None to leave it.
    """
    old, block.ops = block.ops, []
    for op in old:
        writer.source = op.source
        new = of(op)
        if new is None:
            block.ops.append(op)
            continue
        for v in op.operands:
            v.uses.remove(op)
        replace_uses(op.result, new)
