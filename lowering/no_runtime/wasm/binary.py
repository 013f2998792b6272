"""WebAssembly's binary format: sections of a module, read and written."""

from __future__ import annotations

from dataclasses import dataclass

from xpr.lowering.no_runtime.refusal import require

MAGIC = b"\0asm\1\0\0\0"
CUSTOM, TYPE, IMPORT, FUNCTION, TABLE, MEMORY, GLOBAL, EXPORT, START = range(9)
ELEMENT, CODE, DATA, DATA_COUNT = 9, 10, 11, 12
ORDER = (TYPE, IMPORT, FUNCTION, TABLE, MEMORY, GLOBAL, EXPORT, START)
ORDER = (*ORDER, ELEMENT, DATA_COUNT, CODE, DATA)
I32, I64 = 0x7F, 0x7E


def unsigned(value: int) -> bytes:
    """A number in LEB128."""
    made = bytearray()
    while True:
        byte, value = value & 0x7F, value >> 7
        made.append(byte | (0x80 if value else 0))
        if not value:
            return bytes(made)


def signed(value: int) -> bytes:
    """A number in signed LEB128."""
    made = bytearray()
    while True:
        byte, value = value & 0x7F, value >> 7
        done = value == (-1 if byte & 0x40 else 0)
        made.append(byte | (0 if done else 0x80))
        if done:
            return bytes(made)


def sized(data: bytes) -> bytes:
    """Bytes with their number in front."""
    return unsigned(len(data)) + data


def vector(items: list[bytes]) -> bytes:
    """Items with their number in front."""
    return unsigned(len(items)) + b"".join(items)


def function_type(parameters: list[int], results: list[int]) -> bytes:
    """The type of a function."""
    return b"\x60" + sized(bytes(parameters)) + sized(bytes(results))


class Reader:
    """Reads numbers and texts one after the other."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _leb128(self) -> tuple[int, int]:
        """A number without its sign, and how many bits it was written with."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value, shift

    def number(self) -> int:
        return self._leb128()[0]

    def signed(self) -> int:
        value, bits = self._leb128()
        return value - (1 << bits) if value >> (bits - 1) else value

    def bytes(self) -> bytes:
        size = self.number()
        self.at += size
        return self.data[self.at - size : self.at]

    def text(self) -> str:
        return self.bytes().decode()


@dataclass(frozen=True)
class Export:
    """What a module exports."""

    name: str
    kind: int
    index: int

    def encoded(self) -> bytes:
        return sized(self.name.encode()) + bytes([self.kind]) + unsigned(self.index)


class Module:
    """A linked module without imports."""

    def __init__(self, data: bytes) -> None:
        require(data.startswith(MAGIC), "the kernels are not a module in WebAssembly")
        self.sections: dict[int, bytes] = {}
        self.names: dict[int, str] = {}
        reader = Reader(data, len(MAGIC))
        while reader.at < len(data):
            kind = reader.byte()
            content = reader.bytes()
            if kind != CUSTOM:
                self.sections[kind] = content
            elif content.startswith(sized(b"name")):
                self._read_names(Reader(content, 5))
        require(IMPORT not in self.sections, f"the kernels need imports: {self._imports()}")

    def _imports(self) -> str:
        reader = Reader(self.sections.get(IMPORT, b"\0"))
        found = [f"{reader.text()}.{reader.text()}" for _ in range(min(reader.number(), 1))]
        return ", ".join(found)

    def _read_names(self, reader: Reader) -> None:
        while reader.at < len(reader.data):
            kind, content = reader.byte(), Reader(reader.bytes())
            if kind == 1:
                for _ in range(content.number()):
                    index = content.number()
                    self.names[index] = content.text()

    def items(self, kind: int) -> tuple[int, bytes]:
        """How many items a section has, and their bytes."""
        reader = Reader(self.sections.get(kind, b"\0"))
        count = reader.number()
        return count, reader.data[reader.at :]

    def exports(self) -> list[Export]:
        reader = Reader(self.sections.get(EXPORT, b"\0"))
        return [
            Export(reader.text(), reader.byte(), reader.number()) for _ in range(reader.number())
        ]

    def global_value(self, index: int) -> int:
        """The number that a global begins with."""
        reader = Reader(self.sections[GLOBAL])
        for i in range(reader.number()):
            reader.at += 2  # type and whether it changes
            require(reader.byte() == 0x41, "a global is not a number")
            value = reader.signed()
            reader.at += 1
            if i == index:
                return value
        raise IndexError(index)

    def table(self) -> list[str]:
        """The names of the functions in the table, which begins at place 1."""
        reader = Reader(self.sections.get(ELEMENT, b"\0"))
        found: list[str] = []
        for _ in range(reader.number()):
            known = reader.number() == 0 and reader.byte() == 0x41 and reader.signed() == 1
            require(known and not found, "a table is not known")
            reader.at += 1
            for _ in range(reader.number()):
                index = reader.number()
                found.append(self.names.get(index, f"function {index}"))
        return found

    def encoded(self) -> bytes:
        found = [(k, self.sections[k]) for k in ORDER if k in self.sections]
        return MAGIC + b"".join(bytes([kind]) + sized(content) for kind, content in found)
