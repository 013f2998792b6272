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

The layout is that of IREE's `bytecode_module_def.fbs` and of its instruction set, version 17. A
module of another version, or with an instruction that is not listed, stays as it is.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_VERSION = 17
_IDENTIFIER = b"IREE"
_ZIP_RECORD, _ZIP_DIRECTORY = b"PK\x03\x04", b"PK\x01\x02"
# The fields of the module's table.
_FUNCTIONS, _BYTECODE_VERSION, _BYTECODE = 12, 13, 14
# Offset and length of a function's code, and twelve bytes more.
_FUNCTION = struct.Struct("<ii12x")

_REFERENCE, _MOVE = 0x8000, 0x4000
_REGISTER = 0x3FFF


def _operands() -> dict[int, str]:
    """What follows each instruction's code.

    r: a register; 4, 8: so many bytes; v: a list of registers; m: a list of moves; s: a string.
    """
    table: dict[int, str] = {}

    def add(form: str, *codes: int | range) -> None:
        for c in codes:
            table.update(dict.fromkeys(c if isinstance(c, range) else (c,), form))

    # Globals, constants, lists, choices.
    add("4r", 0x00, 0x01, 0x04, 0x05, 0x0D, 0x11)
    add("rr", 0x02, 0x03, 0x06, 0x07)
    add("44r", 0x08, 0x09)
    add("r4r", 0x0A, 0x0B)
    add("r", 0x0C, 0x0E, 0x10)
    add("8r", 0x0F)
    add("4rr", 0x12)
    add("rr", range(0x13, 0x16))
    add("rrr", range(0x16, 0x1A), 0x1B)
    add("rr4r", 0x1A)
    add("rrrr", 0x1C, 0x1D)
    add("r4rrr", 0x1E)
    add("rrvr", 0x1F, 0x20)
    add("r4rvr", 0x21)
    # Arithmetic, conversions, comparisons.
    add("rrr", range(0x22, 0x40), range(0x49, 0x55), range(0x7A, 0x82))
    add("rrrr", 0x29, 0x31)
    add("rr", 0x32, 0x36, range(0x40, 0x49), 0x4D, 0x52, 0x55, range(0x75, 0x79))
    # Branches and calls.
    add("4m", 0x56, 0x5D, 0x61)
    add("r4m4m", 0x57)
    add("r4m", 0x60)
    add("4vv", 0x58)
    add("4vvv", 0x59)
    add("v", 0x5A, 0x85)
    add("rs", 0x5B)
    add("4r", 0x5C)
    add("sv", 0x5E, 0x5F)
    add("4v4v", 0x87)
    add("4vv4v", 0x88)
    # Buffers of the host, marks of blocks, references.
    add("rrr", range(0x62, 0x6D))
    add("rrrrr", 0x6D, 0x6F)
    add("rr", 0x6E, 0x86)
    add("rrrrrr", 0x70)
    add("rrrr", range(0x71, 0x75), 0x84)
    add("", 0x79)
    add("r4r", 0x82)
    return table


_OPERANDS = _operands()
_WIDTHS = {"r": 2, "4": 4, "8": 8}


class _UnknownError(Exception):
    """The module is not of the kind that is described here."""


def with_copies(module: bytes) -> bytes:
    """`module` with copies for the moves in its branches that may lose a reference."""
    try:
        places = list(_losing_moves(module))
    except (_UnknownError, struct.error, IndexError):
        return module
    if not places:
        return module
    changed = bytearray(module)
    for place in places:
        (source,) = struct.unpack_from("<H", changed, place)
        struct.pack_into("<H", changed, place, source & ~_MOVE)
    renew_checksum(module, changed)
    return bytes(changed)


def data_start(module: bytes) -> int:
    """Where the module's data begin: they are the first file of a ZIP file, not compressed."""
    if not module.startswith(_ZIP_RECORD):
        return 0
    name, extra = struct.unpack_from("<HH", module, 26)
    return 30 + name + extra


def _losing_moves(module: bytes) -> Iterator[int]:
    """The places of the registers that a branch moves and does not fill."""
    root = data_start(module) + 4  # after the size
    if module[root + 4 : root + 8] != _IDENTIFIER:
        raise _UnknownError
    table = root + struct.unpack_from("<I", module, root)[0]
    fields = table - struct.unpack_from("<i", module, table)[0]

    def field(index: int) -> int:
        (offset,) = struct.unpack_from("<H", module, fields + 4 + 2 * index)
        if not offset:
            raise _UnknownError
        return table + offset

    def vector(index: int) -> tuple[int, int]:
        place = field(index)
        place += struct.unpack_from("<I", module, place)[0]
        return place + 4, struct.unpack_from("<I", module, place)[0]

    if struct.unpack_from("<I", module, field(_BYTECODE_VERSION))[0] >> 16 != _VERSION:
        raise _UnknownError
    functions, count = vector(_FUNCTIONS)
    code, _ = vector(_BYTECODE)
    for i in range(count):
        start, length = _FUNCTION.unpack_from(module, functions + i * _FUNCTION.size)
        yield from _losing_moves_of(module, code + start, length)


# What writes a reference to its last register; calls and branches write to lists of them.
_WRITERS = frozenset({0x08, 0x0A, 0x10, 0x11, 0x12, 0x1A, 0x1E, 0x21, 0x6C, 0x6D})
_CALLS = frozenset({0x58, 0x59, 0x87, 0x88})
# Behind these the next instruction is not reached: branches, returns, failures, yielding calls.
_ENDS = frozenset({0x56, 0x57, 0x5A, 0x5B, 0x5D, 0x61, 0x87, 0x88})
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


def _losing_moves_of(module: bytes, base: int, length: int) -> Iterator[int]:
    """The same for the function whose code begins at `base`."""
    pieces = _pieces(module, base, length)
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


def _pieces(module: bytes, base: int, length: int) -> dict[int, _Piece]:
    """The blocks of the function whose code begins at `base`, by the place of their mark."""
    pieces: dict[int, _Piece] = {}
    piece = _Piece()  # what comes before the first mark is never read
    ended = True
    at = 0

    def number() -> int:
        nonlocal at
        at += at % 2
        (found,) = struct.unpack_from("<H", module, base + at)
        at += 2
        return found

    while at < length:
        code = module[base + at]
        form = _OPERANDS.get(code)
        if form is None:
            raise _UnknownError
        if code == _BLOCK:
            if not ended:
                piece.edges.append(_Edge(at))
            piece = pieces[at] = _Piece()
        at += 1
        registers: list[int] = []
        lists: list[tuple[int, ...]] = []
        words: list[int] = []
        edges: list[_Edge] = []
        for kind in form:
            if kind == "m":
                size = number()
                place = base + at
                pairs = struct.unpack_from(f"<{2 * size}H", module, place)
                filled, read = _references(pairs[1::2]), _references(pairs[::2])
                edges.append(_Edge(words.pop(), place, pairs, filled, read))
                at += 4 * size
            elif kind == "v":
                size = number()
                lists.append(struct.unpack_from(f"<{size}H", module, base + at))
                at += 2 * size
            elif kind == "s":
                at += 2 + struct.unpack_from("<H", module, base + at)[0]
            else:
                if kind == "r":
                    registers.append(struct.unpack_from("<H", module, base + at)[0])
                elif kind == "4":
                    words.append(struct.unpack_from("<I", module, base + at)[0])
                at += _WIDTHS[kind]
        written = [registers.pop()] if code in _WRITERS else []
        if code in _CALLS:
            written += lists.pop()
        for some in (registers, *lists):
            piece.reads |= _references(some) & ~piece.writes
        piece.writes |= _references(written)
        if code in (0x87, 0x88):
            edges.append(_Edge(words[-1]))
        piece.edges += edges
        ended = code in _ENDS
    if at != length or any(e.target not in pieces for p in pieces.values() for e in p.edges):
        raise _UnknownError
    return pieces


def renew_checksum(module: bytes, changed: bytearray) -> None:
    """Puts the check sum of the changed data into the ZIP file's two records of it."""
    if not module.startswith(_ZIP_RECORD):
        return
    start = data_start(module)
    (size,) = struct.unpack_from("<I", module, start)
    new = struct.pack("<I", zlib.crc32(changed[start : start + size]))
    listed = module.rfind(module[14:18])
    changed[14:18] = new
    if module[listed - 16 : listed - 12] == _ZIP_DIRECTORY:
        changed[listed : listed + 4] = new
