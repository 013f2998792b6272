"""Messages between the processes of an MPI communicator, without ever waiting inside of MPI.

A message has a kind and a key and may come in any order: threads that wait for different ones do
not disturb each other, because whoever looks takes in all that has come, for everybody.
"""

from __future__ import annotations

import json
import struct
import threading
from collections import defaultdict
from collections.abc import Hashable
from typing import Any

_TAG = 1
_HEADER = struct.Struct("<I")


class Mailbox:
    """The messages that this process sends to others and gets from them.

    `MPI` is the module `mpi4py.MPI`, `communicator` one that nobody else uses, and `lock` is held
    during every call of MPI.
    """

    def __init__(self, MPI: Any, communicator: Any, lock: Any) -> None:
        self._mpi = MPI
        self._comm = communicator
        self._mpi_lock = lock
        self._lock = threading.Lock()
        self._sending: list[tuple[Any, bytes]] = []
        self._arriving: list[tuple[Any, int, bytearray]] = []
        self._status = MPI.Status()
        self.found: defaultdict[Hashable, dict[int, tuple[str, bytes]]] = defaultdict(dict)
        """What has come, by its key and then by the process that sent it: a text and bytes."""

    def send(self, process: int, key: list[Any], text: str, payload: bytes = b"") -> None:
        """Begins to send a message; `key` holds strings and numbers."""
        header = json.dumps([key, text]).encode()
        data = _HEADER.pack(len(header)) + header + payload
        with self._mpi_lock:
            request = self._comm.Isend([data, self._mpi.BYTE], process, _TAG)
        with self._lock:
            self._sending.append((request, data))

    def poll(self) -> None:
        """Takes in what has come. Returns at once where another thread does it."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            with self._mpi_lock:
                self._look()
        finally:
            self._lock.release()

    def _look(self) -> None:
        status = self._status
        while True:
            message = self._comm.Improbe(self._mpi.ANY_SOURCE, _TAG, status)
            if message is None:
                break
            data = bytearray(status.Get_count(self._mpi.BYTE))
            source = status.Get_source()
            self._arriving.append((message.Irecv([data, self._mpi.BYTE]), source, data))
        if self._arriving:
            self._arriving = [m for m in self._arriving if not self._has_come(*m)]
        if self._sending:
            self._sending = [m for m in self._sending if not m[0].Test()]

    def _has_come(self, request: Any, source: int, data: bytearray) -> bool:
        if not request.Test():
            return False
        (size,) = _HEADER.unpack_from(data)
        start = _HEADER.size + size
        key, text = json.loads(data[_HEADER.size : start])
        self.found[tuple(key)][source] = (text, bytes(memoryview(data)[start:]))
        return True

    @property
    def is_sending(self) -> bool:
        """Whether a message has not left yet, as of the last `poll`."""
        return bool(self._sending)
