"""The helper process: it has workers compile what is asked for, and never compiles that itself.

It has one thread and a loaded compiler, so that a worker, which is a fork of it, has all it needs.
As many workers as cores are kept for the next compiles. A compile that crashes takes its worker
with it; the one who asked is told the signal. Who goes away meanwhile has their compile ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xpr.lowering.iree import compiler_library, dispatches, driver, plugins
from xpr.lowering.iree.process import address, messages, worker

_WARM_UP_SECONDS = 2.0
"""How long nobody must have asked for anything before the helper prepares itself."""

_WAIT_SECONDS = 1.0
"""Who waits longer for workers that are all busy gets one more."""

_MOST = 4
"""How many workers there may be at most for each core."""

_REST_SECONDS = 60.0
"""Workers that were not needed for so long end, but for one."""

_OLDEST_SECONDS = 6 * 3600.0
"""A helper that is older, and has nothing to do, makes room for a new one."""

_TINY = """
func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %x, %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""


def serve(
    descriptor: str, path: str, library: str, digest: str, idle: str, flags: str, allowed: str
) -> None:
    """Serves at a listening socket until nobody has asked for `idle` seconds.

    `flags` and `allowed`, lists in JSON, are those of compiles to be ready for; all are of their
    kind (`address.kind`).
    """
    if os.fork():
        os._exit(0)  # whoever started this has no child process to wait for
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    address.raise_limits()
    os.umask(0o077)
    listener = socket.socket(fileno=int(descriptor))
    listener.setblocking(False)
    expected = json.loads(flags)
    compiler_library.load(Path(library), alone_for=expected, allowed=json.loads(allowed))
    files = (Path(__file__), Path(library), Path(sys.executable), Path(os.__file__))
    _Server(listener, Path(path), digest, float(idle), expected, files).run()


@dataclass(eq=False)
class _Worker:
    """A process that compiles, one program after the other."""

    process: int
    control: socket.socket
    """Takes connections to those who ask, and says when a compile has ended."""

    rested: float
    """Since when it has nothing to do."""

    connection: socket.socket | None = None
    """To the one whose program it compiles."""

    ending: bool = False
    """Whether it takes no more compiles."""


class _Server:
    def __init__(
        self,
        listener: socket.socket,
        path: Path,
        digest: str,
        idle: float,
        flags: list[str],
        files: Sequence[Path],
    ) -> None:
        self._listener = listener
        self._path = path
        self._inode = path.stat().st_ino
        self._digest = digest
        self._idle = idle
        self._cores = os.cpu_count() or 1
        self._workers: list[_Worker] = []
        self._greeted: dict[int, socket.socket] = {}
        self._waiting: deque[tuple[socket.socket, float]] = deque()
        self._begin = self._last = time.monotonic()
        self._flags = flags
        self._files = files
        """What it needs of its installation: a worker reads some files when it first needs them."""
        self._warm = False
        self._has_threads = False
        self._poll = select.poll()
        self._poll.register(listener, select.POLLIN)
        self._ended, waker = os.pipe()
        for end in (self._ended, waker):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        self._poll.register(self._ended, select.POLLIN)

    def run(self) -> None:
        while True:
            now = time.monotonic()
            busy = self._is_busy()
            if not busy and now >= min(self._last + self._idle, self._begin + _OLDEST_SECONDS):
                break
            events = self._poll.poll(self._timeout(now) * 1000)
            for descriptor, _ in events:
                if descriptor == self._listener.fileno():
                    self._accept()
                elif descriptor == self._ended:
                    self._reap()
                else:
                    self._heard(descriptor)
            if not events and not self._warm and not busy:
                self._warm_up()
            self._hand_out()
            self._dismiss()
        self._leave()

    def _is_busy(self) -> bool:
        return bool(self._waiting) or any(w.connection is not None for w in self._workers)

    def _timeout(self, now: float) -> float:
        """The seconds until something is to be done though nobody asks for it."""
        if self._waiting:
            return max(0.01, self._waiting[0][1] + _WAIT_SECONDS - now)
        if self._is_busy():
            return _REST_SECONDS
        rest = max(0.0, self._last + self._idle - now)
        return min(rest, _REST_SECONDS if self._warm else _WARM_UP_SECONDS)

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            connection, _ = self._listener.accept()
            if not address.is_own_user(connection):
                connection.close()
                return
            connection.setblocking(True)  # a greeting finds room in any socket
            greeting = {
                "digest": self._digest,
                "process": os.getpid(),
                "removed": not all(file.exists() for file in self._files),
            }
            messages.send(connection, greeting)
            self._greeted[connection.fileno()] = connection
            self._poll.register(connection, select.POLLIN)

    def _hand_out(self) -> None:
        """Gives those who wait a worker, as far as there are any."""
        while self._waiting:
            found = next((w for w in self._workers if w.connection is None and not w.ending), None)
            if found is None:
                waited = time.monotonic() - self._waiting[0][1]
                limit = self._cores if waited < _WAIT_SECONDS else self._cores * _MOST
                if len(self._workers) >= limit:
                    return
                found = self._hire()
            connection, _ = self._waiting.popleft()
            found.connection = connection
            with contextlib.suppress(OSError):  # it has died, which is heard of in its time
                socket.send_fds(found.control, [worker.TAKE], [connection.fileno()])

    def _hire(self) -> _Worker:
        here, there = socket.socketpair()
        child = os.fork()
        if not child:
            here.close()  # or the end of the helper would not be noticed
            self._begin_work(there)
        there.close()
        here.setblocking(False)
        hired = _Worker(child, here, time.monotonic())
        self._workers.append(hired)
        self._poll.register(here, select.POLLIN)
        return hired

    def _begin_work(self, control: socket.socket) -> None:
        """In the child: compiles until the helper has no more to do for it."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._listener.close()
            # What the others are told is none of this worker's business, nor may it keep their
            # connections open.
            for other in self._workers:
                other.control.close()
                if other.connection is not None:
                    other.connection.close()
            for connection in (*self._greeted.values(), *(c for c, _ in self._waiting)):
                connection.close()
            if not self._has_threads:
                compiler_library.adopt_threads()
            worker.work(control)
            status = 0
        finally:
            os._exit(status)

    def _heard(self, descriptor: int) -> None:
        """A worker has something to say, or somebody asks or has gone away."""
        greeted = self._greeted.pop(descriptor, None)
        if greeted is not None:
            self._asked(greeted)
            return
        for one in self._workers:
            if one.control.fileno() == descriptor:
                self._listen(one)
                return
        for one in self._workers:
            if one.connection is not None and one.connection.fileno() == descriptor:
                self._listen(one)  # whoever has an answer goes away, too
                if one.connection is not None:
                    self._forget(one)
                    one.ending = True
                    os.kill(one.process, signal.SIGKILL)
                return
        for entry in self._waiting:
            if entry[0].fileno() == descriptor:
                self._waiting.remove(entry)
                self._poll.unregister(descriptor)
                entry[0].close()
                return

    def _asked(self, connection: socket.socket) -> None:
        try:
            begins = connection.recv(1, socket.MSG_PEEK)
        except ConnectionError:
            begins = b""
        if begins:
            self._waiting.append((connection, time.monotonic()))
            # It is of no interest any more but that the other side goes away.
            self._poll.modify(connection, 0)
        else:
            self._poll.unregister(connection)
            connection.close()

    def _listen(self, one: _Worker) -> None:
        try:
            said = one.control.recv(16)
        except BlockingIOError:
            return
        except ConnectionError:
            said = b""
        if not said:
            one.ending = True
            with contextlib.suppress(KeyError):
                self._poll.unregister(one.control)
            return
        one.ending = one.ending or worker.LAST in said
        self._forget(one)

    def _forget(self, one: _Worker) -> None:
        """The compile of a worker has come to its end."""
        if one.connection is not None:
            self._poll.unregister(one.connection)
            one.connection.close()
            one.connection = None
        self._last = one.rested = time.monotonic()

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._ended, 512)
        while self._workers:
            child, status = os.waitpid(-1, os.WNOHANG)
            if not child:
                return
            for one in self._workers:
                if one.process == child:
                    self._bury(one, status)
                    break

    def _bury(self, one: _Worker, status: int) -> None:
        self._listen(one)
        if one.connection is not None:
            died = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
            with contextlib.suppress(OSError):
                messages.send(one.connection, {"died": died})
            self._forget(one)
        with contextlib.suppress(KeyError):
            self._poll.unregister(one.control)
        one.control.close()
        self._workers.remove(one)

    def _dismiss(self) -> None:
        """Ends workers that nobody has needed for some time."""
        now = time.monotonic()
        free = [w for w in self._workers if w.connection is None and not w.ending]
        free.sort(key=lambda w: w.rested)
        surplus = len(self._workers) - self._cores
        for i, one in enumerate(free):
            if i < surplus or (i < len(free) - 1 and now - one.rested > _REST_SECONDS):
                one.ending = True
                one.control.shutdown(socket.SHUT_WR)

    def _warm_up(self) -> None:
        """Compiles something, so that each worker has less to set up; without threads.

        The session with its lists of passes is kept, for the first compile of each worker.

        Threads would not come along when the process forks. Were there any nevertheless, compiles
        would have to do without them, too.
        """
        self._warm = True
        driver.compile_module(
            *(_TINY, self._flags),
            name="tiny",
            verify=False,
            parallel=False,
            dispatches=dispatches.Nowhere() if plugins.are_for_cpu(self._flags) else None,
        )
        self._has_threads = len(os.listdir("/proc/self/task")) > 1

    def _leave(self) -> None:
        with (
            contextlib.suppress(OSError, address.UnavailableError),
            address.locked(self._path.parent),
        ):
            if self._path.stat().st_ino == self._inode:
                self._path.unlink()
