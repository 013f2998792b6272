"""What the processes of a program tell each other at a collective, in bytes."""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple

MEET, FAILED, ASK, STATE = range(4)
HEAD = struct.Struct("<BxxxIi")
"""What a message is, the run, and the tag for arrays."""

DIGESTS = 32
"""Bytes that name the circle, the program, the group and the collective, 8 each."""

START = HEAD.size + DIGESTS
"""Where operands begin in a message; other messages have their text there."""

_TAIL = struct.Struct("<H")
"""The length of the text that comes before it, after the operands. Processes that agree may still
have other texts, as these tell in which folder a program lies."""

_TEXT_BYTES = 1000
INLINE_BYTES = 2048
"""Operands up to this size go with the message that tells where a process is."""


def digest(*parts: object) -> bytes:
    """8 bytes that differ where the parts do."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()


class Meet(NamedTuple):
    """Where another process is, as it told."""

    run: int
    tag: int
    where: bytes
    """The digests."""
    message: bytes

    @property
    def _end(self) -> int:
        """Where the operands end."""
        message = self.message
        return len(message) - _TAIL.size - _TAIL.unpack_from(message, len(message) - _TAIL.size)[0]

    @property
    def payload(self) -> bytes:
        """The operands."""
        return self.message[START : self._end]

    def __str__(self) -> str:
        return self.message[self._end : -_TAIL.size].decode(errors="replace")


class Failure(NamedTuple):
    """A run that failed in another process."""

    process: int
    disagrees: bool
    """Whether processes were at different collectives."""
    text: str


class Circle:
    """Processes that run programs together, and their runs, which each of them counts."""

    def __init__(self, members: tuple[int, ...]) -> None:
        self.members = members
        self.name = digest("circle", members)
        self.runs = 0
        """The number of the last run that has begun."""
        self.failures: dict[int, Failure] = {}
        self.told: set[int] = set()
        """Runs whose failure the others know of."""


class Where:
    """What this process tells the others at a collective: the digests, and a text for messages."""

    __slots__ = ("digests", "inbox", "place", "tail", "text")

    def __init__(self, circle: Circle, program: str, group: bytes, what: bytes, text: str) -> None:
        said = text.encode()
        if len(said) > _TEXT_BYTES:
            said = said[: _TEXT_BYTES - 3] + b"..."
        self.digests = circle.name + digest("program", program) + group + what
        self.tail = said + _TAIL.pack(len(said))
        self.inbox = circle.name + group
        self.place = circle.name
        self.text = text

    def front(self, run: int, tag: int = 0) -> bytes:
        """What comes before the operands: the same in all processes that agree, but for the tag."""
        return HEAD.pack(MEET, run, tag) + self.digests
