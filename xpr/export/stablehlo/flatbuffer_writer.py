"""A writer of flatbuffers: tables before what they refer to, so that all offsets lead forwards."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple


class Number(NamedTuple):
    """A number; `form` as in `struct`."""

    form: str
    value: int


class Numbers(NamedTuple):
    """A vector of numbers; `form` as in `struct`."""

    form: str
    values: Sequence[int]


class Record(NamedTuple):
    """A table: its fields by slot. None leaves a field out."""

    fields: dict[int, Any]


class _Buffer:
    def __init__(self) -> None:
        self.data = bytearray()

    def align(self, size: int) -> None:
        self.data += bytes(-len(self.data) % size)

    def reference(self, at: int, value: Any) -> None:
        """Places a value, and writes where it is."""
        place = self.place(value)
        struct.pack_into("<I", self.data, at, place - at)

    def place(self, value: Any) -> int:
        """Where a value is, after it was written."""
        if isinstance(value, Record):
            return self._table(value)
        self.align(4)
        at = len(self.data)
        if isinstance(value, str | bytes):
            raw = value.encode() if isinstance(value, str) else value
            self.data += struct.pack("<I", len(raw)) + raw
            self.data += b"\0" if isinstance(value, str) else b""
        elif isinstance(value, Numbers):
            self.data += struct.pack("<I", len(value.values))
            self.data += struct.pack(f"<{len(value.values)}{value.form}", *value.values)
        else:
            self.data += struct.pack("<I", len(value)) + bytes(4 * len(value))
            for i, each in enumerate(value):
                self.reference(at + 4 + 4 * i, each)
        return at

    def _table(self, record: Record) -> int:
        fields = {slot: v for slot, v in record.fields.items() if v is not None}
        count = max(fields, default=-1) + 1
        sizes = {s: _size(v) for s, v in fields.items()}
        places: dict[int, int] = {}
        end = 4
        for slot in sorted(fields, key=lambda s: -sizes[s]):
            places[slot], end = end, end + sizes[slot]
        self.align(4)
        self.data += bytes(-(4 + 2 * count) % 4)
        start = len(self.data)
        self.data += struct.pack("<HH", 4 + 2 * count, end)
        self.data += struct.pack(f"<{count}H", *(places.get(s, 0) for s in range(count)))
        at = len(self.data)
        self.data += struct.pack("<i", at - start) + bytes(end - 4)
        for slot, value in fields.items():
            if isinstance(value, Number):
                struct.pack_into(f"<{value.form}", self.data, at + places[slot], value.value)
        for slot, value in fields.items():
            if not isinstance(value, Number):
                self.reference(at + places[slot], value)
        return at


def _size(value: Any) -> int:
    return struct.calcsize(value.form) if isinstance(value, Number) else 4


def flatbuffer(root: Record) -> bytes:
    """The bytes of a buffer with this table as its root.

    >>> from xpr.export.stablehlo.flatbuffer import root
    >>> table = root(flatbuffer(Record({0: "name", 2: Number("H", 7), 3: Numbers("I", [1, 2])})))
    >>> table.string(0), table.number(2, "<H"), table.numbers(3, "<I"), table.string(1)
    ('name', 7, [1, 2], None)
    """
    buffer = _Buffer()
    buffer.data += bytes(4)
    buffer.reference(0, root)
    return bytes(buffer.data)
