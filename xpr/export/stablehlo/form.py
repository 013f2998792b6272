"""The in-memory form of a StableHLO module, the same for text and bytecode.

Attributes are plain values: numbers, strings (also for enumerators and symbols), tuples, dicts,
NumPy arrays, and the types below. Operations have StableHLO's names, without VHLO's versions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from xpr.export.stablehlo.errors import StableHLOError

DTYPES: dict[str, np.dtype[Any]] = {
    "i1": np.dtype(np.bool_),
    "i2": np.dtype(ml_dtypes.int2),
    "i4": np.dtype(ml_dtypes.int4),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "ui2": np.dtype(ml_dtypes.uint2),
    "ui4": np.dtype(ml_dtypes.uint4),
    "ui8": np.dtype(np.uint8),
    "ui16": np.dtype(np.uint16),
    "ui32": np.dtype(np.uint32),
    "ui64": np.dtype(np.uint64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "complex<f32>": np.dtype(np.complex64),
    "complex<f64>": np.dtype(np.complex128),
    "f4E2M1FN": np.dtype(ml_dtypes.float4_e2m1fn),
    "f6E2M3FN": np.dtype(ml_dtypes.float6_e2m3fn),
    "f6E3M2FN": np.dtype(ml_dtypes.float6_e3m2fn),
    "f8E3M4": np.dtype(ml_dtypes.float8_e3m4),
    "f8E4M3": np.dtype(ml_dtypes.float8_e4m3),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8E4M3B11FNUZ": np.dtype(ml_dtypes.float8_e4m3b11fnuz),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "f8E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "f8E8M0FNU": np.dtype(ml_dtypes.float8_e8m0fnu),
    "index": np.dtype(np.int64),
}
"""Element types by their names in MLIR. Integers without a sign are signed."""

MOST_ELEMENTS = 1 << 40
"""No tensor of a sound program has more."""


def dtype_named(name: str) -> np.dtype[Any]:
    """The dtype of an element type; StableHLOError for one without a counterpart."""
    found = DTYPES.get(name)
    if found is None:
        raise StableHLOError(f"the element type {name} has no counterpart in xpr")
    return found


@dataclass(frozen=True)
class Quantized:
    """A quantized element type: real value = scale * (stored - zero_point)."""

    storage: np.dtype[Any]
    expressed: np.dtype[Any]
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    low: int
    high: int
    axis: int | None = None


@dataclass(frozen=True)
class Tensor:
    """A tensor type; None is a dynamic size."""

    shape: tuple[int | None, ...]
    element: np.dtype[Any] | Quantized

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype in which its elements are stored."""
        return self.element.storage if isinstance(self.element, Quantized) else self.element

    @property
    def static(self) -> tuple[int, ...]:
        """The shape; StableHLOError if a size is dynamic."""
        sizes = tuple(n for n in self.shape if n is not None)
        if len(sizes) != len(self.shape):
            raise StableHLOError(f"a tensor type with the dynamic shape {self.shape} is left")
        return sizes

    @property
    def size(self) -> int:
        """The number of elements, of a static shape."""
        return math.prod(self.static)


def tensor(shape: tuple[int | None, ...], element: np.dtype[Any] | Quantized) -> Tensor:
    """A tensor type with its sizes checked."""
    if any(n is not None and n < 0 for n in shape):
        raise StableHLOError(f"a tensor type has a negative size: {shape}")
    if math.prod(n or 1 for n in shape) > MOST_ELEMENTS:
        raise StableHLOError(f"a tensor type has too many elements: {shape}")
    return Tensor(shape, element)


@dataclass(frozen=True)
class Token:
    """The type of tokens."""


@dataclass(frozen=True)
class Tuple:
    """A tuple type."""

    elements: tuple[Any, ...]


@dataclass(frozen=True)
class Function:
    """A function type."""

    inputs: tuple[Any, ...]
    results: tuple[Any, ...]


@dataclass(frozen=True)
class Other:
    """A type or attribute that is kept as text."""

    text: str


class Integer(int):
    """An integer attribute: the number, and its type."""

    dtype: np.dtype[Any]

    def __new__(cls, value: int, dtype: np.dtype[Any]) -> Integer:
        """The number with its type."""
        self = super().__new__(cls, value)
        self.dtype = dtype
        return self


class Float(float):
    """A float attribute: the number, and its type."""

    dtype: np.dtype[Any]

    def __new__(cls, value: float, dtype: np.dtype[Any]) -> Float:
        """The number with its type."""
        self = super().__new__(cls, value)
        self.dtype = dtype
        return self


class Elements(tuple[Any, ...]):
    """An array attribute of one dimension: its numbers, and their type."""

    dtype: np.dtype[Any]

    def __new__(cls, values: Iterable[Any], dtype: np.dtype[Any]) -> Elements:
        """The numbers with their type."""
        self = super().__new__(cls, values)
        self.dtype = dtype
        return self


Type = Tensor | Token | Tuple | Function | Other


class Value:
    """A value of the module: an operation's result or a block's argument (of no `owner`)."""

    __slots__ = ("owner", "type")

    def __init__(self, type_: Any) -> None:
        self.type = type_
        self.owner: Operation | None = None


@dataclass
class Block:
    """The single block of a region."""

    arguments: list[Value] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)

    @property
    def terminator(self) -> Operation:
        """The last operation; StableHLOError for an empty block."""
        if not self.operations:
            raise StableHLOError("a region has an empty block")
        return self.operations[-1]

    @property
    def body(self) -> list[Operation]:
        """The operations before the terminator."""
        return self.operations[:-1]


@dataclass(eq=False)
class Operation:
    """An operation with StableHLO's name."""

    name: str
    operands: list[Value]
    results: list[Value]
    attributes: dict[str, Any]
    regions: list[Block] = field(default_factory=list)
    location: Any = None

    def where(self) -> str:
        """Its name and line, for messages."""
        place = self.location() if callable(self.location) else self.location
        return f"{self.name} at {place}" if place else self.name

    def error(self, text: str) -> StableHLOError:
        """An error that names the operation and its line."""
        return StableHLOError(f"{self.where()}: {text}")


@dataclass
class Module:
    """A module: its functions by name, its attributes, and the meshes that Shardy names."""

    functions: dict[str, Operation]
    attributes: dict[str, Any] = field(default_factory=dict)
    meshes: dict[str, dict[str, int]] = field(default_factory=dict)
    version: str | None = None

    def entry(self, name: str | None = None) -> Operation:
        """The function to call: the one named, else `main`, else the only public one."""
        if name is not None:
            if name not in self.functions:
                raise StableHLOError(
                    f"the module has no function {name!r}, it has {sorted(self.functions)}"
                )
            return self.functions[name]
        if "main" in self.functions:
            return self.functions["main"]
        public = [
            f for f in self.functions.values() if f.attributes.get("sym_visibility") != "private"
        ]
        if len(public) != 1:
            raise StableHLOError(
                f"the module has no function main, it has {sorted(self.functions)}: name one"
            )
        return public[0]


def walk(block: Block) -> Iterator[Operation]:
    """All operations of a block and of the regions inside."""
    todo = [block]
    while todo:
        for op in todo.pop().operations:
            yield op
            todo += op.regions
