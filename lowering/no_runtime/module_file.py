"""The parts of a compiled module's file: imports, exports, functions, constants.

The layout is that of IREE's `bytecode_module_def.fbs`, a FlatBuffer, as in the native part
(`runtimes/native/module_file.cpp`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from xpr.lowering.iree.vm_code import data_start
from xpr.lowering.no_runtime.refusal import require

_VERSION = 17
_IMPORTS, _EXPORTS, _SIGNATURES, _CONSTANTS, _STATE, _FUNCTIONS = 6, 7, 8, 9, 11, 12
_BYTECODE_VERSION, _BYTECODE = 13, 14
_FUNCTION_SIZE = 20


@dataclass(frozen=True)
class ImportedFunction:
    """A function of another module, with IREE's calling convention such as `0rI_r`."""

    name: str
    calling: str


@dataclass(frozen=True)
class FunctionCode:
    """The byte code of a function."""

    code: bytes
    calling: str


@dataclass(frozen=True)
class ModuleFile:
    """A module's file, read."""

    imports: tuple[ImportedFunction, ...]
    exports: dict[str, int]
    functions: tuple[FunctionCode, ...]
    constants: tuple[bytes, ...]


class _Table:
    """A table of the FlatBuffer."""

    def __init__(self, data: bytes, place: int) -> None:
        self._data, self._place = data, place
        self._fields = place - struct.unpack_from("<i", data, place)[0]
        self._count = (struct.unpack_from("<H", data, self._fields)[0] - 4) // 2

    def field(self, index: int) -> int:
        """The place of a field, or 0 for one that is left out."""
        if index >= self._count:
            return 0
        (distance,) = struct.unpack_from("<H", self._data, self._fields + 4 + 2 * index)
        return self._place + distance if distance else 0

    def number(self, index: int, form: str) -> int:
        place = self.field(index)
        return struct.unpack_from(form, self._data, place)[0] if place else 0

    def vector(self, index: int) -> tuple[int, int]:
        """The place of the first element, and their number."""
        place = self.field(index)
        if not place:
            return 0, 0
        place = self._follow(place)
        return place + 4, struct.unpack_from("<I", self._data, place)[0]

    def data(self, index: int) -> bytes:
        start, count = self.vector(index)
        return self._data[start : start + count]

    def text(self, index: int) -> str:
        return self.data(index).decode()

    def table(self, index: int) -> _Table:
        return _Table(self._data, self._follow(self.field(index)))

    def tables(self, index: int) -> list[_Table]:
        start, count = self.vector(index)
        return [_Table(self._data, self._follow(start + 4 * i)) for i in range(count)]

    def _follow(self, place: int) -> int:
        return place + struct.unpack_from("<I", self._data, place)[0]


def read_module(module: bytes) -> ModuleFile:
    """Reads a module that IREE's compiler has just written.

    Raises `RefusedError` for another version of the format.
    """
    start = data_start(module)
    (size,) = struct.unpack_from("<I", module, start)
    data = module[start + 4 : start + 4 + size]
    require(data[4:8] == b"IREE", "the file is not a compiled module")
    root = _Table(data, struct.unpack_from("<I", data, 0)[0])
    version = root.number(_BYTECODE_VERSION, "<I") >> 16
    require(version == _VERSION, f"version {version} of IREE's byte code is not known")
    outside = start + ((4 + size + 63) & ~63)
    constants = []
    for constant in root.tables(_CONSTANTS):
        if constant.field(2):
            constants.append(constant.data(2))
        else:
            begin = outside + constant.number(3, "<Q")
            constants.append(module[begin : begin + constant.number(4, "<Q")])
    code, signatures = root.data(_BYTECODE), root.tables(_SIGNATURES)
    first, count = root.vector(_FUNCTIONS)
    functions = []
    for i in range(count):
        begin, length = struct.unpack_from("<II", data, first + i * _FUNCTION_SIZE)
        functions.append(FunctionCode(code[begin : begin + length], signatures[i].text(0)))
    return ModuleFile(
        tuple(ImportedFunction(t.text(0), t.table(1).text(0)) for t in root.tables(_IMPORTS)),
        {t.text(0): t.number(1, "<I") for t in root.tables(_EXPORTS)},
        tuple(functions),
        tuple(constants),
    )
