"""The instructions of a module's functions, decoded, and which registers they use."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from xpr.lowering.iree import versions
from xpr.lowering.no_runtime.module_file import FunctionCode
from xpr.lowering.no_runtime.refusal import RefusedError, require

REFERENCE, MOVE, NUMBER = 0x8000, 0x4000, 0x3FFF
"""Bits of a register: a reference, one that is moved out of it, and its number."""

_TABLE = {
    code: opcode
    for version in versions.KNOWN.values()
    if version.bytecode.version == 17
    for code, opcode in version.bytecode.instructions.items()
}
_SOURCES_ONLY = ("GlobalStoreI32", "GlobalStoreI64", "GlobalStoreRef", "CondBranch", "BranchTable")
_CALLS = ("Call", "CallVariadic", "CallYieldable", "CallVariadicYieldable")


@dataclass(frozen=True)
class Edge:
    """A branch: the instruction that it leads to, and the moves on the way."""

    target: int
    moves: tuple[tuple[int, int], ...] = ()


@dataclass
class Instruction:
    """One instruction. The last of `registers` is the result's, unless it has none."""

    op: str
    registers: list[int] = field(default_factory=list)
    kinds: str = ""
    """The kinds of the registers: i, I or r."""
    value: int = 0
    text: str = ""
    edges: list[Edge] = field(default_factory=list)
    counts: tuple[int, ...] = ()
    """Of a call: how often each part of its operands is repeated."""
    operands: tuple[int, ...] = ()
    results: tuple[int, ...] = ()

    @property
    def is_call(self) -> bool:
        return self.op in _CALLS

    @property
    def ends_block(self) -> bool:
        return bool(self.edges) or self.op in ("Return", "Fail")


@dataclass
class Function:
    """A decoded function."""

    operand_types: str
    result_types: str
    parameters: tuple[int, ...]
    instructions: list[Instruction]
    live: list[frozenset[int]] = field(default_factory=list)
    """The registers whose values are used from each instruction on."""


class _Decoder:
    def __init__(self, function: FunctionCode) -> None:
        self._code = function.code
        self._at = 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self._code, self._at)
        self._at += struct.calcsize(form)
        return value

    def length(self) -> int:
        self._at += self._at % 2
        return self.number("<H")

    def registers(self) -> tuple[int, ...]:
        return tuple(self.number("<H") for _ in range(self.length()))

    def moves(self) -> tuple[tuple[int, int], ...]:
        return tuple((self.number("<H"), self.number("<H")) for _ in range(self.length()))

    def instruction(self) -> Instruction:
        opcode = _TABLE.get(self.number("<B"))
        if opcode is None or not opcode.name:
            code = self._code[self._at - 1]
            raise RefusedError(f"instruction {code:#x} of IREE's byte code is not known")
        made = Instruction(opcode.name)
        targets: list[int] = []
        moves: list[tuple[tuple[int, int], ...]] = []
        lists: list[tuple[int, ...]] = []
        cases: list[Edge] = []
        for kind in opcode.form:
            if kind in "iIr":
                made.registers.append(self.number("<H"))
                made.kinds += kind
            elif kind in "4VWvkf":
                made.value = self.number("<I")
            elif kind == "8":
                made.value = self.number("<Q")
            elif kind == "t":
                self.number("<I")
            elif kind == "b":
                targets.append(self.number("<I"))
            elif kind == "m":
                moves.append(self.moves())
            elif kind == "T":
                for _ in range(self.length()):
                    target = self.number("<I")
                    cases.append(Edge(target, self.moves()))
            elif kind == "l":
                lists.append(self.registers())
            else:  # a string
                size = self.number("<H")
                made.text = self._code[self._at : self._at + size].decode("utf-8", "replace")
                self._at += size
        moves += [()] * (len(targets) - len(moves))
        made.edges = [Edge(t, m) for t, m in zip(targets, moves, strict=True)] + cases
        if made.is_call:
            if opcode.name.startswith("CallVariadic"):
                made.counts, made.operands, made.results = lists
            else:
                made.operands, made.results = lists
        elif lists:
            (made.operands,) = lists
        return made

    def all(self) -> tuple[list[Instruction], dict[int, int]]:
        found: list[Instruction] = []
        starts: dict[int, int] = {}
        while self._at < len(self._code):
            starts[self._at] = len(found)
            found.append(self.instruction())
        return found, starts


def decode(function: FunctionCode) -> Function:
    """The instructions of a function, with branches to instructions by their numbers."""
    instructions, starts = _Decoder(function).all()
    for i in instructions:
        i.edges = [Edge(starts[e.target], e.moves) for e in i.edges]
    calling = function.calling
    require(calling.startswith("0") and "_" in calling, f"the convention {calling} is not known")
    operands, _, results = calling[1:].partition("_")
    operands, results = operands.replace("v", ""), results.replace("v", "")
    integers = references = 0
    parameters = []
    for kind in operands:
        if kind == "r":
            parameters.append(references | REFERENCE)
            references += 1
        else:
            integers += integers % 2 if kind == "I" else 0
            parameters.append(integers)
            integers += 2 if kind == "I" else 1
    made = Function(operands, results, tuple(parameters), instructions)
    made.live = _liveness(made)
    return made


def _slots(register: int, kind: str) -> set[int]:
    """The registers that a value takes."""
    if kind == "r" or register & REFERENCE:
        return {register & (NUMBER | REFERENCE)}
    return {register, register + 1} if kind == "I" else {register}


def _uses(function: Function, i: Instruction) -> tuple[set[int], set[int]]:
    """The registers that an instruction reads, and those that it writes.

    Operands of calls are taken to be wide: it does no harm to keep a register for longer.
    """
    read: set[int] = set()
    written: set[int] = set()
    if i.is_call:
        for r in i.operands:
            read |= _slots(r, "I")
        for r in i.results:
            written |= _slots(r, "i")
    elif i.op == "Return":
        for r, kind in zip(i.operands, function.result_types, strict=True):
            read |= _slots(r, kind)
    elif i.op != "DiscardRefs":
        pairs = list(zip(i.registers, i.kinds, strict=True))
        if pairs and i.op not in (*_SOURCES_ONLY, "Fail"):
            written |= _slots(*pairs.pop())
        for pair in pairs:
            read |= _slots(*pair)
    return read, written


def _liveness(function: Function) -> list[frozenset[int]]:
    """By the usual backward iteration."""
    code = function.instructions
    live: list[frozenset[int]] = [frozenset()] * (len(code) + 1)
    used = [_uses(function, i) for i in code]
    changed = True
    while changed:
        changed = False
        for n in reversed(range(len(code))):
            i = code[n]
            after: set[int] = set()
            if not i.ends_block:
                after |= live[n + 1]
            for edge in i.edges:
                entering = set(live[edge.target])
                for source, target in reversed(edge.moves):
                    slot = target & (NUMBER | REFERENCE)
                    if slot in entering:
                        entering.discard(slot)
                        entering.add(source & (NUMBER | REFERENCE))
                after |= entering
            read, written = used[n]
            found = frozenset(after - written | read)
            if found != live[n]:
                live[n], changed = found, True
    return live
