"""Objects in ELF, as LLVM writes them: the names of their kernels, their symbols, other names."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from xpr.lowering.no_runtime.refusal import require

QUERY = "iree_hal_executable_library_query"
_NAMES = f".data.rel.ro.{QUERY}_v0_names"
_SYMBOLS, _RELA, _REL = 2, 4, 9
_UNDEFINED = 0


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    offset: int
    size: int
    link: int
    info: int


@dataclass(frozen=True)
class _Symbol:
    place: int
    """Where in the file its entry lies."""
    name: str
    section: int
    value: int
    is_local: bool


class ElfObject:
    """A relocatable object of 32 or 64 bits, little-endian."""

    def __init__(self, data: bytes) -> None:
        require(data[:4] == b"\x7fELF" and data[5] == 1, "the kernels are not an object in ELF")
        self.data = data
        self.is_wide = data[4] == 2
        form = "<HHIQQQIHHHHHH" if self.is_wide else "<HHIIIIIHHHHHH"
        header = struct.unpack_from(form, data, 16)
        self.machine: int = header[1]
        self._table, self._entry, count, names = header[5], header[10], header[11], header[12]
        raw = [self._raw_section(i) for i in range(count)]
        texts = raw[names]
        self.sections = [
            _Section(self._text(texts[4] + r[0]), r[1], r[4], r[5], r[6], r[7]) for r in raw
        ]
        self._symbol_table = next(s for s in self.sections if s.kind == _SYMBOLS)

    def _raw_section(self, index: int) -> tuple[int, ...]:
        form = "<IIQQQQIIQQ" if self.is_wide else "<IIIIIIIIII"
        return struct.unpack_from(form, self.data, self._table + index * self._entry)

    def _text(self, place: int) -> str:
        return self.data[place : self.data.index(b"\0", place)].decode()

    def symbols(self) -> list[_Symbol]:
        """All symbols, in the order of the table."""
        table, found = self._symbol_table, []
        texts = self.sections[table.link].offset
        size = 24 if self.is_wide else 16
        for place in range(table.offset, table.offset + table.size, size):
            if self.is_wide:
                name, info, _, section, value, _ = struct.unpack_from("<IBBHQQ", self.data, place)
            else:
                name, value, _, info, _, section = struct.unpack_from("<IIIBBH", self.data, place)
            found.append(_Symbol(place, self._text(texts + name), section, value, info >> 4 == 0))
        return found

    def kernels(self) -> list[str]:
        """The names of the kernels, in the order of the library's table."""
        index = next((i for i, s in enumerate(self.sections) if s.name == _NAMES), None)
        require(index is not None, "the object has no table of kernels")
        assert index is not None
        symbols, found = self.symbols(), {}
        for section in self.sections:
            if section.info != index or section.kind not in (_RELA, _REL):
                continue
            form = {
                (True, _RELA): "<QQq",
                (False, _RELA): "<IIi",
                (True, _REL): "<QQ",
                (False, _REL): "<II",
            }[(self.is_wide, section.kind)]
            size = struct.calcsize(form)
            for place in range(section.offset, section.offset + section.size, size):
                offset, info, *addend = struct.unpack_from(form, self.data, place)
                symbol = symbols[info >> (32 if self.is_wide else 8)]
                more = addend[0] if addend else self._number_in(self.sections[index], offset)
                text = self.sections[symbol.section].offset + symbol.value + more
                found[offset] = self._text(text)
        return [found[offset] for offset in sorted(found)]

    def _number_in(self, section: _Section, offset: int) -> int:
        form = "<Q" if self.is_wide else "<I"
        return struct.unpack_from(form, self.data, section.offset + offset)[0]

    def undefined(self) -> list[str]:
        """The functions that the object calls and does not have."""
        return sorted(s.name for s in self.symbols() if s.section == _UNDEFINED and s.name)

    def code_size(self) -> int:
        """The bytes of machine code and of its constants."""
        parts = (".text", ".rodata")
        return sum(s.size for s in self.sections if s.kind == 1 and s.name.startswith(parts))

    def renamed(self, old: str, new: str) -> bytes:
        """The object with another name for a symbol, behind all else in the file."""
        table = self._symbol_table
        texts = self.sections[table.link]
        content = self.data[texts.offset : texts.offset + texts.size]
        data = bytearray(self.data)
        data += b"\0" * (-len(data) % 16)
        begin = len(data)
        data += content + new.encode() + b"\0"
        for symbol in self.symbols():
            if symbol.name == old:
                struct.pack_into("<I", data, symbol.place, len(content))
        place = self._table + table.link * self._entry
        form, offset = ("<QQ", 24) if self.is_wide else ("<II", 16)
        struct.pack_into(form, data, place + offset, begin, len(content) + len(new) + 1)
        return bytes(data)
