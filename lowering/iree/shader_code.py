"""What the invocations of a compiled shader write and read in the memory that they share.

The layout of shaders is that of Khronos' "SPIR-V Specification", version 1.6. MLIR writes
structured control flow, block after block; other shaders raise ``UnknownShaderError``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

HEADER_WORDS = 5

NOP, NAME, INT_TYPE, CONSTANT = 0, 5, 21, 43
FUNCTION, LOAD = 54, 61
BARRIER, PHI, SELECTION_MERGE = 224, 245, 247
LABEL, BRANCH, BRANCH_CONDITIONAL = 248, 249, 250
_EXT_INST, _FUNCTION_END, VARIABLE, _STORE = 12, 56, 59, 62
_ACCESS_CHAIN, _IN_BOUNDS_ACCESS_CHAIN, _DECORATE = 65, 66, 71
_SHUFFLE, _EXTRACT, _COMPOSITE_INSERT = 79, 81, 82
_ADD, _LESS, _LOOP_MERGE, _SWITCH, _LAST_BRANCH = 128, 177, 246, 251, 255
# What has no result: its operands begin with no type.
_NO_RESULT = frozenset(
    {*range(_STORE, 65), BARRIER, 225, 228, _LOOP_MERGE, SELECTION_MERGE, *range(BRANCH, 256)}
)
_CHAINS = frozenset({_ACCESS_CHAIN, _IN_BOUNDS_ACCESS_CHAIN})
# Results that depend on the operands alone: composites, conversions, arithmetic, bits, comparisons.
_PURE = frozenset({_EXT_INST, *range(77, 85), *range(109, 125), *range(126, 206)})
# From here on, operations that are not listed give each invocation something of its own.
_FIRST_UNLISTED = 88
# Where the operands are values, if not from the third word on.
_VALUES = {
    **{_EXT_INST: slice(4, None), LOAD: slice(2, 3), _STORE: slice(0, 2)},
    **{_SHUFFLE: slice(2, 4), _EXTRACT: slice(2, 3), _COMPOSITE_INSERT: slice(2, 4)},
}

WORKGROUP = 4
# Storage that no invocation writes.
_INPUT, _UNIFORM, _PUSH_CONSTANT = 1, 2, 9
_BUILT_IN, _NUMBER_OF_WORKGROUPS, _WORKGROUP_ID = 11, 24, 26


class UnknownShaderError(Exception):
    """A shader of another form than is described here."""


class Instruction(NamedTuple):
    """One instruction; `at` is where its first word stands, `words` are the others."""

    op: int
    at: int
    words: Sequence[int]

    def span(self) -> slice:
        """Where the operands are that are other instructions' results."""
        return _VALUES.get(self.op, slice(0 if self.op in _NO_RESULT else 2, None))

    def values(self) -> Sequence[int]:
        """The operands that are other instructions' results."""
        return self.words[self.span()]


def instructions(words: Sequence[int]) -> Iterator[Instruction]:
    """The instructions of a shader."""
    at = HEADER_WORDS
    while at < len(words):
        count = words[at] >> 16
        if not count or at + count > len(words):
            raise UnknownShaderError
        yield Instruction(words[at] & 0xFFFF, at, words[at + 1 : at + count])
        at += count


@dataclass(eq=False)
class Construct:
    """The body of a function, a loop, or the arms of a choice."""

    parent: Construct | None
    merge: int
    before: int
    """The place in the parent at which all invocations are that come here."""
    loop: bool = False
    condition: int = 0
    """The value that decides whether an invocation comes here; 0 if there is no such one."""
    branch: Instruction | None = None
    """What decides by it."""

    def line(self) -> list[Construct]:
        """This and all around it, outermost first."""
        around = self.parent.line() if self.parent else []
        return [*around, self]


class Access(NamedTuple):
    """A load from, or store to, an element of shared memory."""

    at: int
    variable: int
    element: tuple[int, ...]
    writes: bool
    construct: Construct


class Lack(NamedTuple):
    """A place before which a barrier is lacking, directly in the construct `around`."""

    at: int
    around: Construct


class Shader:
    """The control flow of a shader, and what it does with shared memory."""

    def __init__(self, found: Sequence[Instruction]) -> None:
        self.instructions = found
        self._variables = {i.words[1]: i.words[2] for i in found if i.op == VARIABLE}
        # The built-in values of a workgroup are the same for all its invocations.
        self._own = {
            i.words[0]
            for i in found
            if i.op == _DECORATE
            and i.words[1] == _BUILT_IN
            and i.words[2] not in (_WORKGROUP_ID, _NUMBER_OF_WORKGROUPS)
        }
        self._chains: dict[int, tuple[int, tuple[int, ...]]] = {}
        self._same: dict[tuple[int, ...], int] = {}
        self._numbers: dict[int, int] = {}
        self._decided: dict[int, Construct] = {}
        self.made = {i.words[1]: i for i in found if i.op not in _NO_RESULT and len(i.words) > 1}
        self._accesses: list[Access] = []
        self._waits: list[Lack] = []
        self._read()
        self._different = self._find_different()

    # ---- control flow

    def _read(self) -> None:
        """Finds constructs, accesses and barriers, in the order of the blocks."""
        inside: Construct | None = None
        opening: Construct | None = None
        for k, i in enumerate(self.instructions):
            if i.op == FUNCTION:
                inside = Construct(None, 0, i.at)
            if inside is None:
                continue
            if i.op == LABEL:
                while inside.parent and inside.merge == i.words[0]:
                    self._decided[inside.merge] = inside
                    inside = inside.parent
                opening = self._loop_at(k, inside)
                inside = opening or inside
            elif i.op == SELECTION_MERGE:
                opening = Construct(inside, i.words[0], i.at)
            elif i.op in (BRANCH_CONDITIONAL, _SWITCH):
                if opening is not None:
                    opening.condition, opening.branch = i.words[0], i
                    inside, opening = opening, None
            elif i.op == _FUNCTION_END:
                if inside.parent:
                    raise UnknownShaderError
                inside = None
            else:
                self._note(i, inside)

    def _loop_at(self, label: int, inside: Construct) -> Construct | None:
        """The loop whose first block begins at `label`, if one does."""
        block = self._block(label)
        merge = next((i for i in block if i.op == _LOOP_MERGE), None)
        if merge is None:
            return None
        before, own = self.instructions[label - 1], self.instructions[label].words[0]
        if before.op != BRANCH or before.words[0] != own:
            raise UnknownShaderError
        found = Construct(inside, merge.words[0], before.at, loop=True)
        self._decided[own] = found
        for i in block:
            if i.op == PHI and block[-1].op == BRANCH_CONDITIONAL:
                self._count(i, block[-1].words[0], len(found.line()))
        return found

    def _block(self, label: int) -> list[Instruction]:
        block: list[Instruction] = []
        for i in self.instructions[label + 1 :]:
            block.append(i)
            if BRANCH <= i.op <= _LAST_BRANCH:
                break
        return block

    def _count(self, phi: Instruction, condition: int, depth: int) -> None:
        """Gives counters of loops through the same numbers, equally deep, one name."""
        if len(phi.words) != 6:
            return
        own, test = phi.words[1], self.made.get(condition)
        if test is None or test.op != _LESS or test.words[2] != own:
            return
        for start, last in (phi.words[2:5:2], phi.words[4:1:-2]):
            step = self.made.get(last)
            if step is not None and step.op == _ADD and step.words[2] == own:
                limits = (self._number(v) for v in (start, step.words[3], test.words[3]))
                self._numbers[own] = self._same.setdefault((PHI, depth, *limits), own)

    def _note(self, i: Instruction, inside: Construct) -> None:
        if i.op == BARRIER:
            self._waits.append(Lack(i.at, inside))
            return
        if i.op in _CHAINS:
            base, before = self._chains.get(i.words[2], (i.words[2], ()))
            index = tuple(self._number(w) for w in i.words[3:])
            self._chains[i.words[1]] = (base, (*before, *index))
            return
        for w in i.values():
            variable, element = self._chains.get(w, (w, ()))
            if self._variables.get(variable) == WORKGROUP:
                # What is neither a load nor a store may be anything: no two of them are alike.
                element = element if i.op in (LOAD, _STORE) else (-i.at,)
                self._accesses.append(Access(i.at, variable, element, i.op != LOAD, inside))
        if i.op not in _CHAINS and self.is_pure(i):
            key = list(i.words)
            key[i.span()] = [self._number(v) for v in i.values()]
            key[1] = i.op
            self._numbers[i.words[1]] = self._same.setdefault(tuple(key), i.words[1])

    def _number(self, value: int) -> int:
        """One name for all values that are computed alike."""
        return self._numbers.get(value, value)

    def is_pure(self, i: Instruction) -> bool:
        """Whether the result depends on the operands alone."""
        if i.op == LOAD:
            base = self._chains.get(i.words[2], (i.words[2], ()))[0]
            return self._variables.get(base) in (_INPUT, _UNIFORM, _PUSH_CONSTANT)
        return i.op in _PURE or i.op in _CHAINS

    # ---- what all invocations of a workgroup agree on

    def _find_different(self) -> set[int]:
        """The values that may differ between the invocations of a workgroup."""
        different: set[int] = set(self._own)
        size = -1
        while size != len(different):
            size = len(different)
            label = 0
            for i in self.instructions:
                if i.op == LABEL:
                    label = i.words[0]
                elif i.op not in _NO_RESULT and len(i.words) > 1:
                    apart = i.op == PHI and self._is_apart(label, different)
                    if apart or self._differs(i, different):
                        different.add(i.words[1])
        return different

    def _differs(self, i: Instruction, different: set[int]) -> bool:
        if self.is_pure(i) or i.op == PHI:
            return not different.isdisjoint(i.values())
        return i.op == LOAD or i.op >= _FIRST_UNLISTED

    def _is_apart(self, label: int, different: set[int]) -> bool:
        """Whether invocations that came there may have come on different ways."""
        decided = self._decided.get(label)
        return decided is not None and decided.condition in different

    def all_come(self, construct: Construct) -> bool:
        """Whether all invocations that come to the parent come here, and as often."""
        if construct.parent is None:
            return True
        return bool(construct.condition) and construct.condition not in self._different

    # ---- barriers

    def lack(self) -> Lack | None:
        """The first place where invocations may read what others are yet to write."""
        for b in self._accesses:
            for a in self._accesses:
                if a.variable != b.variable or a.writes == b.writes or a.element == b.element:
                    continue
                line = a.construct.line()
                shared = [c for c in b.construct.line() if c in line]
                if a.at < b.at and not self._wait_between(a, b):
                    return self._before(b, shared[-1])
                for c in shared:
                    if c.loop and not self._wait_between_rounds(a, b, c):
                        return self._before(b, c)
        return None

    def _before(self, b: Access, around: Construct) -> Lack:
        """The place before `b`, or before the part of `around` that it is in."""
        line = b.construct.line()
        inside = line[line.index(around) + 1 :]
        return Lack(inside[0].before if inside else b.at, around)

    def _wait_between(self, a: Access, b: Access) -> bool:
        lines = (*a.construct.line(), *b.construct.line())
        return any(a.at < w.at < b.at and w.around in lines for w in self._waits)

    def _wait_between_rounds(self, a: Access, b: Access, loop: Construct) -> bool:
        """Whether there is a barrier after `a` in a round of a loop, or before `b` in the next."""
        after, before = a.construct.line(), b.construct.line()
        return any(
            loop in w.around.line()
            and ((w.at > a.at and w.around in after) or (w.at < b.at and w.around in before))
            for w in self._waits
        )
