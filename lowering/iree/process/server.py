"""The helper process: it forks for each compile, and never compiles what it is asked itself.

It has one thread and a loaded compiler, so that a fork has all it needs. A compile that crashes
takes its own process with it; the one who asked is told the signal. Who goes away meanwhile has
their compile ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import socket
import time
from pathlib import Path

from xpr.lowering.iree import c_api
from xpr.lowering.iree.changes import change_of
from xpr.lowering.iree.process import messages, place

_WARM_UP_SECONDS = 0.3
"""How long nobody must have asked for anything before the helper prepares itself."""

_TINY = """
func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %x, %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""


def serve(descriptor: str, path: str, library: str, digest: str, idle: str, flags: str) -> None:
    """Serves at a listening socket until nobody has asked for `idle` seconds.

    `flags`, as a list in JSON, are those of compiles to be ready for.
    """
    if os.fork():
        os._exit(0)  # whoever started this has no child process to wait for
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    listener = socket.socket(fileno=int(descriptor))
    listener.setblocking(False)
    c_api.load(Path(library))
    _Server(listener, Path(path), digest, float(idle), json.loads(flags)).run()


class _Server:
    def __init__(
        self, listener: socket.socket, path: Path, digest: str, idle: float, flags: list[str]
    ) -> None:
        self._listener = listener
        self._path = path
        self._inode = path.stat().st_ino
        self._digest = digest
        self._idle = idle
        self._busy: dict[int, socket.socket] = {}
        self._last = time.monotonic()
        self._flags = flags
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
        warm = False
        while True:
            rest = self._last + self._idle - time.monotonic()
            if not self._busy and rest <= 0:
                break
            seconds = rest if warm else min(rest, _WARM_UP_SECONDS)
            events = self._poll.poll(None if self._busy else max(0, seconds) * 1000)
            for descriptor, _ in events:
                if descriptor == self._listener.fileno():
                    self._accept()
                elif descriptor == self._ended:
                    self._reap()
                else:
                    self._give_up(descriptor)
            if not events and not warm and not self._busy:
                warm = True
                self._warm_up()
        self._leave()

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            connection, _ = self._listener.accept()
            if not place.is_own_user(connection):
                connection.close()
                return
            child = os.fork()
            if not child:
                self._compile(connection)
            self._busy[child] = connection
            # Of no interest but that the other side goes away.
            self._poll.register(connection, 0)

    def _compile(self, connection: socket.socket) -> None:
        """In the child: one compile."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._listener.close()
            connection.setblocking(True)
            if not self._has_threads:
                c_api.adopt_threads()
            messages.send(connection, {"digest": self._digest, "process": os.getppid()})
            answer(connection)
            status = 0
        except (OSError, EOFError):
            status = 0  # whoever asked is gone
        finally:
            os._exit(status)

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._ended, 512)
        while self._busy:
            child, status = os.waitpid(-1, os.WNOHANG)
            if not child:
                return
            connection = self._busy.pop(child)
            with contextlib.suppress(KeyError):  # the other side has gone
                self._poll.unregister(connection)
            if status:
                died = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
                with contextlib.suppress(OSError):
                    messages.send(connection, {"died": died})
            connection.close()
            self._last = time.monotonic()

    def _give_up(self, descriptor: int) -> None:
        """Ends the compile of somebody who is gone."""
        self._poll.unregister(descriptor)
        for child, connection in self._busy.items():
            if connection.fileno() == descriptor:
                os.kill(child, signal.SIGKILL)

    def _warm_up(self) -> None:
        """Compiles something, so that each compile has less to set up; without threads.

        Threads would not come along when the process forks. Were there any nevertheless, compiles
        would have to do without them, too.
        """
        c_api.compile_module(_TINY, self._flags, name="tiny", verify=False, parallel=False)
        self._has_threads = len(os.listdir("/proc/self/task")) > 1

    def _leave(self) -> None:
        with contextlib.suppress(OSError, place.UnavailableError), place.locked(self._path.parent):
            if self._path.stat().st_ino == self._inode:
                self._path.unlink()


def answer(connection: socket.socket) -> None:
    """Reads what is to be compiled, compiles it and sends what came of it."""
    request, text = messages.receive(connection)
    if request["tmpdir"] is not None:
        os.environ["TMPDIR"] = request["tmpdir"]
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, request["processors"])
    try:
        module, said = c_api.compile_module(
            text.decode(),
            request["flags"],
            name=request["name"],
            verify=request["verify"],
            parallel=request["parallel"],
            changes=[change_of(key) for key in request["changes"]],
        )
    except Exception as error:  # it is raised again where the compile was asked for
        messages.send(connection, {"error": f"{error}"})
        return
    messages.send(connection, {"module": module is not None, "said": said}, module or b"")
