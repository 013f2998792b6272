"""A program without a runtime: blocks of statements on numbers and ranges of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Name:
    """A number or an address that is known when the program runs.

    `kind` is i32, i64 or ptr. `key` says where in the program it is computed.
    """

    key: tuple[object, ...]
    kind: str


Value = int | Name


@dataclass(frozen=True)
class Base:
    """Memory with a fixed place.

    `kind` is argument, result, constant or site: an allocation, in the workspace.
    """

    kind: str
    number: int


@dataclass(frozen=True)
class Place:
    """An address: a number of bytes after a base, or after an address that is computed."""

    base: Base | Name
    offset: Value


@dataclass(frozen=True)
class Range:
    """A place and a number of bytes."""

    place: Place
    length: Value


@dataclass(frozen=True)
class Compute:
    """An operation on integers, by the names of IREE's instructions."""

    target: Name
    op: str
    operands: tuple[Value, ...]


@dataclass(frozen=True)
class Address:
    """The address of a place."""

    target: Name
    place: Place


@dataclass(frozen=True)
class Load:
    """Reads a number of `bytes` bytes."""

    target: Name
    place: Place
    bytes: int


@dataclass(frozen=True)
class Allocate:
    """The first slot of a site at which none of these addresses points."""

    target: Name
    site: int
    occupied: tuple[Place, ...]


@dataclass(frozen=True)
class Check:
    """Ends the program with an error unless the first number is at most the second."""

    smaller: Value
    larger: Value


@dataclass(frozen=True)
class Fill:
    """Repeats a pattern of 1, 2, 4 or 8 bytes."""

    target: Range
    pattern: int
    pattern_bytes: int


@dataclass(frozen=True)
class Copy:
    """Copies bytes between ranges of one length."""

    source: Range
    target: Range


@dataclass(frozen=True)
class Call:
    """Runs a kernel on all its workgroups."""

    executable: int
    kernel: int
    groups: tuple[Value, Value, Value]
    constants: tuple[Value, ...]
    bindings: tuple[Range, ...]
    name: str


Statement = Compute | Address | Load | Allocate | Check | Fill | Copy | Call


@dataclass(frozen=True)
class Jump:
    """Where a block leads, and the values of that block's parameters."""

    block: int
    values: tuple[Value | Place, ...] = ()


@dataclass(frozen=True)
class Branch:
    """Chooses between two blocks."""

    condition: Value
    if_true: Jump
    if_false: Jump


@dataclass(frozen=True)
class Switch:
    """Chooses by a number; the first jump is taken for numbers that have none of the others."""

    which: Value
    default: Jump
    cases: tuple[Jump, ...]


@dataclass(frozen=True)
class Stop:
    """Ends the program: with the results in place, or with an error."""

    failed: bool = False


Terminator = Jump | Branch | Switch | Stop


@dataclass
class Block:
    """Statements that run one after the other."""

    parameters: tuple[Name, ...] = ()
    statements: list[Statement] = field(default_factory=list)
    end: Terminator = field(default_factory=Stop)

    def jumps(self) -> tuple[Jump, ...]:
        """Where it leads."""
        if isinstance(self.end, Jump):
            return (self.end,)
        if isinstance(self.end, Branch):
            return (self.end.if_true, self.end.if_false)
        return (self.end.default, *self.end.cases) if isinstance(self.end, Switch) else ()


@dataclass
class Site:
    """Memory that the program allocates: `slots` arrays of `size` bytes."""

    size: int
    slots: int = 1
    offset: int = 0
    """Where it begins in the workspace."""


@dataclass
class Program:
    """A compiled program. The first block is where it begins."""

    blocks: list[Block]
    sites: list[Site]
    executables: tuple[int, ...]
    """The numbers of the constants that hold the kernels."""
    arguments: tuple[int, ...]
    """The sizes of the arguments."""
    results: tuple[int, ...]
    workspace: int = 0

    def statements(self) -> Iterator[Statement]:
        """All statements, in the order of the blocks."""
        for block in self.blocks:
            yield from block.statements

    def constants(self) -> set[int]:
        """The numbers of the constants whose bytes it reads."""
        found = set()
        for block in self.blocks:
            places = [p for s in block.statements for p in places_of(s)]
            places += [v for j in block.jumps() for v in j.values if isinstance(v, Place)]
            bases = [p.base for p in places]
            found |= {b.number for b in bases if isinstance(b, Base) and b.kind == "constant"}
        return found


def places_of(statement: Statement) -> list[Place]:
    """The places that a statement names."""
    if isinstance(statement, Address | Load):
        return [statement.place]
    if isinstance(statement, Allocate):
        return list(statement.occupied)
    return [r.place for r in ranges_of(statement)]


def ranges_of(statement: Statement) -> list[Range]:
    """The ranges that a statement reads or writes."""
    if isinstance(statement, Fill):
        return [statement.target]
    if isinstance(statement, Copy):
        return [statement.source, statement.target]
    return list(statement.bindings) if isinstance(statement, Call) else []


def with_ranges(statement: Statement, ranges: list[Range]) -> Statement:
    """The statement on other ranges."""
    if isinstance(statement, Fill):
        return replace(statement, target=ranges[0])
    if isinstance(statement, Copy):
        return Copy(*ranges)
    if isinstance(statement, Call):
        return replace(statement, bindings=tuple(ranges))
    return statement


def with_jumps(end: Terminator, change: Callable[[Jump], Jump]) -> Terminator:
    """A terminator with other jumps."""
    if isinstance(end, Jump):
        return change(end)
    if isinstance(end, Branch):
        return Branch(end.condition, change(end.if_true), change(end.if_false))
    if isinstance(end, Switch):
        return Switch(end.which, change(end.default), tuple(map(change, end.cases)))
    return end
