"""The code in modules of IREE's virtual machine: where it lies, and its instructions.

The layout is that of IREE's `bytecode_module_def.fbs`; the instruction sets of its versions are
in `versions/`.
"""

from __future__ import annotations

import functools
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from xpr.lowering.iree import versions

_IDENTIFIER = b"IREE"
_ZIP_RECORD, _ZIP_DIRECTORY = b"PK\x03\x04", b"PK\x01\x02"
# The fields of the module's table.
_FUNCTIONS, _BYTECODE_VERSION, _BYTECODE = 12, 13, 14
# Offset and length of a function's code, and twelve bytes more.
_FUNCTION = struct.Struct("<ii12x")

_BYTECODES = {version.bytecode.version: version.bytecode for version in versions.KNOWN.values()}
"""The instruction sets that are known, by their versions."""

CONST_I32 = 0x0D

_KINDS = dict.fromkeys("iIrx", "r") | dict.fromkeys("4tVWvkfb", "4")
"""The kinds of operands that lie in the code alike: registers, and operands of four bytes."""


@functools.cache
def _operands(version: int) -> dict[int, str]:
    """The kinds of operands of each instruction: r, 4, or one of the other letters of the table."""
    return {
        code: "".join(_KINDS.get(kind, kind) for kind in opcode.form)
        for code, opcode in _BYTECODES[version].instructions.items()
    }


_WIDTHS = {"r": 2, "4": 4, "8": 8}


class UnknownCodeError(Exception):
    """The module is not of the kind that is described here."""


class UnknownVersionError(Exception):
    """The module is for a version of IREE's virtual machine that xpr does not know."""

    def __init__(self, version: int) -> None:
        super().__init__(
            f"version {version} of IREE's byte code; xpr knows version "
            f"{', '.join(map(str, _BYTECODES))}"
        )


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


class Function(NamedTuple):
    """The code of a function."""

    base: int
    """Where in the module it begins."""
    length: int
    version: int
    """The version of the instruction set."""


def functions(module: bytes) -> list[Function]:
    """The code of each function.

    Raises `UnknownVersionError` for another version of the byte code, else one of `ERRORS`.
    """
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

    version = struct.unpack_from("<I", module, field(_BYTECODE_VERSION))[0] >> 16
    if version not in _BYTECODES:
        raise UnknownVersionError(version)
    first, count = vector(_FUNCTIONS)
    code, _ = vector(_BYTECODE)
    found = [_FUNCTION.unpack_from(module, first + i * _FUNCTION.size) for i in range(count)]
    return [Function(code + start, length, version) for start, length in found]


def instructions(module: bytes, function: Function) -> Iterator[Instruction]:
    """The instructions of a function; raises one of `ERRORS`."""
    base, length, version = function
    operands = _operands(version)
    at = 0
    while at < length:
        start, code = at, module[base + at]
        form = operands.get(code)
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
            if kind in "mlT":
                at += at % 2
                (size,) = struct.unpack_from("<H", module, base + at)
                at += 2
                if kind == "T":
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
