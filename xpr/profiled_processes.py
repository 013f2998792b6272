"""Other processes that are profiled with this one, through the servers of their profilers."""

from __future__ import annotations

import json
import threading
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

_SECONDS = 10.0

_lock = threading.Lock()
_ports: dict[int, int] = {}


def _ask(port: int, path: str, seconds: float = _SECONDS) -> bytes:
    with urlopen(f"http://localhost:{port}{path}", timeout=seconds) as answer:
        return answer.read()


class Registration:
    """A process that is profiled as long as this object lives, or until it is called."""

    def __init__(self, pid: int, port: int) -> None:
        with _lock:
            if pid in _ports:
                raise RuntimeError(f"process {pid} is registered already, with port {_ports[pid]}")
            _ports[pid] = port
        self._pid: int | None = pid

    def __call__(self) -> None:
        """Unregisters the process; once is enough."""
        pid, self._pid = self._pid, None
        if pid is not None:
            with _lock:
                _ports.pop(pid, None)

    def __del__(self) -> None:
        # An object whose registration was refused has no process.
        if getattr(self, "_pid", None) is not None:
            self()


def register(pid: int, port: int) -> Registration:
    """Registers process `pid`, whose server is at `port`. RuntimeError if it does not answer."""
    try:
        found = json.loads(_ask(port, "/process"))
    except (URLError, OSError, ValueError) as error:
        raise RuntimeError(
            f"no profiler of process {pid} answers at port {port}: start it there with "
            f"xpr.profiler.start_server({port}). {error}"
        ) from error
    if found != pid:
        raise RuntimeError(f"the profiler at port {port} is that of process {found}, not of {pid}")
    return Registration(pid, port)


def start() -> dict[int, int]:
    """Starts a trace in each process; returns those that began, by their ports."""
    with _lock:
        known = dict(_ports)
    return {pid: port for pid, port in known.items() if _answers(port, "/start")}


def _answers(port: int, path: str) -> bool:
    try:
        _ask(port, path)
    except (URLError, OSError):
        return False  # it has ended: what the others do is still worth a profile
    return True


def stop(started: dict[int, int]) -> list[dict[str, Any]]:
    """Ends the traces that `start` has begun; returns their events in Chrome's format."""
    events: list[dict[str, Any]] = []
    for port in started.values():
        try:
            events += json.loads(_ask(port, "/stop"))["traceEvents"]
        except (URLError, OSError):
            continue
    return events
