"""Bytes between MPI processes: short messages that anybody may send, and arrays as they lie.

No call waits inside of MPI: requests are begun here, and looked at until they are done. Short
messages go to receives that are always posted, in a ring. Arrays are sent and received in place,
under tags that the receiver gives out, so that what is left over of a failed collective never
meets a later one. Memory that a request may still use is kept until the request has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from xpr.runtimes.collectives.base import Array

MESSAGE_BYTES = 3800
"""The longest short message. MPI's own way to send one at once takes 4 KiB."""

_RING = 16
_CONTROL = 2
_FIRST_TAG = 16
_LARGEST = 1 << 26
"""Bytes of one transfer: MPI counts in 32 bits, and progress shows in transfers that end."""


class Transfer:
    """An array on its way to another process or from it."""

    __slots__ = ("array", "is_receive", "process", "request")

    def __init__(self, request: Any, array: Array, process: int, is_receive: bool) -> None:
        self.request = request
        self.array = array  # alive for as long as MPI may touch it
        self.process = process
        self.is_receive = is_receive


class Wire:
    """Short messages and arrays between the processes of a communicator that nobody else uses.

    `MPI` is the module `mpi4py.MPI`; `lock` is held in every call of it. Methods are called by one
    thread at a time.
    """

    def __init__(self, MPI: Any, communicator: Any) -> None:
        self._mpi = MPI
        self._comm = communicator
        self._byte = MPI.BYTE
        self._status = MPI.Status()
        limit = communicator.Get_attr(MPI.TAG_UB) or 32767
        self._tags = range(_FIRST_TAG, min(int(limit), 1 << 30) - 2, 2)
        self._next_tag = 0
        self._outgoing: list[tuple[Any, bytes]] = []
        self._left_over: list[Transfer] = []
        self._ring = [bytearray(MESSAGE_BYTES) for _ in range(_RING)]
        self._views = [memoryview(b) for b in self._ring]
        self._posted = [
            communicator.Recv_init([b, MESSAGE_BYTES, MPI.BYTE], MPI.ANY_SOURCE, _CONTROL)
            for b in self._ring
        ]
        for request in self._posted:
            request.Start()
        self._at = 0

    # ---- short messages

    @property
    def is_sending(self) -> bool:
        """Whether a message may not have left yet."""
        return bool(self._outgoing)

    def post(self, process: int, message: bytes) -> None:
        """Begins to send a short message."""
        request = self._comm.Isend([message, len(message), self._byte], process, _CONTROL)
        if not request.Test():
            self._outgoing.append((request, message))

    def post_all(self, processes: Iterable[int], message: bytes) -> None:
        """Begins to send the same short message to some processes."""
        send = [message, len(message), self._byte]
        for process in processes:
            request = self._comm.Isend(send, process, _CONTROL)
            if not request.Test():
                self._outgoing.append((request, message))

    def arrived(self) -> list[tuple[int, bytes]]:
        """The messages that have come since the last call: the sender and the bytes of each."""
        found: list[tuple[int, bytes]] = []
        posted = self._posted
        status = self._status
        while posted[self._at].Test(status):
            at = self._at
            size = status.Get_count(self._byte)
            found.append((status.Get_source(), bytes(self._views[at][:size])))
            posted[at].Start()
            self._at = (at + 1) % _RING
        return found

    def flush(self) -> bool:
        """Whether all messages have left. It never waits."""
        if self._outgoing:
            self._outgoing = [m for m in self._outgoing if not m[0].Test()]
        if self._left_over:
            self._left_over = [t for t in self._left_over if not self.is_done(t)]
        return not self._outgoing

    # ---- arrays

    def tag(self) -> int:
        """A tag for what others send, and the next number for a second stream of it."""
        found = self._tags[self._next_tag]
        self._next_tag = (self._next_tag + 1) % len(self._tags)
        return found

    def send(self, process: int, tag: int, array: Array) -> list[Transfer]:
        """Begins to send the memory of a contiguous array."""
        return self._begin(self._comm.Isend, process, tag, array, False)

    def receive(self, process: int, tag: int, array: Array) -> list[Transfer]:
        """Begins to receive into the memory of a contiguous array."""
        return self._begin(self._comm.Irecv, process, tag, array, True)

    def _begin(
        self, call: Callable[..., Any], process: int, tag: int, array: Array, receive: bool
    ) -> list[Transfer]:
        raw = array.reshape(-1).view(np.uint8)
        size = raw.nbytes
        found: list[Transfer] = []
        for start in range(0, size, _LARGEST):
            part = raw[start : start + _LARGEST]
            request = call([part, part.nbytes, self._byte], process, tag)
            found.append(Transfer(request, part, process, receive))
        return found

    def is_done(self, transfer: Transfer) -> bool:
        """Whether the transfer has ended. It never waits."""
        return transfer.request.Test()

    def give_up(self, transfers: Sequence[Transfer]) -> list[Transfer]:
        """Cancels what has not begun to arrive; the transfers that MPI may still be busy with."""
        busy: list[Transfer] = []
        for transfer in transfers:
            if transfer.is_receive:
                transfer.request.Cancel()
            if not self.is_done(transfer):
                busy.append(transfer)
        return busy

    def keep(self, transfers: Sequence[Transfer]) -> None:
        """Keeps the memory of transfers that nobody waits for any more until they end."""
        self._left_over += transfers

    def close(self) -> None:
        """Takes the posted receives back: nobody sends messages any more."""
        for request in self._posted:
            request.Cancel()
            request.Wait()
            request.Free()
        self._posted = []
