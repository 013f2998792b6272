"""Profiles: when programs were traced, lowered, compiled and run, and what memory arrays take.

A trace is a file in the JSON format of Chrome's tracing, which https://ui.perfetto.dev opens. It
has what was traced, lowered and compiled, with the compiler's phases; calls of programs and, where
the native part runs them, each of their dispatches; transfers to and from devices; collectives; and
the memory in use over time. While none is taken, nothing is measured.
"""

from __future__ import annotations

import gzip
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

from xpr import profiled_processes
from xpr.core.errors import shown
from xpr.core.events import Event, recorders, span
from xpr.core.wrapping import wraps
from xpr.dispatch import watching
from xpr.dispatch.memory_profile import memory_profile
from xpr.transforms.signature import name_of

__all__ = [
    "StepTraceAnnotation",
    "TraceAnnotation",
    "annotate_function",
    "device_memory_profile",
    "register_subprocess",
    "save_device_memory_profile",
    "start_server",
    "start_trace",
    "stop_server",
    "stop_trace",
    "trace",
]

_lock = threading.Lock()


# ---- taking events


def _begin() -> list[Event]:
    """A list that gets the events from now on."""
    events: list[Event] = []
    with _lock:
        if not recorders:
            watching.watch()
        recorders.append(events)
    return events


def _end(events: list[Event]) -> None:
    with _lock:
        # By identity: lists of equal events are equal.
        recorders[:] = [r for r in recorders if r is not events]
        if not recorders:
            watching.unwatch()


def _chrome_json(
    events: Sequence[Event],
    dispatch_lines: bool = False,
    elsewhere: Sequence[dict[str, Any]] = (),
) -> bytes:
    """The events in Chrome's format, where times are in microseconds.

    `elsewhere` are those of other processes, in that format.
    """
    hidden = () if dispatch_lines else ("lines",)
    pid = os.getpid()
    names = {t.ident: t.name for t in threading.enumerate()}
    out: list[dict[str, Any]] = [
        {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": "xpr"}}
    ]
    # What the compiler does is recorded by threads that end with it.
    compiling = {e.thread for e in events if e.kind == "compile phase"}
    for thread in sorted({e.thread for e in events}):
        other = "compiler" if thread in compiling else f"thread {thread}"
        name = names.get(thread, other)
        out.append(
            {"ph": "M", "pid": pid, "tid": thread, "name": "thread_name", "args": {"name": name}}
        )
    for e in sorted(events, key=lambda e: e.start):
        if e.kind == "memory":
            out.append(
                {"ph": "C", "pid": pid, "ts": e.start / 1000, "name": e.name, "args": e.details}
            )
            continue
        out.append(
            {
                "ph": "X", "pid": pid, "tid": e.thread, "ts": e.start / 1000,
                "dur": e.duration / 1000, "name": e.name, "cat": e.kind,
                "args": {"kind": e.kind}
                | {k: str(v) for k, v in e.details.items() if k not in hidden},
            }
        )  # fmt: skip
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": [*out, *elsewhere]}).encode()


# ---- traces


@dataclass(frozen=True)
class _Running:
    """The trace under way."""

    folder: Path
    events: list[Event]
    for_perfetto: bool
    dispatch_lines: bool
    others: dict[int, int]
    """The ports of other processes that are traced with this one, by their numbers."""


_running: _Running | None = None


def start_trace(
    log_dir: os.PathLike[str] | str,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: Any = None,
    *,
    dispatch_lines: bool = False,
) -> None:
    """Starts a trace, which `stop_trace` writes to a folder in `log_dir`.

    With `create_perfetto_trace` there is a second file, `perfetto_trace.json.gz`. With
    `dispatch_lines` each dispatch has the lines of your program that it computes; to find them,
    `stop_trace` compiles each program that ran once more, up to where it is cut into dispatches.
    Raises RuntimeError if a trace is under way, NotImplementedError for `create_perfetto_link`
    (open the file at https://ui.perfetto.dev) and for `profiler_options`.

    >>> import pathlib, tempfile
    >>> import xpr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     xpr.profiler.start_trace(folder, create_perfetto_trace=True)
    ...     xpr.profiler.stop_trace()
    ...     [p.name for p in pathlib.Path(folder).rglob("perfetto*")]
    ['perfetto_trace.json.gz']
    """
    global _running
    if create_perfetto_link or profiler_options is not None:
        raise NotImplementedError(
            "start_trace writes a file and nothing else: create_perfetto_link and profiler_options "
            "are not offered"
        )
    if _running is not None:
        raise RuntimeError(
            "Profile has already been started. Only one profile may be run at a time."
        )
    others = profiled_processes.start()
    _running = _Running(Path(log_dir), _begin(), create_perfetto_trace, dispatch_lines, others)


def stop_trace() -> None:
    """Ends the trace and writes `plugins/profile/<time>/<host>.trace.json.gz` in its folder.

    Raises RuntimeError if no trace is under way.

    >>> import pathlib, tempfile
    >>> import xpr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     xpr.profiler.start_trace(folder)
    ...     xpr.profiler.stop_trace()
    ...     [p.suffixes[-2:] for p in pathlib.Path(folder).rglob("*.gz")]
    [['.json', '.gz']]
    """
    global _running
    if _running is None:
        raise RuntimeError("No profile started")
    done, _running = _running, None
    _end(done.events)
    folder = done.folder / "plugins" / "profile" / time.strftime("%Y_%m_%d_%H_%M_%S")
    folder.mkdir(parents=True, exist_ok=True)
    elsewhere = profiled_processes.stop(done.others)
    data = gzip.compress(_chrome_json(done.events, done.dispatch_lines, elsewhere))
    (folder / f"{socket.gethostname()}.trace.json.gz").write_bytes(data)
    if done.for_perfetto:
        (folder / "perfetto_trace.json.gz").write_bytes(data)


@contextmanager
def trace(
    log_dir: os.PathLike[str] | str,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: Any = None,
    *,
    dispatch_lines: bool = False,
) -> Iterator[None]:
    """A trace of a `with` block: `start_trace` and `stop_trace` around it.

    >>> import pathlib, tempfile
    >>> import xpr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with xpr.profiler.trace(folder):
    ...         _ = xpr.jit(lambda x: x + 1)(1.0)
    ...     [p.suffixes[-2:] for p in pathlib.Path(folder).rglob("*.gz")]
    [['.json', '.gz']]
    """
    start_trace(
        log_dir,
        create_perfetto_link,
        create_perfetto_trace,
        profiler_options,
        dispatch_lines=dispatch_lines,
    )
    try:
        yield
    finally:
        stop_trace()


class TraceAnnotation(span):
    """A `with` block that is an event of traces, with a name and what else shall be shown.

    >>> import xpr
    >>> with xpr.profiler.TraceAnnotation("load", part=3):
    ...     pass
    """

    __slots__ = ()

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__("annotation", name, **kwargs)

    @staticmethod
    def is_enabled() -> bool:
        """Whether a trace is being taken, which would show the block."""
        return bool(recorders)


class StepTraceAnnotation(TraceAnnotation):
    """A `with` block that is a step of a training loop: give its number as `step_num`.

    >>> import xpr
    >>> for step in range(2):
    ...     with xpr.profiler.StepTraceAnnotation("train", step_num=step):
    ...         pass
    """

    __slots__ = ()


def annotate_function(
    func: Callable[..., Any], name: str | None = None, **decorator_kwargs: Any
) -> Callable[..., Any]:
    """`func`, whose calls are events of traces, under its own name or `name`.

    >>> import xpr
    >>> xpr.profiler.annotate_function(abs, name="size")(-1)
    1
    """
    if not callable(func):
        raise TypeError(f"annotate_function takes a function, got {shown(func)}")
    label = name_of(func) if name is None else name

    @wraps(func)
    def annotated(*args: Any, **kwargs: Any) -> Any:
        with TraceAnnotation(label, **decorator_kwargs):
            return func(*args, **kwargs)

    return annotated


# ---- memory


def device_memory_profile(backend: str | None = None) -> bytes:
    """The live arrays of `backend` (by default, of the default one) as a file for `pprof`.

    Number and bytes of the arrays, by type and device. Raises RuntimeError for an unknown backend.

    >>> import xpr
    >>> xpr.profiler.device_memory_profile()[:2]  # compressed by gzip
    b'\\x1f\\x8b'
    """
    return memory_profile(backend)


def save_device_memory_profile(
    filename: os.PathLike[str] | str, backend: str | None = None
) -> None:
    """Writes `device_memory_profile(backend)` to a file: `pprof -web FILE` draws it.

    >>> import pathlib, tempfile
    >>> import xpr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "memory.prof"
    ...     xpr.profiler.save_device_memory_profile(path)
    ...     path.stat().st_size > 0
    True
    """
    Path(filename).write_bytes(device_memory_profile(backend))


# ---- a server


class _Handler(BaseHTTPRequestHandler):
    """Answers `/trace?duration_ms=N` with a trace of that time, `/memory` with a profile.

    `/process`, `/start` and `/stop` are for the process that has registered this one.
    """

    def do_GET(self) -> None:
        url = urlparse(self.path)
        if url.path == "/process":
            self._answer(200, "application/json", json.dumps(os.getpid()).encode())
            return
        if url.path in ("/start", "/stop"):
            global _asked
            events, _asked = _asked, _begin() if url.path == "/start" else None
            if events is not None:
                _end(events)
            body = _chrome_json(events or []) if url.path == "/stop" else b"{}"
            self._answer(200, "application/json", body)
            return
        if url.path == "/memory":
            self._answer(200, "application/gzip", device_memory_profile())
            return
        text = parse_qs(url.query).get("duration_ms", ["1000"])[0]
        if url.path != "/trace" or not text.isdecimal():
            self._answer(404, "text/plain", b"/trace?duration_ms=N or /memory\n")
            return
        events = _begin()
        try:
            time.sleep(int(text) / 1000)
        finally:
            _end(events)
        self._answer(200, "application/json", _chrome_json(events))

    def _answer(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: the process's own output is the user's."""


_server: ThreadingHTTPServer | None = None
_asked: list[Event] | None = None  # the trace that another process has begun


def register_subprocess(pid: int, port: int) -> Callable[[], None]:
    """Has traces of this process hold what the process `pid` does, too.

    It runs xpr, and `start_server(port)` there has started its profiler. Returns a function that
    ends this when it is called, or collected. Raises RuntimeError for a process that is registered
    already, and where no profiler of that process answers at the port.

    >>> import os, xpr
    >>> try:
    ...     xpr.profiler.register_subprocess(os.getpid(), 1)
    ... except RuntimeError as error:
    ...     print(str(error)[:21])
    no profiler of proces
    """
    return profiled_processes.register(pid, port)


def start_server(port: int, requires_backend: bool = True) -> ThreadingHTTPServer:
    """Serves profiles of this process on a port of this machine, to programs on this machine.

    `http://localhost:<port>/trace?duration_ms=1000` is a trace of the next second, `/memory` a
    profile of the live arrays. Port 0 is any free one: the result's `server_port` tells which.
    Raises ValueError if a server runs already.

    >>> import xpr
    >>> server = xpr.profiler.start_server(0)
    >>> server.server_port > 0
    True
    >>> xpr.profiler.stop_server()
    """
    global _server
    del requires_backend  # nothing of the devices is needed
    if _server is not None:
        raise ValueError("Only one profiler server can be active at a time.")
    _server = ThreadingHTTPServer(("localhost", port), _Handler)
    _server.daemon_threads = True
    threading.Thread(target=_server.serve_forever, name="xpr profiler", daemon=True).start()
    return _server


def stop_server() -> None:
    """Ends the server. Raises ValueError if none runs.

    >>> import xpr
    >>> _ = xpr.profiler.start_server(0)
    >>> xpr.profiler.stop_server()
    """
    global _server
    if _server is None:
        raise ValueError("No active profiler server.")
    done, _server = _server, None
    done.shutdown()
    done.server_close()
