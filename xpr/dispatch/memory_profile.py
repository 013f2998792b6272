"""The memory of live arrays as a profile that `pprof` reads.

The format is that of github.com/google/pprof, proto/profile.proto: a protocol buffer, compressed by
gzip. A sample has a stack of locations; here these are an array's type and its device.
"""

from __future__ import annotations

import gzip
from collections import Counter

from xpr.dispatch.inspection import live_arrays

# Field numbers of the messages.
_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRINGS = 1, 2, 4, 5, 6


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _nested(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


class _Profile:
    """A profile under construction; names are both functions and locations."""

    def __init__(self) -> None:
        self.body = bytearray()
        self.strings = {"": 0}
        self.places: dict[str, int] = {}

    def string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def sample_type(self, kind: str, unit: str) -> None:
        fields = _number(1, self.string(kind)) + _number(2, self.string(unit))
        self.body += _nested(_SAMPLE_TYPE, fields)

    def location(self, name: str) -> int:
        known = self.places.get(name)
        if known is None:
            known = self.places[name] = len(self.places) + 1
            line = _nested(4, _number(1, known))
            self.body += _nested(_FUNCTION, _number(1, known) + _number(2, self.string(name)))
            self.body += _nested(_LOCATION, _number(1, known) + line)
        return known

    def sample(self, stack: tuple[str, ...], *values: int) -> None:
        """Adds a sample; the stack begins with the innermost name."""
        places = b"".join(_number(1, self.location(name)) for name in stack)
        self.body += _nested(_SAMPLE, places + b"".join(_number(2, v) for v in values))

    def data(self) -> bytes:
        table = b"".join(_nested(_STRINGS, text.encode()) for text in self.strings)
        return gzip.compress(bytes(self.body) + table)


def memory_profile(platform: str | None) -> bytes:
    """Number and bytes of the live arrays, by type and device."""
    counts: Counter[tuple[str, ...]] = Counter()
    sizes: Counter[tuple[str, ...]] = Counter()
    for x in live_arrays(platform):
        kind = x.aval.strip_weak_type().str_short()
        for buffer in x._buffers:
            stack = (kind, str(buffer.device))
            counts[stack] += 1
            sizes[stack] += buffer.nbytes
    profile = _Profile()
    profile.sample_type("allocations", "count")
    profile.sample_type("space", "bytes")
    for stack, count in sorted(counts.items()):
        profile.sample(stack, count, sizes[stack])
    return profile.data()
