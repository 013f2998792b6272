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
        self.lost: set[int] = set()
        """Processes that MPI itself found gone; it looks for them if its launcher was told to."""

    def send(self, process: int, key: list[Any], text: str, payload: bytes = b"") -> None:
        """Begins to send a message; `key` holds strings and numbers."""
        header = json.dumps([key, text]).encode()
        data = _HEADER.pack(len(header)) + header + payload
        with self._mpi_lock:
            try:
                request = self._comm.Isend([data, self._mpi.BYTE], process, _TAG)
            except self._mpi.Exception as error:
                self._note_lost(error)
                return
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
        while True:
            try:
                if not self._take_one():
                    break
            except self._mpi.Exception as error:
                self._note_lost(error)
        if self._arriving:
            self._arriving = [m for m in self._arriving if not self._has_come(*m)]
        if self._sending:
            self._sending = [m for m in self._sending if not self._is_over(m[0])]

    def _take_one(self) -> bool:
        """Begins to receive a message, if there is one."""
        message = self._comm.Improbe(self._mpi.ANY_SOURCE, _TAG, self._status)
        if message is None:
            return False
        data = bytearray(self._status.Get_count(self._mpi.BYTE))
        source = self._status.Get_source()
        self._arriving.append((message.Irecv([data, self._mpi.BYTE]), source, data))
        return True

    def _is_over(self, request: Any) -> bool:
        """Whether a message has left, or cannot any more because its receiver is gone."""
        try:
            return request.Test()
        except self._mpi.Exception as error:
            self._note_lost(error)
            return True

    def _note_lost(self, error: Exception) -> None:
        """Takes in which processes are gone; raises an error of MPI that says something else."""
        gone = ("ERR_PROC_FAILED", "ERR_PROC_FAILED_PENDING")
        kinds = [getattr(self._mpi, name, None) for name in gone]
        if getattr(error, "Get_error_class", lambda: None)() not in kinds:
            raise error
        failed = self._comm.Get_failed()
        numbers = list(range(failed.Get_size()))
        self.lost.update(failed.Translate_ranks(numbers, self._comm.Get_group()))
        self._comm.Ack_failed()  # what the others send goes on coming

    def _has_come(self, request: Any, source: int, data: bytearray) -> bool:
        try:
            if not request.Test():
                return False
        except self._mpi.Exception as error:
            self._note_lost(error)
            return True
        (size,) = _HEADER.unpack_from(data)
        start = _HEADER.size + size
        key, text = json.loads(data[_HEADER.size : start])
        self.found[tuple(key)][source] = (text, bytes(memoryview(data)[start:]))
        return True

    @property
    def is_sending(self) -> bool:
        """Whether a message has not left yet, as of the last `poll`."""
        return bool(self._sending)
