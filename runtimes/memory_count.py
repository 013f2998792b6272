"""Bytes of the buffers that live on a device, for drivers whose own count cannot be used."""

from __future__ import annotations

import threading
from collections import deque

_MANY = 1024
"""Changes that are kept before they are added up."""


class MemoryCount:
    """The bytes of all `Allocation`s that live, and the greatest number so far.

    Buffers end anywhere, also in the middle of a garbage collection, where nobody may wait for a
    lock. So each change is only noted, in one step that no thread can interrupt.
    """

    def __init__(self) -> None:
        self._changes: deque[int] = deque()
        self._lock = threading.Lock()
        self._used = self._peak = 0

    def note(self, change: int) -> None:
        """Notes that there are `change` bytes more."""
        self._changes.append(change)
        if change > 0 and len(self._changes) > _MANY and self._lock.acquire(blocking=False):
            try:
                self._add_up()
            finally:
                self._lock.release()

    def read(self) -> tuple[int, int]:
        """The bytes of what lives now, and their greatest number so far."""
        with self._lock:
            self._add_up()
            return self._used, self._peak

    def _add_up(self) -> None:
        changes = self._changes
        for _ in range(len(changes)):
            self._used += changes.popleft()
            self._peak = max(self._peak, self._used)


class Allocation:
    """Memory of a device that counts for as long as this object lives."""

    __slots__ = ("_count", "_nbytes")

    def __init__(self, count: MemoryCount, nbytes: int) -> None:
        self._count = count
        self._nbytes = nbytes
        count.note(nbytes)

    def __del__(self) -> None:
        self._count.note(-self._nbytes)
