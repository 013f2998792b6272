"""A reader of flatbuffers: tables by slot number, each place checked against the end."""

from __future__ import annotations

import struct
from typing import Any

from xpr.export.stablehlo.errors import StableHLOError


def _damaged() -> StableHLOError:
    return StableHLOError("the exported function is damaged: an offset leads out of its bytes")


class Table:
    """A table of a flatbuffer."""

    def __init__(self, data: bytes, at: int, depth: int = 0) -> None:
        self._data, self._at, self._depth = data, at, depth
        if depth > 100:
            raise StableHLOError("the exported function is damaged: tables are nested too deeply")
        self._fields = at - self._number("<i", at)
        self._size = self._number("<H", self._fields)

    def _number(self, form: str, at: int) -> Any:
        if not 0 <= at <= len(self._data) - struct.calcsize(form):
            raise _damaged()
        return struct.unpack_from(form, self._data, at)[0]

    def _place(self, slot: int) -> int | None:
        entry = 4 + 2 * slot
        if entry + 2 > self._size:
            return None
        offset = self._number("<H", self._fields + entry)
        return self._at + offset if offset else None

    def number(self, slot: int, form: str = "<B", default: int = 0) -> int:
        """A number; `form` as in `struct`."""
        at = self._place(slot)
        return default if at is None else self._number(form, at)

    def _target(self, slot: int) -> int | None:
        at = self._place(slot)
        return None if at is None else at + self._number("<I", at)

    def table(self, slot: int) -> Table | None:
        """A table."""
        at = self._target(slot)
        return None if at is None else Table(self._data, at, self._depth + 1)

    def bytes(self, slot: int) -> bytes | None:
        """A string or a vector of bytes."""
        at = self._target(slot)
        return None if at is None else self._bytes_at(at)

    def _bytes_at(self, at: int) -> bytes:
        size = self._number("<I", at)
        if size > len(self._data) - at - 4:
            raise _damaged()
        return self._data[at + 4 : at + 4 + size]

    def string(self, slot: int) -> str | None:
        """A string."""
        found = self.bytes(slot)
        return None if found is None else found.decode("utf-8", "replace")

    def _items(self, slot: int, width: int) -> list[int] | None:
        at = self._target(slot)
        if at is None:
            return None
        count = self._number("<I", at)
        if count * width > len(self._data) - at - 4:
            raise _damaged()
        return [at + 4 + width * i for i in range(count)]

    def tables(self, slot: int) -> list[Table] | None:
        """A vector of tables."""
        places = self._items(slot, 4)
        if places is None:
            return None
        return [Table(self._data, p + self._number("<I", p), self._depth + 1) for p in places]

    def strings(self, slot: int) -> list[str]:
        """A vector of strings."""
        places = self._items(slot, 4) or []
        found = [self._bytes_at(p + self._number("<I", p)) for p in places]
        return [text.decode("utf-8", "replace") for text in found]

    def numbers(self, slot: int, form: str) -> list[int] | None:
        """A vector of numbers."""
        places = self._items(slot, struct.calcsize(form))
        return None if places is None else [self._number(form, p) for p in places]


def root(data: bytes) -> Table:
    """The root table."""
    if len(data) < 8:
        raise _damaged()
    return Table(data, struct.unpack_from("<I", data)[0])
