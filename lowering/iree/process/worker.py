"""A worker of the helper process: it compiles one program after the other.

The second compile finds a warm compiler. A worker that has become large, old or has compiled much
ends after an answer, so that what the compiler never gives back does not add up.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from pathlib import Path
from typing import Any

from xpr.lowering.cache import CompileCache
from xpr.lowering.iree import driver
from xpr.lowering.iree.dispatches import Nowhere, Store
from xpr.lowering.iree.post_passes import change_of
from xpr.lowering.iree.process import messages
from xpr.lowering.iree.shortcuts import DeclinedError
from xpr.lowering.iree.stopwatch import Stopwatch

TAKE = b"t"
"""What comes to a worker with a connection."""

DONE = b"d"
LAST = b"e"
"""What it says of a compile that has ended: that it takes the next one, or that it ends."""

_PATIENCE = 20.0
"""Seconds that somebody may take to send a program, or to take the answer."""

_MOST_COMPILES = 500
_MOST_SECONDS = 3600.0
_MOST_BYTES = 1 << 30
_PAGE = os.sysconf("SC_PAGE_SIZE")


def work(control: socket.socket) -> None:
    """Compiles for whoever's connections come, until none can come any more."""
    begin, compiles = time.monotonic(), 0
    processors: list[int] = []
    while True:
        told, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not told:
            return
        compiles += 1
        with socket.socket(fileno=descriptors[0]) as connection:
            connection.settimeout(_PATIENCE)
            answer = None
            with contextlib.suppress(OSError, EOFError):  # whoever asked is gone
                messages.send(connection, {"begun": os.getpid()})
                request, text = messages.receive(connection)
                if request["processors"] != processors:
                    processors = request["processors"]
                    _move_to(processors)
                answer = _answer(request, text, connection)
            spent = time.monotonic() - begin > _MOST_SECONDS or compiles >= _MOST_COMPILES
            last = spent or _size() > _MOST_BYTES
            # Before the answer: who has it may go away, which ends no worker that is done.
            control.sendall(LAST if last else DONE)
            if answer is not None:
                with contextlib.suppress(OSError):
                    messages.send(connection, *answer)
        if last:
            return


def _answer(
    request: dict[str, Any], text: bytes, connection: socket.socket
) -> tuple[dict[str, Any], bytes]:
    def tell(stage: str) -> None:
        with contextlib.suppress(OSError):  # whoever asked is gone
            messages.send(connection, {"passed": stage})

    if request["tmpdir"] is not None:
        os.environ["TMPDIR"] = request["tmpdir"]
    else:
        os.environ.pop("TMPDIR", None)
    declined: list[tuple[list[str], str]] = []

    def on_decline(error: DeclinedError) -> None:
        declined.append((sorted(error.declined), error.reason))

    watch = Stopwatch() if request.get("watched") else None
    try:
        module, said = driver.compile_module(
            text.decode(),
            request["flags"],
            name=request["name"],
            verify=request["verify"],
            parallel=request["parallel"],
            allowed=request["shortcuts"],
            changes=[change_of(key) for key in request["changes"]],
            dispatches=_store(request.get("dispatches")),
            watch=watch,
            tell=tell,
            on_decline=on_decline,
        )
    except Exception as error:  # it is raised again where the compile was asked for
        return {"error": f"{error}"}, b""
    header = {"module": module is not None, "said": said, "declined": declined}
    if watch is not None:
        header["watched"] = watch.record()
    return header, module or b""


def _store(place: messages.Place) -> Store | None:
    if place is None:
        return None
    if place == messages.NOWHERE:
        return Nowhere()
    return CompileCache(Path(place[0]), place[1], warns=False)


def _move_to(processors: list[int]) -> None:
    """Has this process, with the threads of the compiler, use the processors of whoever asks."""
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(int(task), processors)


def _size() -> int:
    """The bytes of memory that this process uses."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
