"""What a program without a runtime takes and gives, as its users see it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xpr.lowering.no_runtime.program import Program

_FLOATS = {"float32": ("float", 1), "float64": ("double", 1)}
_COMPLEX = {"complex64": ("float", 2), "complex128": ("double", 2)}


@dataclass(frozen=True)
class Array:
    """An argument or a result that is an array."""

    name: str
    """Its name in C."""
    path: str
    """Its place among the arguments or in the result, as Python writes it."""
    dtype: str
    item_size: int
    shape: tuple[int, ...]

    @property
    def c_type(self) -> str:
        """The type of what a pointer to it points at; bits, where C has no such type."""
        known = (_FLOATS | _COMPLEX).get(self.dtype)
        if known is not None:
            return known[0]
        if self.dtype.startswith("int") and self.item_size * 8 == int(self.dtype[3:]):
            return f"{self.dtype}_t"
        return f"uint{8 * self.item_size}_t"

    @property
    def count(self) -> int:
        """How many such elements it has."""
        return math.prod(self.shape) * _COMPLEX.get(self.dtype, ("", 1))[1]

    @property
    def size(self) -> int:
        """Its bytes."""
        return math.prod(self.shape) * self.item_size

    @property
    def described(self) -> str:
        """Type and shape, as in `float32[8,64]`."""
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Group:
    """A container of arrays."""

    name: str
    members: tuple[Array | Group, ...]


Item = Array | Group


def arrays_of(items: Sequence[Item]) -> Iterator[Array]:
    """The arrays in items, in order."""
    for item in items:
        if isinstance(item, Array):
            yield item
        else:
            yield from arrays_of(item.members)


@dataclass
class Entry:
    """A function of a model."""

    name: str
    """Its name in C."""
    inputs: tuple[Item, ...]
    output: Item
    program: Program
    objects: dict[int, bytes]
    """The kernels, by the numbers of the constants that hold them."""
    constants: dict[int, bytes]
    """The constants that the program reads."""
    weights: tuple[bytes, ...]
    """The arrays that the program takes before its arguments."""

    @property
    def outputs(self) -> list[Array]:
        """The results."""
        return list(arrays_of([self.output]))


@dataclass(frozen=True)
class Machine:
    """What the kernels are compiled for."""

    name: str
    triple: str
    cpu: str
    pointer_bytes: int
    condition: str
    """What the C preprocessor says of such a machine."""


@dataclass
class Model:
    """Several functions that share their constants."""

    name: str
    entries: list[Entry]
    machine: Machine
    version: str
    """The versions of xpr and IREE."""
