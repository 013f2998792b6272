"""Compiled modules whose loops and branches lose no array.

IREE's compiler gives the arguments of blocks to registers, and lets the last use of a reference in
a branch move it: the register is null afterwards. Where a branch passes one reference several
times, and one of the arguments has the register that the reference is in already, that argument is
left out of the list of moves and found null: "ref is null", "indirect buffer reference slot 0 is
out range". Arrays share a reference when one allocation holds them, as it may the results of a
step. Which programs it meets depends on the registers alone, so that no form of StableHLO avoids
it: here such moves become copies, in the code of the module.

Only such moves may: nothing frees what is left in a register. So the moves are those of references
that are read behind the branch from the register that they were moved away from.

A module of a version that `vm_code.py` does not know is refused: nobody can say which of its moves
lose an array. A module with an instruction that is not listed stays as it is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from xpr.lowering.iree import vm_code
from xpr.lowering.iree.vm_code import Function, UnknownCodeError

_REFERENCE, _MOVE = 0x8000, 0x4000
_REGISTER = 0x3FFF


def with_copies(module: bytes) -> bytes:
    """`module` with copies for the moves in its branches that may lose a reference.

    Raises `vm_code.UnknownVersionError` for one of another version.
    """
    try:
        places = list(_losing_moves(module))
    except vm_code.ERRORS:
        return module
    if not places:
        return module
    changed = bytearray(module)
    for place in places:
        (source,) = struct.unpack_from("<H", changed, place)
        struct.pack_into("<H", changed, place, source & ~_MOVE)
    vm_code.renew_checksum(module, changed)
    return bytes(changed)


def _losing_moves(module: bytes) -> Iterator[int]:
    """The places of the registers that a branch moves and does not fill."""
    for function in vm_code.functions(module):
        yield from _losing_moves_of(module, function)


# What writes a reference to its last register; calls and branches write to lists of them.
_WRITERS = frozenset({0x08, 0x0A, 0x10, 0x11, 0x12, 0x1A, 0x1E, 0x21, 0x6C, 0x6D})
_YIELDING = frozenset({0x87, 0x88})
_CALLS = frozenset({0x58, 0x59}) | _YIELDING
# Behind these the next instruction is not reached: branches, returns, failures, yielding calls.
_ENDS = frozenset({0x56, 0x57, 0x5A, 0x5B, 0x5D, 0x61, 0x83}) | _YIELDING
_BLOCK = 0x79


@dataclass
class _Edge:
    """A way from one block to another: where to, and what is moved on the way."""

    target: int
    place: int = 0
    """Where in the module the list of moves begins."""
    pairs: tuple[int, ...] = ()
    """A source and a destination by turns."""
    filled: int = 0
    """The registers of references that are written, a bit for each, as in the sets below."""
    read: int = 0


@dataclass
class _Piece:
    """Instructions in a row that are reached from the first one."""

    reads: int = 0
    writes: int = 0
    edges: list[_Edge] = field(default_factory=list)
    live: int = 0
    """The references that are read in the block or behind it before they are written."""


def _references(registers: Iterable[int]) -> int:
    found = 0
    for r in registers:
        if r & _REFERENCE:
            found |= 1 << (r & _REGISTER)
    return found


def _losing_moves_of(module: bytes, function: Function) -> Iterator[int]:
    """The same for one function."""
    pieces = _pieces(module, function)
    _find_live(pieces)
    for piece in pieces.values():
        for edge in piece.edges:
            needed = pieces[edge.target].live & ~edge.filled
            for k, source in enumerate(edge.pairs[::2]):
                moves = source & _REFERENCE and source & _MOVE
                if moves and needed >> (source & _REGISTER) & 1:
                    yield edge.place + 4 * k


def _find_live(pieces: dict[int, _Piece]) -> None:
    """Fills in `live`, from the last block to the first, until nothing changes."""
    changed = True
    while changed:
        changed = False
        for start in sorted(pieces, reverse=True):
            piece = pieces[start]
            behind = 0
            for edge in piece.edges:
                behind |= edge.read | (pieces[edge.target].live & ~edge.filled)
            live = piece.reads | (behind & ~piece.writes)
            if live != piece.live:
                piece.live, changed = live, True


def _pieces(module: bytes, function: Function) -> dict[int, _Piece]:
    """The blocks of a function, by the place of their mark."""
    pieces: dict[int, _Piece] = {}
    piece = _Piece()  # what comes before the first mark is never read
    ended = True
    for found in vm_code.instructions(module, function):
        if found.code == _BLOCK:
            if not ended:
                piece.edges.append(_Edge(found.at))
            piece = pieces[found.at] = _Piece()
        registers, lists = list(found.registers), [words for _, words in found.lists]
        targets = [vm_code.number_at(module, place) for place in found.numbers]
        written = [registers.pop()] if found.code in _WRITERS else []
        if found.code in _CALLS:
            written += lists.pop()
        for some in (registers, *lists):
            piece.reads |= _references(some) & ~piece.writes
        piece.writes |= _references(written)
        for target, (place, pairs) in zip(targets, found.moves, strict=False):
            filled, read = _references(pairs[1::2]), _references(pairs[::2])
            piece.edges.append(_Edge(target, place, pairs, filled, read))
        if found.code in _YIELDING:
            piece.edges.append(_Edge(targets[-1]))
        ended = found.code in _ENDS
    if any(e.target not in pieces for p in pieces.values() for e in p.edges):
        raise UnknownCodeError
    return pieces
