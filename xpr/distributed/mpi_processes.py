"""The processes of an MPI job."""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import os
import socket
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any

from xpr.distributed.mailbox import Mailbox
from xpr.runtimes.collectives.base import CollectiveError, PeerError
from xpr.runtimes.collectives.places import Meetings
from xpr.runtimes.processes import DEFAULT, Processes, Timeout


@dataclass(frozen=True)
class Peer:
    """What is known of a process from the beginning."""

    host: str
    machine: str
    """What tells machines apart: hosts of the same name may be two."""
    pid: int
    started: str
    """When the process began, as its machine counts, so that its number is not taken for that of
    another; "" where that cannot be known."""
    cores: list[int]
    """The numbers of the cores that it may use."""


class MpiProcesses(Processes):
    """The processes of an MPI communicator, `MPI` being the module `mpi4py.MPI`."""

    def __init__(self, MPI: Any) -> None:
        self.MPI = MPI
        self.engine = f"MPI, {library_version(MPI)}"
        self.world = world = MPI.COMM_WORLD.Dup()
        """A communicator of all processes for whoever performs collectives."""
        self.index = world.Get_rank()
        self.count = world.Get_size()
        self.hosts = (0,) * self.count
        multiple = MPI.Query_thread() >= MPI.THREAD_MULTIPLE
        self._mpi_lock = None if multiple else threading.Lock()
        """Held during every call of MPI, where MPI does not take calls of several threads."""
        self.mailbox = Mailbox(MPI, world.Dup(), self._mpi_lock or nullcontext())
        self._lock = threading.Lock()
        self._numbers: defaultdict[str, int] = defaultdict(int)
        self._last: dict[int, tuple[str, float]] = {}
        self.has_failed = False
        """Whether this process has told the others that it failed."""
        self.failed_for_others = False
        """Whether it failed because another one did."""
        self._has_left = False
        self._meetings: Meetings | None = None
        self.peers: list[Peer] = []
        self._visible = [False] * self.count

    def meet(self, what: str, timeout: float) -> None:
        """Learns where the others are. All processes must come here before anything else."""
        pid = os.getpid()
        me = Peer(socket.gethostname(), _machine(), pid, _started(pid), _cores())
        found = self.gather(json.dumps(asdict(me)).encode(), what=what, timeout=timeout)
        self.peers = [Peer(**json.loads(text)) for text in found]
        machines = [p.machine for p in self.peers]
        order = list(dict.fromkeys(machines))
        self.hosts = tuple(order.index(m) for m in machines)
        self.cores = _share(me, self.peers)
        self._visible = [
            p.machine == me.machine and bool(p.started) and _started(p.pid) == p.started
            for p in self.peers
        ]

    # ---- meeting

    def gather(
        self,
        payload: bytes,
        *,
        what: str,
        members: Sequence[int] | None = None,
        timeout: Timeout = DEFAULT,
        channel: str = "",
    ) -> list[bytes]:
        if self.has_failed:
            raise CollectiveError(f"{what}: this process has told the others that it failed")
        if self._has_left:
            raise RuntimeError(f"{what}: this process has left the others by shutdown()")
        everybody = tuple(range(self.count)) if members is None else tuple(members)
        if self.index not in everybody or len(set(everybody)) < len(everybody):
            raise ValueError(
                f"{what} needs different processes, {self.index} among them, got {everybody}"
            )
        name = "all" if len(everybody) == self.count else _digest(everybody)
        if channel:
            name = f"{channel} {name}"
        with self._lock:
            number = self._numbers[name]
            self._numbers[name] += 1
        key = ["gather", name, number]
        for process in everybody:
            if process != self.index:
                self.mailbox.send(process, key, what, payload)
        here = self.mailbox.found[tuple(key)]
        here[self.index] = (what, payload)

        def done() -> bool:
            self.mailbox.poll()
            return len(here) == len(everybody) or any(t != what for t, _ in list(here.values()))

        self.wait_until(
            done,
            missing=lambda: [p for p in everybody if p not in here],
            what=what,
            timeout=timeout,
        )
        for process, (text, _) in sorted(here.items()):
            if text != what:
                raise CollectiveError(
                    f"{self.describe(self.index)} is at {what}, {self.describe(process)} at "
                    f"{text}: processes must do the same, in the same order"
                )
        del self.mailbox.found[tuple(key)]
        now = time.monotonic()
        for process in everybody:
            self._last[process] = (what, now)
        return [here[process][1] for process in everybody]

    @property
    def meetings(self) -> Meetings:
        if self._has_left:
            raise RuntimeError(
                "a program over several processes cannot run any more: this process has left the "
                "others by shutdown()"
            )
        found = self._meetings
        if found is None:
            # Loaded by programs that have collectives between processes.
            engine = importlib.import_module("xpr.runtimes.collectives.mpi")
            with self._lock:
                found = self._meetings
                if found is None:
                    with self._mpi_lock or nullcontext():
                        found = engine.MpiMeetings(self)
                    found.board.lock = self._mpi_lock or found.board.lock
                    self._meetings = found
        return found

    # ---- failures

    def fail(self, error: BaseException) -> None:
        with self._lock:
            if self.has_failed:
                return
            self.has_failed = True
        self.failed_for_others = isinstance(error, PeerError)
        text = "".join(traceback.format_exception_only(error)).strip()
        # Short messages are sent at once; long ones need the other process's help.
        trace = "".join(traceback.format_exception(error)).encode()[-_TRACE:]
        self._tell_all("failed", text[:_TRACE], trace)

    def end(self) -> None:
        """Tells the others that the program of this process has ended."""
        self._has_left = True
        self._tell_all("ended", "")

    def close(self) -> None:
        """Takes back what MPI holds, before its end."""
        if self._meetings is not None:
            self._meetings.close()

    def has_ended(self, process: int) -> bool:
        """Whether `process` has said that its program has ended."""
        return process in self.mailbox.found[("ended",)]

    def _tell_all(self, kind: str, text: str, payload: bytes = b"") -> None:
        for process in range(self.count):
            if process != self.index:
                self.mailbox.send(process, [kind], text, payload)

    def poll(self) -> None:
        self.mailbox.poll()
        if self._meetings is not None:
            self._meetings.poll()

    def failure_of(self, process: int) -> Exception | None:
        failed = self.mailbox.found[("failed",)].get(process)
        if failed is not None:
            text, trace = failed
            error = PeerError(f"{self.describe(process)} failed: {text}")
            error.add_note(
                f"What {self.describe(process)} raised:\n{trace.decode(errors='replace').rstrip()}"
            )
            return error
        if self.has_ended(process):
            return PeerError(f"{self.describe(process)} has ended")
        if process in self.mailbox.lost:
            return PeerError(f"{self.describe(process)} is gone: it was killed or has crashed")
        if self.peers and self._visible[process]:
            peer = self.peers[process]
            if _started(peer.pid) != peer.started:
                return PeerError(f"{self.describe(process)} is gone: it was killed or has crashed")
        return None

    def is_stopped(self, process: int) -> bool:
        """Whether somebody stopped `process` by a signal, as far as can be seen from here."""
        return bool(
            self.peers and self._visible[process] and _state(self.peers[process].pid) in ("T", "t")
        )

    # ---- messages

    def describe(self, process: int) -> str:
        if not self.peers:
            return f"process {process}"
        peer = self.peers[process]
        return f"process {process} (host {peer.host}, pid {peer.pid})"

    def whereabouts(self, process: int) -> str:
        found = []
        if self.is_stopped(process):
            found.append("stopped")
        elif self._meetings is not None:
            found += [state for state in [self._meetings.state_of(process)] if state]
        last = self._last.get(process)
        if last is not None:
            found.append(f"last met {time.monotonic() - last[1]:.0f} s ago at {last[0]}")
        return ", ".join(found)


_TRACE = 1500
"""Bytes of a traceback that others are told."""


def library_version(MPI: Any) -> str:
    """The name and version of the MPI library, such as `Open MPI v5.0.11`."""
    first = MPI.Get_library_version().strip().split("\n")[0].partition(",")[0]
    return " ".join(first.replace("Version:", "").split())


def _digest(members: tuple[int, ...]) -> str:
    return hashlib.sha256(repr(members).encode()).hexdigest()[:16]


def _machine() -> str:
    """A text that is the same for processes of one machine only."""
    name = socket.gethostname()
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{name} {file.read().strip()}"
    except OSError:
        return name


def _stat(pid: int) -> list[str]:
    """What Linux tells of a process, from its state on; nothing elsewhere, or of one that ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _cores() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _share(me: Peer, peers: Sequence[Peer]) -> int:
    """How many cores a process has when those that may use the same ones share them alike."""
    rivals = Counter(core for p in peers if p.machine == me.machine for core in p.cores)
    return max(1, math.floor(sum(1 / rivals[core] for core in me.cores) + 1e-6))


def _started(pid: int) -> str:
    """When a process of this machine began, as a text; "" for one that has ended.

    Elsewhere than on Linux it only tells that there is a process of that number.
    """
    if not os.path.isdir("/proc/self"):
        return "at some time" if _exists(pid) else ""
    fields = _stat(pid)
    return "" if not fields or fields[0] in "ZX" else fields[19]


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it is somebody else's
    return True


def _state(pid: int) -> str:
    fields = _stat(pid)
    return fields[0] if fields else ""
