"""Operations, values, blocks and functions: the program that lowering rules build.

The names are MLIR's. An operation has operands, attributes, regions and results, and keeps the line
of the user's program that it comes from; a region is a single block. What is known of each kind of
operation is one table (`traits.py`); how a program is printed (`printer.py`) nothing here knows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.source_info import UNKNOWN, SourceInfo
from xpr.lowering.ir.traits import TRAITS, Kind, Traits
from xpr.lowering.ir.types import tensor_type

Shape = tuple[int, ...]
Attributes = Mapping[str, Any]

NO_ATTRIBUTES: Attributes = {}

TIED = "tied"
"""The attribute of a dispatch that overwrites operands: their places, by its first results."""


class Value:
    """A tensor: the result of an operation or the argument of a block, its `owner`.

    `uses` holds each operation that it is an operand of, once for each such operand.
    """

    __slots__ = ("dtype", "owner", "shape", "uses")

    def __init__(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        self.shape = shape
        self.dtype = dtype
        self.owner: Op | Block | None = None
        self.uses: list[Op] = []

    @property
    def type(self) -> str:
        """The MLIR type."""
        return tensor_type(self.shape, self.dtype)

    @property
    def op(self) -> Op | None:
        """The operation whose result it is; None for an argument."""
        return self.owner if type(self.owner) is Op else None

    @property
    def aval(self) -> ShapedArray:
        """The type in jaxprs."""
        return ShapedArray(self.shape, self.dtype)

    @property
    def number(self) -> int | None:
        """The value of a rank-0 integer constant."""
        if self.shape or self.dtype.kind not in "iu" or self.op is None:
            return None
        return self.op.attributes.get("number")

    def __repr__(self) -> str:
        name = self.owner.name if isinstance(self.owner, Op) else "argument"
        return f"{type(self).__name__}({name}: {self.type})"


class PlainValue(Value):
    """A value of a type that no array of the program has, such as `index`."""

    __slots__ = ("_type",)

    def __init__(self, type_: str) -> None:
        super().__init__((), _NO_DTYPE)
        self._type = type_

    @property
    def type(self) -> str:
        return self._type


_NO_DTYPE = np.dtype(np.void)
_UNKNOWN = Traits(Kind.UNKNOWN)


class Op:
    """One operation; its `kind` and `traits` are those of its name in the table."""

    __slots__ = (
        *("attributes", "block", "kind", "name", "operands", "regions", "results", "source"),
        "traits",
    )

    def __init__(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[Value],
        attributes: Attributes = NO_ATTRIBUTES,
        regions: Sequence[Block] = (),
        source: SourceInfo = UNKNOWN,
    ) -> None:
        self.name = name
        self.traits = traits = TRAITS.get(name, _UNKNOWN)
        self.kind = traits.kind
        self.operands = operands
        self.results = results
        self.attributes = attributes
        self.regions = regions
        self.source = source
        self.block: Block | None = None
        for v in operands:
            v.uses.append(self)
        for v in results:
            v.owner = self
        for region in regions:
            region.parent = self

    @property
    def result(self) -> Value:
        """The only result."""
        (found,) = self.results
        return found

    def replace_operands(self, operands: Sequence[Value]) -> None:
        """Takes other operands."""
        for v in self.operands:
            v.uses.remove(self)
        self.operands = operands
        for v in operands:
            v.uses.append(self)

    def __repr__(self) -> str:
        return f"Op({self.name}: {len(self.operands)} operands, {len(self.results)} results)"


class Block:
    """Operations in order, the last of them a terminator; `parent` is what they are a body of."""

    __slots__ = ("arguments", "ops", "parent")

    def __init__(self, arguments: Sequence[Value] = ()) -> None:
        self.arguments = arguments
        self.ops: list[Op] = []
        self.parent: Op | Function | Executable | None = None
        for v in arguments:
            v.owner = self

    @property
    def makes_dispatches(self) -> bool:
        """Whether its operations become dispatches: those of functions, loops and branches."""
        parent = self.parent
        return parent.traits.forms_dispatches if isinstance(parent, Op) else parent is not None

    def append(self, op: Op) -> None:
        op.block = self
        self.ops.append(op)

    def insert_after(self, place: Op, op: Op) -> None:
        """Puts `op` behind `place`, which is nearly always one of the last."""
        at = len(self.ops)
        while self.ops[at - 1] is not place:
            at -= 1
        op.block = self
        self.ops.insert(at, op)


@dataclass
class Function:
    """A function of a module; `argument_attributes` are texts such as `{iree.abi.output = ...}`.

    Those of its arguments that are `donated` may be overwritten.
    """

    name: str
    visibility: str
    body: Block
    result_types: Sequence[str]
    argument_attributes: Sequence[str] = ()
    donated: Collection[int] = ()

    def __post_init__(self) -> None:
        self.body.parent = self


@dataclass
class Executable:
    """A dispatch's program on memory, written by hand; the flags tell its read-only bindings.

    Each of its workgroups runs the program.
    """

    name: str
    read_only: Sequence[bool]
    body: Block
    workgroups: int = 1

    def __post_init__(self) -> None:
        self.body.parent = self


@dataclass(frozen=True)
class PrebuiltKernel:
    """A dispatch that calls a function of an object that comes with xpr.

    The function takes the addresses of operands and results, `numbers` 32-bit integers, which the
    dispatch is given, and the workgroup's place along three axes, in 64 bits.
    """

    function: str
    object_path: str
    object_digest: str
    element: str
    """The type of a memory reference with elements of any type."""
    operands: int
    results: int
    numbers: int


@dataclass
class Module:
    """Functions, and declarations of those that lie elsewhere: (symbol, operands, results)."""

    attributes: str = ""
    declarations: dict[str, tuple[Sequence[str], Sequence[str]]] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    """Functions that users wrote in MLIR, by their symbols."""
    functions: list[Function] = field(default_factory=list)
    executables: list[Executable] = field(default_factory=list)
    prebuilt: dict[str, PrebuiltKernel] = field(default_factory=dict)
    """Kernels that are compiled already, by the symbols of their dispatches."""
    blocks: dict[Value, Any] = field(default_factory=dict)
    """What arrays were made of that products may read directly, while rules write the graph."""


def walk(block: Block) -> Iterator[Op]:
    """All operations of a block, those of regions before the operation that has them."""
    for op in block.ops:
        for region in op.regions:
            yield from walk(region)
        yield op


def dispatch_blocks(block: Block) -> Iterator[Block]:
    """A block and those of the loops and branches in it, inner ones first."""
    for op in block.ops:
        if op.regions and op.traits.forms_dispatches:
            for region in op.regions:
                yield from dispatch_blocks(region)
    yield block


def dispatched(block: Block) -> Iterator[Op]:
    """The operations of a block that become dispatches, or hold such: loops and branches last."""
    for op in block.ops:
        if op.regions and op.traits.forms_dispatches:
            for region in op.regions:
                yield from dispatched(region)
        yield op


def encloses(block: Block, op: Op) -> bool:
    """Whether `op` is one of `block`, or of a region in it."""
    inner = op.block
    while inner is not None:
        if inner is block:
            return True
        parent = inner.parent
        inner = parent.block if isinstance(parent, Op) else None
    return False


def captured(op: Op) -> list[Value]:
    """The values around `op` that operations of its regions use, each once."""
    inside = {v for region in op.regions for v in region.arguments}
    found: dict[Value, None] = {}
    for region in op.regions:
        for inner in walk(region):
            for nested in inner.regions:
                inside.update(nested.arguments)
            inside.update(inner.results)
    for region in op.regions:
        for inner in walk(region):
            found.update(dict.fromkeys(v for v in inner.operands if v not in inside))
    return list(found)
