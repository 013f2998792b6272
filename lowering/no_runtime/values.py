"""Values while a module's byte code is evaluated without data, and how two of them are merged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from xpr.lowering.no_runtime.program import Base, Name, Place, Range, Value


@dataclass(frozen=True)
class Half:
    """The lower or the upper register of a number of 64 bits."""

    whole: Value
    upper: bool


@dataclass(frozen=True)
class Marker:
    """A device, an allocator, a fence: what carries nothing here."""


@dataclass(frozen=True)
class Null:
    """No object."""


@dataclass(frozen=True)
class MarkerOrNull:
    """A fence on some ways to a block, and none on others: there is nothing to wait for."""


@dataclass(frozen=True)
class Bytes:
    """A constant of the module."""

    number: int


@dataclass(frozen=True)
class Buffer:
    """A range of memory. `sites` are the allocations that it may lie in."""

    base: Base | Name
    offset: Value
    size: Value
    sites: frozenset[int] = frozenset()

    @property
    def place(self) -> Place:
        return Place(self.base, self.offset)


@dataclass(frozen=True)
class View:
    """A buffer with a shape."""

    buffer: Buffer
    bits: int
    shape: tuple[Value, ...]


@dataclass(frozen=True)
class Executable:
    """The kernels in a constant."""

    constant: int


@dataclass(frozen=True)
class File:
    """A part of a constant, as a file."""

    constant: int
    offset: int
    length: int


@dataclass(frozen=True)
class Commands:
    """A list of commands, by the place where it is made."""

    key: tuple[object, ...]


@dataclass(frozen=True)
class Slot:
    """A range of the buffer that a table names when commands run."""

    number: int
    offset: Value
    length: Value


@dataclass(frozen=True)
class Command:
    """A statement whose ranges may be slots of a table."""

    make: Callable[[list[Range]], Any] = field(compare=False)
    ranges: tuple[tuple[Buffer | None, Slot], ...]
    described: tuple[object, ...]


@dataclass(frozen=True)
class CommandList:
    """What has been recorded."""

    commands: tuple[Command, ...] = ()
    is_final: bool = False


Object = Marker | Null | MarkerOrNull | Bytes | Buffer | View | Executable | File | Commands
_FENCES = (Marker, Null, MarkerOrNull)
Registers = dict[int, Value | Half | Object]


@dataclass
class Frame:
    """A function that runs: its registers, and where its caller goes on."""

    function: int
    registers: Registers
    back_to: int = -1
    results: tuple[int, ...] = ()


@dataclass
class State:
    """All that is known at a place of the program."""

    frames: list[Frame]
    commands: dict[tuple[object, ...], CommandList] = field(default_factory=dict)
    references: dict[int, Object] = field(default_factory=dict)
    """Variables of the module."""
    numbers: dict[int, Value] = field(default_factory=dict)
    began: bool = False
    """Whether the module's initializer has run."""

    def copy(self) -> State:
        return replace(
            self,
            frames=[replace(f, registers=dict(f.registers)) for f in self.frames],
            commands=dict(self.commands),
            references=dict(self.references),
            numbers=dict(self.numbers),
        )

    def buffers_of(self, value: object) -> list[Buffer]:
        """The buffers that a value refers to."""
        if isinstance(value, Buffer):
            return [value]
        if isinstance(value, View):
            return [value.buffer]
        if isinstance(value, Commands) and value.key in self.commands:
            listed = self.commands[value.key].commands
            return [b for c in listed for b, _ in c.ranges if b is not None]
        return []


class Parameters:
    """The parameters of a block: places in its state that differ between the ways to it."""

    def __init__(self, block: tuple[object, ...]) -> None:
        self._block = block
        self.names: dict[tuple[object, ...], Name] = {}

    def _name(self, path: tuple[object, ...], kind: str) -> Name:
        return self.names.setdefault(path, Name((self._block, path), kind))

    def _number(self, path: tuple[object, ...], a: Value, b: Value, kind: str) -> Value:
        return a if a == b and path not in self.names else self._name(path, kind)

    def _buffer(self, path: tuple[object, ...], a: Buffer, b: Buffer) -> Buffer:
        size = self._number((*path, "size"), a.size, b.size, "i64")
        sites = a.sites | b.sites
        base = (*path, "base")
        if a.base == b.base and base not in self.names:
            offset = self._number((*path, "offset"), a.offset, b.offset, "i64")
            return Buffer(a.base, offset, size, sites)
        return Buffer(self._name(base, "ptr"), 0, size, sites)

    def _merged(self, path: tuple[int, int], a: object, b: object) -> object:
        """A value for both, or None if there is none."""
        if isinstance(a, Half) and isinstance(b, Half) and a.upper == b.upper:
            lower = (path[0], path[1] - a.upper, "wide")
            return Half(self._number(lower, a.whole, b.whole, "i64"), a.upper)
        if isinstance(a, Value) and isinstance(b, Value):
            return self._number((*path, "number"), a, b, "i32")
        if isinstance(a, Buffer) and isinstance(b, Buffer):
            return self._buffer(path, a, b)
        if isinstance(a, View) and isinstance(b, View):
            if a.bits != b.bits or len(a.shape) != len(b.shape):
                return None
            pairs = enumerate(zip(a.shape, b.shape, strict=True))
            shape = tuple(self._number((*path, i), x, y, "i64") for i, (x, y) in pairs)
            return View(self._buffer(path, a.buffer, b.buffer), a.bits, shape)
        if a != b and isinstance(a, _FENCES) and isinstance(b, _FENCES):
            return MarkerOrNull()
        return a if a == b else None

    def merge(self, a: State, b: State) -> State:
        """The state for both ways; what cannot be merged is left out."""
        frames = []
        for depth, (f, g) in enumerate(zip(a.frames, b.frames, strict=True)):
            registers: Registers = {}
            for r, x in f.registers.items():
                y = g.registers.get(r)
                merged: Any = None if y is None else self._merged((depth, r), x, y)
                if merged is not None:
                    registers[r] = merged
            frames.append(replace(f, registers=registers))
        commands = {k: v for k, v in a.commands.items() if b.commands.get(k) == v}
        return replace(a.copy(), frames=frames, commands=commands)

    def value(self, path: tuple[object, ...], state: State) -> Value | Place | None:
        """The value of a parameter in the state of a way to the block.

        None if that way has none: the parameter belongs to a register that no way reads later.
        """
        depth, register, part = path
        found: Any = state.frames[depth].registers.get(register)  # type: ignore[index]
        if part == "wide":
            return found.whole if isinstance(found, Half) else None
        if part == "number":
            return found if isinstance(found, Value) else None
        if not isinstance(found, Buffer | View):
            return None
        buffer = found.buffer if isinstance(found, View) else found
        if part == "base":
            return buffer.place
        if part == "offset":
            return buffer.offset
        return buffer.size if part == "size" else found.shape[part]  # type: ignore[index]
