"""The values that lowering rules pass on, and what is known of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.lowering.ir import graph
from xpr.lowering.ir.constants import splat_of
from xpr.lowering.ir.graph import Block

Shape = graph.Shape

_BARRIER = "stablehlo.optimization_barrier"


class Value(graph.Value):
    """A value of the program."""

    __slots__ = ()

    def __init__(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        self.shape = shape
        self.dtype = dtype
        self.owner: graph.Op | Block | None = None
        self.uses: list[graph.Op] = []

    @property
    def aval(self) -> ShapedArray:
        return ShapedArray(self.shape, self.dtype)

    @property
    def number(self) -> int | None:
        """The value of a rank-0 integer constant."""
        if self.shape or self.dtype.kind not in "iu" or self.op is None:
            return None
        return self.op.attributes.get("number")

    @property
    def splat(self) -> float | None:
        """The real number that all elements are, where it is written in the program."""
        return splat_of(self)
