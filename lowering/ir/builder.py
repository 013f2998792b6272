"""Appends operations to a block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.source_info import UNKNOWN, SourceInfo
from xpr.lowering.ir.graph import NO_ATTRIBUTES, Attributes, Block, Op, PlainValue, Shape, Value

Results = Sequence[tuple[Shape, np.dtype[Any]]]


class Builder:
    """Writes the operations of one block, in order; `source` is the user's line of the next one."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.source: SourceInfo = UNKNOWN

    def append(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[Value] = (),
        attributes: Attributes = NO_ATTRIBUTES,
        regions: Sequence[Block] = (),
    ) -> Op:
        """One operation with these results."""
        op = Op(name, operands, results, attributes, regions, self.source)
        block = self.block
        op.block = block
        block.ops.append(op)
        return op

    def assign(
        self,
        name: str,
        operands: Sequence[Value],
        shape: Shape,
        dtype: np.dtype[Any],
        attributes: Attributes = NO_ATTRIBUTES,
        regions: Sequence[Block] = (),
    ) -> Value:
        """One operation with one result, and returns that."""
        out = self.value(shape, dtype)
        self.append(name, operands, (out,), attributes, regions)
        return out

    def value(self, shape: Shape, dtype: np.dtype[Any]) -> Value:
        """A new value, for a result of an operation."""
        return Value(shape, dtype)

    def plain(
        self,
        name: str,
        operands: Sequence[Value],
        type_: str,
        attributes: Attributes = NO_ATTRIBUTES,
    ) -> Value:
        """One operation whose result has the MLIR type `type_`, such as `index`."""
        out = PlainValue(type_)
        self.append(name, operands, [out], attributes)
        return out

    def counted(
        self,
        bounds: Sequence[Value],
        starts: Sequence[Value],
        body: Block,
        results: Sequence[Value],
    ) -> Op:
        """`scf.for` from, to and in steps of `bounds`, carrying values that begin as `starts`.

        The block's arguments are the counter and the carried values.
        """
        return self.append("scf.for", [*bounds, *starts], results, regions=[body])
