"""Numbers as MLIR bytecode encodes them: the inverse of `varints.Cursor`."""

from __future__ import annotations

from collections.abc import Iterable

_WORD = (1 << 64) - 1


def varint(value: int) -> bytes:
    """An unsigned number: zeros at the low end of the first byte count the bytes that follow.

    >>> varint(3), varint(200)
    (b'\\x07', b'"\\x03')
    """
    if not 0 <= value <= _WORD:
        raise OverflowError(f"{value} does not fit in an unsigned number of 64 bits")
    size = max(1, -(-value.bit_length() // 7))
    if size > 8:
        return b"\0" + value.to_bytes(8, "little")
    return (value << size | 1 << (size - 1)).to_bytes(size, "little")


def signed(value: int) -> bytes:
    """A signed number of 64 bits, zigzag."""
    return varint((value << 1 ^ value >> 63) & _WORD)


def signed_list(values: Iterable[int]) -> bytes:
    """A count and signed numbers."""
    numbers = tuple(values)
    return varint(len(numbers)) + b"".join(map(signed, numbers))


def integer(value: int, width: int) -> bytes:
    """An integer of a known width: its bits, as MLIR writes an APInt."""
    bits = value & ((1 << width) - 1)
    if width <= 8:
        return bytes([bits])
    return signed(bits - (1 << 64) if bits >> 63 else bits)


def section(kind: int, content: bytes) -> bytes:
    """A section without an alignment."""
    return bytes([kind]) + varint(len(content)) + content
