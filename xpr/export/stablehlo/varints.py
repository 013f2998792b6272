"""A cursor over bytes with MLIR bytecode's numbers; each read is checked against the end."""

from __future__ import annotations

from xpr.export.stablehlo.errors import StableHLOError


def truncated() -> StableHLOError:
    """The error for reads beyond the end."""
    return StableHLOError("the bytecode is damaged: it ends inside a value")


class Cursor:
    """A place in bytes."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, start: int = 0, end: int | None = None) -> None:
        self.data = data
        self.end = len(data) if end is None else end
        self.at = start
        if not 0 <= start <= self.end <= len(data):
            raise truncated()

    @property
    def left(self) -> int:
        """The bytes that are left."""
        return self.end - self.at

    def byte(self) -> int:
        """The next byte."""
        if self.at >= self.end:
            raise truncated()
        self.at += 1
        return self.data[self.at - 1]

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if not 0 <= count <= self.end - self.at:
            raise truncated()
        self.at += count
        return self.data[self.at - count : self.at]

    def varint(self) -> int:
        """An unsigned number: zeros at the low end of the first byte say how many bytes follow."""
        first = self.byte()
        if first & 1:
            return first >> 1
        if first == 0:
            return int.from_bytes(self.take(8), "little")
        more = (first & -first).bit_length() - 1
        value = first | int.from_bytes(self.take(more), "little") << 8
        return value >> (more + 1)

    def signed(self) -> int:
        """A signed number, zigzag."""
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def flagged(self) -> tuple[int, bool]:
        """A number and a flag."""
        value = self.varint()
        return value >> 1, bool(value & 1)

    def count(self) -> int:
        """A number of things, each of which takes a byte at least."""
        value = self.varint()
        if value > self.left:
            raise truncated()
        return value

    def string(self) -> bytes:
        """Bytes up to a zero."""
        stop = self.data.find(b"\0", self.at, self.end)
        if stop < 0:
            raise truncated()
        found = self.data[self.at : stop]
        self.at = stop + 1
        return found
