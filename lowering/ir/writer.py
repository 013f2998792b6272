"""Writes operations into a block, in passes: plain ones, as MLIR takes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.lowering.ir.builder import Builder
from xpr.lowering.ir.constants import constant_attributes
from xpr.lowering.ir.graph import Block, Op, Shape, Value
from xpr.lowering.ir.rewrite import BARRIER, replace_uses
from xpr.lowering.ir.types import scalar_text

Operand = Value | int | float | bool

_I1 = np.dtype(np.bool_)


class Writer(Builder):
    """Appends operations on elements; numbers become constants of the first operand's type."""

    def __init__(self, block: Block) -> None:
        super().__init__(block)
        self._constants: dict[tuple[str, np.dtype[Any], Shape], Value] = {}

    def constant(self, number: float, dtype: np.dtype[Any], shape: Shape = ()) -> Value:
        """A tensor filled with one number."""
        key = scalar_text(number, dtype), dtype, shape
        found = self._constants.get(key)
        if found is None:
            attributes = constant_attributes(number, dtype, shape)
            found = self._constants[key] = self.assign(
                "stablehlo.constant", (), shape, dtype, attributes
            )
        return found

    def known_constant(self, number: float, x: Value) -> Value | None:
        """The constant that stands for `x`, one of the block's own; None if that is the first."""
        found = self._constants.setdefault((scalar_text(number, x.dtype), x.dtype, x.shape), x)
        return None if found is x else found

    def unary(self, op: str, x: Value) -> Value:
        return self.assign(f"stablehlo.{op}", (x,), x.shape, x.dtype)

    def binary(self, op: str, x: Value, y: Operand) -> Value:
        return self.assign(f"stablehlo.{op}", (x, self.like(x, y)), x.shape, x.dtype)

    def like(self, x: Value, y: Operand) -> Value:
        """`y`; a number as a constant of the type of `x`."""
        return y if isinstance(y, Value) else self.constant(y, x.dtype, x.shape)

    def add(self, x: Value, y: Operand) -> Value:
        return self.binary("add", x, y)

    def sub(self, x: Value, y: Operand) -> Value:
        return self.binary("subtract", x, y)

    def mul(self, x: Value, y: Operand) -> Value:
        return self.binary("multiply", x, y)

    def and_(self, x: Value, y: Operand) -> Value:
        return self.binary("and", x, y)

    def or_(self, x: Value, y: Operand) -> Value:
        return self.binary("or", x, y)

    def xor(self, x: Value, y: Operand) -> Value:
        return self.binary("xor", x, y)

    def compare(self, direction: str, x: Value, y: Operand) -> Value:
        """A comparison: EQ, NE, LT, LE, GT or GE."""
        kind = {"f": "FLOAT", "c": "FLOAT", "i": "SIGNED"}.get(dtypes.kind(x.dtype), "UNSIGNED")
        how = {"direction": direction, "kind": kind}
        return self.assign("stablehlo.compare", (x, self.like(x, y)), x.shape, _I1, how)

    def select(self, pred: Value, on_true: Value, on_false: Operand) -> Value:
        operands = (pred, on_true, self.like(on_true, on_false))
        return self.assign("stablehlo.select", operands, on_true.shape, on_true.dtype)

    def convert(self, x: Value, dtype: np.dtype[Any]) -> Value:
        return self.assign("stablehlo.convert", (x,), x.shape, dtype)

    def bitcast(self, x: Value, dtype: np.dtype[Any]) -> Value:
        """The same bits as another type of the same width."""
        return (
            x
            if x.dtype == dtype
            else self.assign("stablehlo.bitcast_convert", (x,), x.shape, dtype)
        )

    def reshape(self, x: Value, shape: Shape) -> Value:
        return self.assign("stablehlo.reshape", (x,), shape, x.dtype)

    def broadcast(self, x: Value, shape: Shape) -> Value:
        """One number in a shape."""
        if x.shape == shape:
            return x
        return self.assign("stablehlo.broadcast_in_dim", (x,), shape, x.dtype, {"dims": ()})

    def slice(self, x: Value, start: Shape, limit: Shape, strides: Shape | None = None) -> Value:
        """What lies from `start` up to `limit`, in steps of `strides`."""
        steps = (1,) * len(start) if strides is None else strides
        shape = tuple(-(-(b - a) // s) for a, b, s in zip(start, limit, steps, strict=True))
        bounds = {"start": start, "limit": limit, "strides": steps}
        return self.assign("stablehlo.slice", (x,), shape, x.dtype, bounds)

    def pad(self, x: Value, value: Value, low: Shape, high: Shape) -> Value:
        """`x` between edges that are filled with the rank-0 `value`."""
        shape = tuple(a + n + b for n, a, b in zip(x.shape, low, high, strict=True))
        edges = {"low": low, "high": high, "interior": (0,) * len(shape)}
        return self.assign("stablehlo.pad", (x, value), shape, x.dtype, edges)

    def barrier(self, x: Value) -> Value:
        """`x`, which the compiler computes on its own and moves nothing across."""
        return self.assign(BARRIER, (x,), x.shape, x.dtype)

    def parts(self, x: Value) -> Sequence[Value]:
        """The real and the imaginary parts of complex numbers."""
        if x.op is not None and x.op.name == "stablehlo.complex":
            return x.op.operands
        part = np.dtype(f"f{x.dtype.itemsize // 2}")
        return [self.assign(f"stablehlo.{side}", (x,), x.shape, part) for side in ("real", "imag")]

    def complex(self, re: Value, im: Value) -> Value:
        """Complex numbers of these parts."""
        dtype = np.dtype(f"c{2 * re.dtype.itemsize}")
        return self.assign("stablehlo.complex", (re, im), re.shape, dtype)

    def copied(self, x: Value) -> Value:
        """Another array with the bits of `x`: the last bit of n (n + 1) is added, which is zero."""
        if x.dtype.kind == "c":
            return self.complex(*map(self.copied, self.parts(x)))
        if x.dtype == _I1:
            return self.compare("NE", self.copied(self.convert(x, np.dtype(np.uint8))), 0)
        bits = self.bitcast(x, np.dtype(f"u{x.dtype.itemsize}"))
        zero = self.and_(self.mul(bits, self.add(bits, 1)), 1)
        return self.bitcast(self.xor(bits, zero), x.dtype)


def copy_operands(places: Mapping[Op, Collection[int]]) -> None:
    """Has operations take copies of the operands at these places."""
    blocks: dict[Block, None] = {op.block: None for op in places if op.block is not None}
    for block in blocks:
        old, block.ops = block.ops, []
        writer = Writer(block)
        for op in old:
            if op in places:
                writer.source = op.source
                operands = list(op.operands)
                for i in places[op]:
                    operands[i] = writer.copied(operands[i])
                op.replace_operands(operands)
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
