"""Reads and writes GGUF files, version 2 and 3: metadata, and arrays that stay mapped.

Nothing in a file is trusted: counts, lengths and places are compared with what the file has room
for before anything is read or made, and `GgufError` says what is wrong.
"""

from __future__ import annotations

import itertools
import math
import mmap
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np

from xpr.nn.quantize import QuantizedArray, from_blocks

MAGIC = b"GGUF"
_NUMBERS = dict(enumerate(("B", "b", "H", "h", "I", "i", "f", "?", "", "", "Q", "q", "d")))
_TEXT, _ARRAY = 8, 9
_PLAIN = {0: np.float32, 1: np.float16, 24: np.int8, 25: np.int16, 26: np.int32, 28: np.float64}
_PLAIN |= {27: np.int64, 30: ml_dtypes.bfloat16}
# Layouts of blocks by their numbers in files: name, numbers and bytes of a block.
_BLOCKS = {2: ("q4_0", 32, 18), 8: ("q8_0", 32, 34), 12: ("q4_k", 256, 144), 14: ("q6_k", 256, 210)}
_UNKNOWN = dict(
    enumerate("F32 F16 Q4_0 Q4_1 ? ? Q5_0 Q5_1 Q8_0 Q8_1 Q2_K Q3_K Q4_K Q5_K Q6_K".split())
)
_DEEPEST, _MOST_AXES, _LONGEST_NAME = 4, 4, 1 << 16


class GgufError(ValueError):
    """A file is damaged, or needs what this reader does not know."""


@dataclass
class Gguf:
    """A file's metadata, and its arrays by name: NumPy's, or `QuantizedArray`s of mapped blocks."""

    metadata: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Any] = field(default_factory=dict)


class _Reader:
    def __init__(self, data: Any) -> None:
        self.data, self.at, self.size = data, 0, len(data)

    def take(self, count: int) -> int:
        """Moves past so many bytes; returns where they begin."""
        if count > self.size - self.at:
            raise GgufError(f"the file ends at byte {self.size}, before {count} bytes at {self.at}")
        self.at += count
        return self.at - count

    def number(self, form: str) -> Any:
        form = f"<{form}"
        return struct.unpack_from(form, self.data, self.take(struct.calcsize(form)))[0]

    def text(self) -> str:
        length = self.number("Q")
        start = self.take(length)
        # Tokens may be parts of characters.
        return bytes(self.data[start : start + length]).decode("utf-8", "surrogateescape")

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind == _TEXT:
            return self.text()
        if kind == _ARRAY:
            if depth == _DEEPEST:
                raise GgufError(f"arrays of metadata lie more than {_DEEPEST} deep")
            inner, count = self.number("I"), self.number("Q")
            if _NUMBERS.get(inner):
                form = np.dtype(f"<{_NUMBERS[inner]}".replace("<?", "?"))
                start = self.take(count * form.itemsize)
                return np.frombuffer(self.data, form, count, start).tolist()
            if count > self.size - self.at:  # each takes some bytes
                raise GgufError(f"an array of {count} values does not fit into the file")
            return [self.value(inner, depth + 1) for _ in range(count)]
        if not _NUMBERS.get(kind):
            raise GgufError(f"metadata has values of the unknown type {kind}")
        return self.number(_NUMBERS[kind])


def read(path: str | Path) -> Gguf:
    """The file at `path`. Raises GgufError if it is not a whole GGUF file."""
    with open(path, "rb") as file:
        try:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError as error:
            raise GgufError(f"{path} is empty") from error
    return parse(data)


def parse(data: Any) -> Gguf:
    """What `read` gives, of bytes."""
    reader = _Reader(data)
    if bytes(data[:4]) != MAGIC:
        raise GgufError("the file does not begin with GGUF")
    reader.take(4)
    if (version := reader.number("I")) not in (2, 3):
        raise GgufError(f"the file has version {version}; 2 and 3 are known")
    arrays, count = reader.number("Q"), reader.number("Q")
    found = Gguf()
    for _ in range(count):
        key = reader.text()
        if len(key) > _LONGEST_NAME or key in found.metadata:
            raise GgufError(f"metadata has a name twice, or one that is too long: {key[:80]!r}")
        found.metadata[key] = reader.value(reader.number("I"))
    listed = [_listed(reader) for _ in range(arrays)]
    alignment = found.metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20 or alignment & alignment - 1:
        raise GgufError(f"general.alignment must be a power of two, got {alignment!r}")
    begin = -(-reader.at // alignment) * alignment
    places: list[tuple[int, int, str]] = []
    for name, shape, kind, offset in listed:
        if name in found.arrays:
            raise GgufError(f"there are two arrays {name!r}")
        if offset % alignment:
            raise GgufError(f"array {name!r} begins at {offset}, no multiple of {alignment}")
        size, made = _array(data, name, shape, kind, begin + offset)
        places.append((offset, offset + size, name))
        found.arrays[name] = made
    places.sort()
    for (_, end, first), (start, _, second) in itertools.pairwise(places):
        if end > start:
            raise GgufError(f"arrays {first!r} and {second!r} overlap")
    return found


def _listed(reader: _Reader) -> tuple[str, tuple[int, ...], int, int]:
    name, rank = reader.text(), reader.number("I")
    if rank > _MOST_AXES:
        raise GgufError(f"array {name[:80]!r} has {rank} axes; {_MOST_AXES} are the most")
    shape = tuple(reader.number("Q") for _ in range(rank))[::-1]
    return name, shape, reader.number("I"), reader.number("Q")


def _array(data: Any, name: str, shape: tuple[int, ...], kind: int, start: int) -> tuple[int, Any]:
    if kind in _BLOCKS:
        layout, numbers, block = _BLOCKS[kind]
        if not shape or shape[-1] % numbers:
            raise GgufError(f"array {name!r} of shape {shape} is not of whole blocks of {layout}")
        dtype, stored = np.dtype(np.uint8), (*shape[:-1], shape[-1] // numbers * block)
    elif kind in _PLAIN:
        layout, dtype, stored = "", np.dtype(_PLAIN[kind]), shape
    else:
        raise GgufError(f"array {name!r} has the unknown type {kind} ({_UNKNOWN.get(kind, '?')})")
    size = math.prod(stored) * dtype.itemsize
    if start + size > len(data):
        raise GgufError(f"array {name!r} of {size} bytes reaches beyond the end of the file")
    flat = np.frombuffer(data, dtype, math.prod(stored), start) if size else np.empty(0, dtype)
    made = flat.reshape(stored)
    return size, from_blocks(made, layout) if layout else made


# ---- writing


def write(path: str | Path, metadata: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Writes a file of version 3; arrays are NumPy's, or `QuantizedArray`s in GGUF's layouts."""
    kinds = {layout: kind for kind, (layout, _, _) in _BLOCKS.items()}
    plain = {np.dtype(dtype): kind for kind, dtype in _PLAIN.items()}
    offset, contents = 0, []
    with open(path, "wb") as file:
        file.write(MAGIC + struct.pack("<IQQ", 3, len(arrays), len(metadata)))
        for key, value in metadata.items():
            _put_text(file, key)
            _put(file, value)
        for name, x in arrays.items():
            quantized = isinstance(x, QuantizedArray)
            content = np.ascontiguousarray(x.parts[0] if quantized else x)
            kind = kinds[str(x.format)] if quantized else plain[content.dtype]
            _put_text(file, name)
            shape = x.shape[::-1]
            file.write(struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset))
            contents.append(content)
            offset += -(-content.nbytes // 32) * 32
        for content in contents:
            file.write(bytes(-file.tell() % 32))
            file.write(content.tobytes())


def _put_text(file: BinaryIO, text: str) -> None:
    data = text.encode("utf-8", "surrogateescape")
    file.write(struct.pack("<Q", len(data)) + data)


def _kind(value: Any) -> int:
    if type(value) is int and value < 0:
        return 5
    return {bool: 7, int: 4, float: 6, str: _TEXT, list: _ARRAY}[type(value)]


def _put(file: BinaryIO, value: Any) -> None:
    """A value with its type in front."""
    kind = _kind(value)
    file.write(struct.pack("<I", kind))
    _put_bare(file, value, kind)


def _put_bare(file: BinaryIO, value: Any, kind: int) -> None:
    if kind == _TEXT:
        _put_text(file, value)
    elif kind == _ARRAY:
        items: list[Any] = value
        inner = 5 if all(type(v) is int for v in items) else _kind(items[0])
        file.write(struct.pack("<IQ", inner, len(items)))
        for item in items:
            _put_bare(file, item, inner)
    else:
        file.write(struct.pack(f"<{_NUMBERS[kind]}", value))
