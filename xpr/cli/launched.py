"""One process of `xpr launch`: runs a program, and puts its number before each line it writes.

MPI's launcher starts this file, as a program that needs nothing but Python's own library:

    python launched.py TOKEN PROGRAM ARGUMENTS...

How the program ended is told by a line on stdout that begins with the token. Launchers end all
processes when the first ends badly. So that the others can say what they miss, this one stays a
while after a program that failed, unless `xpr launch` ends all of them before.
"""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import socket
import subprocess
import sys
import time

STAY = 600.0
"""Seconds that the process stays after a failure of its program, at most."""

_QUIET = 1.0
"""Seconds after which a line that has no end yet is shown."""

_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")
_PR_SET_PDEATHSIG = 1


def die_with_parent(number: int) -> None:
    """Has Linux send a signal to this process when the one that started it is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


class _Lines:
    """Writes what comes in pieces to `target`, line by line, each with a prefix."""

    def __init__(self, target: int, prefix: bytes) -> None:
        self._target = target
        self._prefix = prefix
        self._rest = b""
        self._since = 0.0

    def take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._since = time.monotonic()
        for line in lines:
            self._write(line)

    def flush(self, quiet: float = 0.0) -> None:
        if self._rest and time.monotonic() - self._since >= quiet:
            rest, self._rest = self._rest, b""
            self._write(rest)

    def _write(self, line: bytes) -> None:
        write_all(self._target, self._prefix + line + b"\n")


def write_all(target: int, data: bytes) -> None:
    """Writes all of `data`, or nothing where nobody reads any more."""
    while data:
        try:
            data = data[os.write(target, data) :]
        except BrokenPipeError:
            return


def main(arguments: list[str]) -> int:
    token, *command = arguments
    rank = next((os.environ[name] for name in _RANKS if name in os.environ), "?")
    die_with_parent(signal.SIGTERM)
    program = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        close_fds=False,  # some launchers talk to their processes by a file they inherit
        preexec_fn=lambda: die_with_parent(signal.SIGKILL),
    )
    write_all(1, f"{token} start {rank} {program.pid} {socket.gethostname()}\n".encode())

    def end(number: int, frame: object) -> None:
        del number, frame
        program.kill()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started this decides what it means
    status = _forward(program, f"[{rank}] ".encode())
    write_all(1, f"{token} end {rank} {status}\n".encode())
    if status:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        time.sleep(STAY)
    return status if status >= 0 else 128 - status


def _forward(program: subprocess.Popen[bytes], prefix: bytes) -> int:
    assert program.stdout is not None
    assert program.stderr is not None
    with selectors.DefaultSelector() as selector:
        for source, target in ((program.stdout, 1), (program.stderr, 2)):
            selector.register(source, selectors.EVENT_READ, _Lines(target, prefix))
        ended = None
        while selector.get_map():
            for key, _ in selector.select(_QUIET):
                data = os.read(key.fd, 1 << 16)
                if data:
                    key.data.take(data)
                else:
                    selector.unregister(key.fileobj)
                    key.data.flush()
            for key in selector.get_map().values():
                key.data.flush(_QUIET)
            # What the program started may hold its pipes open for longer than it lives.
            if program.poll() is not None:
                ended = ended or time.monotonic()
                if time.monotonic() > ended + _QUIET:
                    break
    return program.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
