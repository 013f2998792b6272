"""The code in modules of IREE's virtual machine: where it lies, and its instructions.

The layout is that of IREE's `bytecode_module_def.fbs` and of its instruction set, version 17.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

VERSION = 17
_IDENTIFIER = b"IREE"
_ZIP_RECORD, _ZIP_DIRECTORY = b"PK\x03\x04", b"PK\x01\x02"
# The fields of the module's table.
_FUNCTIONS, _BYTECODE_VERSION, _BYTECODE = 12, 13, 14
# Offset and length of a function's code, and twelve bytes more.
_FUNCTION = struct.Struct("<ii12x")

CONST_I32 = 0x0D


def _operands() -> dict[int, str]:
    """What follows each instruction's code.

    r: a register; 4, 8: so many bytes; v: a list of registers; m: a list of moves; s: a string;
    t: a table of targets, each with moves.
    """
    table: dict[int, str] = {}

    def add(form: str, *codes: int | range) -> None:
        for c in codes:
            table.update(dict.fromkeys(c if isinstance(c, range) else (c,), form))

    # Globals, constants, lists, choices.
    add("4r", 0x00, 0x01, 0x04, 0x05, CONST_I32, 0x11)
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
    add("r4mt", 0x83)
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


class UnknownCodeError(Exception):
    """The module is not of the kind that is described here."""


ERRORS = (UnknownCodeError, struct.error, IndexError)
"""What is raised of bytes that are no module, or one of another kind."""


class Words(NamedTuple):
    """A list of registers, or of moves: of sources and destinations by turns."""

    place: int
    """Where in the module the first of them lies."""

    words: tuple[int, ...]


class Instruction(NamedTuple):
    """An instruction, and where in the module its operands lie."""

    at: int
    """Where in the function's code it begins."""

    code: int
    registers: tuple[int, ...]
    numbers: tuple[int, ...]
    """The places of its operands of four bytes."""

    lists: tuple[Words, ...]
    moves: tuple[Words, ...]


def functions(module: bytes) -> list[tuple[int, int]]:
    """Where the code of each function begins, and its length; raises one of `ERRORS`."""
    root = data_start(module) + 4  # after the size
    if module[root + 4 : root + 8] != _IDENTIFIER:
        raise UnknownCodeError
    table = root + struct.unpack_from("<I", module, root)[0]
    fields = table - struct.unpack_from("<i", module, table)[0]

    def field(index: int) -> int:
        (offset,) = struct.unpack_from("<H", module, fields + 4 + 2 * index)
        if not offset:
            raise UnknownCodeError
        return table + offset

    def vector(index: int) -> tuple[int, int]:
        place = field(index)
        place += struct.unpack_from("<I", module, place)[0]
        return place + 4, struct.unpack_from("<I", module, place)[0]

    if struct.unpack_from("<I", module, field(_BYTECODE_VERSION))[0] >> 16 != VERSION:
        raise UnknownCodeError
    first, count = vector(_FUNCTIONS)
    code, _ = vector(_BYTECODE)
    found = [_FUNCTION.unpack_from(module, first + i * _FUNCTION.size) for i in range(count)]
    return [(code + start, length) for start, length in found]


def instructions(module: bytes, base: int, length: int) -> Iterator[Instruction]:
    """The instructions of the function whose code begins at `base`; raises one of `ERRORS`."""
    at = 0
    while at < length:
        start, code = at, module[base + at]
        form = _OPERANDS.get(code)
        if form is None:
            raise UnknownCodeError
        at += 1
        registers: list[int] = []
        numbers: list[int] = []
        lists: list[Words] = []
        moves: list[Words] = []
        rest = list(reversed(form))
        while rest:
            kind = rest.pop()
            if kind in "mvt":
                at += at % 2
                (size,) = struct.unpack_from("<H", module, base + at)
                at += 2
                if kind == "t":
                    rest += ["m", "4"] * size
                    continue
                size *= 2 if kind == "m" else 1
                words = struct.unpack_from(f"<{size}H", module, base + at)
                (moves if kind == "m" else lists).append(Words(base + at, words))
                at += 2 * size
            elif kind == "s":
                at += 2 + struct.unpack_from("<H", module, base + at)[0]
            else:
                if kind == "r":
                    registers.append(struct.unpack_from("<H", module, base + at)[0])
                elif kind == "4":
                    numbers.append(base + at)
                at += _WIDTHS[kind]
        yield Instruction(start, code, tuple(registers), tuple(numbers), tuple(lists), tuple(moves))
    if at != length:
        raise UnknownCodeError


def number_at(module: bytes, place: int) -> int:
    """An operand of four bytes."""
    return struct.unpack_from("<I", module, place)[0]


def data_start(module: bytes) -> int:
    """Where the module's data begin: they are the first file of a ZIP file, not compressed."""
    if not module.startswith(_ZIP_RECORD):
        return 0
    name, extra = struct.unpack_from("<HH", module, 26)
    return 30 + name + extra


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
