"""The values that lowering rules pass on, and what is known of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.lowering.folding import NO_ROOTS, SOLID, Roots
from xpr.lowering.producers import NO_READS, Reads
from xpr.lowering.types import tensor_type

Shape = tuple[int, ...]


def bits_of(dtype: np.dtype[Any]) -> int:
    """The width of an element to the compiler, to which a boolean is one bit."""
    return 1 if dtype == np.bool_ else 8 * dtype.itemsize


class Origin(NamedTuple):
    """What a value may be computed from where it is read (see the attributes of `Value`)."""

    product: bool
    narrowest: int
    source_width: int
    mixed: bool
    spread: bool


class Value:
    """An SSA value: its name, shape and dtype."""

    __slots__ = (
        "barred",
        "dtype",
        "fold",
        "inverted",
        "mixed",
        "name",
        "narrowest",
        "number",
        "parts",
        "product",
        "reads",
        "reshaped",
        "roots",
        "shape",
        "source_width",
        "splat",
        "spread",
        "strided",
        "turned",
        "widened",
    )

    def __init__(self, name: str, shape: Shape, dtype: np.dtype[Any]) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
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
        # The value of a rank-0 integer constant.
        self.number: int | None = None
        # Whether the compiler may know the elements to be one number (see `folding.py`), and the
        # number where it is written in the program.
        self.fold = SOLID
        self.roots: Roots = NO_ROOTS
        self.splat: float | None = None
        # The value whose elements these are, in another shape.
        self.reshaped: Value | None = None
        # Whether it is the complement of another value.
        self.inverted = False
        # Whether it was computed, element by element, from a product of matrices (see `transpose`).
        self.product = False
        # What is perhaps computed where this is used, and how it is read (see `producers.py`).
        self.reads: Reads = NO_READS
        # The real and imaginary parts that complex numbers were made of.
        self.parts: tuple[Value, Value] | None = None

    @property
    def type(self) -> str:
        return tensor_type(self.shape, self.dtype)

    @property
    def aval(self) -> ShapedArray:
        return ShapedArray(self.shape, self.dtype)

    @property
    def origin(self) -> Origin:
        return Origin(self.product, self.narrowest, self.source_width, self.is_light, self.spread)

    def take_origin(self, origin: Origin) -> None:
        """Takes over what an argument or a result of a function that may be inlined comes from."""
        self.product, self.narrowest, self.source_width, self.mixed, self.spread = origin

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

    def __repr__(self) -> str:
        return f"Value({self.name}: {self.type})"
