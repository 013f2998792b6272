"""The values that lowering rules pass on, and what is known of them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.lowering.folding import NO_ROOTS, SOLID, Roots
from xpr.lowering.ir import graph
from xpr.lowering.ir.constants import splat_of
from xpr.lowering.ir.graph import Block

Shape = graph.Shape

_BARRIER = "stablehlo.optimization_barrier"


def bits_of(dtype: np.dtype[Any]) -> int:
    """The width of an element to the compiler, to which a boolean is one bit."""
    return 1 if dtype == np.bool_ else 8 * dtype.itemsize


def _only_reshapes(op: graph.Op) -> bool:
    if op.name != "stablehlo.broadcast_in_dim":
        return op.name == "stablehlo.reshape"
    dims = list(op.attributes["dims"])
    same_size = math.prod(op.results[0].shape) == math.prod(op.operands[0].shape)
    return same_size and dims == sorted(dims)


class Origin(NamedTuple):
    """What a value may be computed from where it is read (see the attributes of `Value`)."""

    narrowest: int
    source_width: int
    mixed: bool
    spread: bool


class Value(graph.Value):
    """A value of the program, and the marks that guards against hazards go by."""

    __slots__ = (
        "barred",
        "fold",
        "mixed",
        "narrowest",
        "roots",
        "source_width",
        "spread",
        "strided",
        "turned",
        "widened",
    )

    def __init__(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        self.shape = shape
        self.dtype = dtype
        self.owner: graph.Op | Block | None = None
        self.uses: list[graph.Op] = []
        # Whether it comes straight from a barrier (see `copies.py`).
        self.barred = False
        # Whether the elements come straight from a conversion to a wider type (see `one_element`).
        self.widened = False
        # Whether they come straight from a slice with strides (see `settled`).
        self.strided = False
        # Whether its axes may lie in another order than in memory.
        self.turned = False
        # The least width, in bits, of the elements that it was computed from, element by element.
        self.narrowest = bits_of(dtype)
        # Whether it is spread over axes that what it was computed from does not have.
        self.spread = False
        # The width of what it was computed from place by place (what is spread does not count), and
        # whether there are several such values (see `written`).
        self.source_width = self.narrowest
        self.mixed = False
        # Whether the compiler may know the elements to be one number (see `folding.py`).
        self.fold = SOLID
        self.roots: Roots = NO_ROOTS

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

    @property
    def parts(self) -> tuple[Value, Value] | None:
        """The real and imaginary parts that complex numbers were made of."""
        op = self.op
        if op is None or op.name != "stablehlo.complex":
            return None
        re, im = op.operands
        assert isinstance(re, Value)
        assert isinstance(im, Value)
        return re, im

    @property
    def unshaped(self) -> Value | None:
        """The value whose elements these are, in another shape."""
        x: graph.Value = self
        while (op := x.op) is not None and _only_reshapes(op):
            x = op.operands[0]
        return x if x is not self and isinstance(x, Value) else None

    @property
    def origin(self) -> Origin:
        return Origin(self.narrowest, self.source_width, self.is_light, self.spread)

    def take_origin(self, origin: Origin) -> None:
        """Takes over what an argument or a result of a function that may be inlined comes from."""
        self.narrowest, self.source_width, self.mixed, self.spread = origin

    def take_layout(self, x: Value) -> None:
        """Takes over how the elements of `x`, which are this one's, lie and came about."""
        self.widened, self.strided, self.turned = x.widened, x.strided, x.turned

    @property
    def widens(self) -> bool:
        """Whether its elements are wider than some that they were computed from."""
        return self.narrowest < bits_of(self.dtype)

    @property
    def is_light(self) -> bool:
        """Whether IREE may compute it where it is folded, and the fold wrong."""
        return (self.mixed or self.strided) and self.source_width < bits_of(self.dtype)
