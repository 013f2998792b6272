"""What runtimes do, as events: programs, their dispatches, transfers, collectives, memory in use.

Methods of the runtimes are wrapped while a trace is taken, so that without one nothing is measured
and nothing is slower.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from xpr.core.errors import CompileError
from xpr.core.events import record
from xpr.dispatch.deferred import HandedOn
from xpr.runtimes.base import Buffer, Device, Executable, Runtime
from xpr.runtimes.collectives.base import Collective, Participant
from xpr.runtimes.extension import native
from xpr.runtimes.host import HostBuffer
from xpr.runtimes.queue import PendingBuffer

Method = Callable[..., Any]
_LinesOf = dict[str, set[tuple[str, int]]]


class Lines:
    """The user's lines that a dispatch computes, as text; looked up when it is asked for.

    To find them the program is compiled once more, up to where it is cut into dispatches.
    """

    _known: ClassVar[WeakKeyDictionary[Executable, _LinesOf]] = WeakKeyDictionary()

    def __init__(self, program: Executable, dispatch: str) -> None:
        self._program = program
        self._dispatch = dispatch

    def __str__(self) -> str:
        lines = self._known.get(self._program)
        if lines is None:
            lines = self._known[self._program] = _lines_of(self._program)
        # Behind the number of a dispatch its module has what it does: `main_dispatch_0_matmul`.
        found = {
            line
            for name, of_dispatch in lines.items()
            if self._dispatch == name or self._dispatch.startswith(f"{name}_")
            for line in of_dispatch
        }
        return ", ".join(f"{file}:{line}" for file, line in sorted(found))


def _lines_of(program: Executable) -> _LinesOf:
    if program.lines is None:
        return {}
    try:
        return program.lines()
    except CompileError:  # a program of which another form runs, whose dispatches are others
        return {}


def _note_memory(device: Device) -> None:
    stats = device.memory_stats()
    if stats is not None and "bytes_in_use" in stats:
        used = {"bytes_in_use": stats["bytes_in_use"]}
        record("memory", f"memory {device}", time.perf_counter_ns(), used, 0)


def _watched_program(call: Method) -> Method:
    # The native part's executables say when each of their dispatches ran.
    has_times = "times" in inspect.signature(call).parameters

    @functools.wraps(call)
    def watched(self: Executable, buffers: Sequence[Any]) -> Any:
        times: list[tuple[str, int, int]] = []
        start = time.perf_counter_ns()
        try:
            return call(self, buffers, times) if has_times else call(self, buffers)
        finally:
            details = {"device": str(self.device)}
            record("execute", self.name, start, details)
            for name, began, duration in times:
                record("dispatch", name, began, {**details, "lines": Lines(self, name)}, duration)
            _note_memory(self.device)

    return watched


def _watched_upload(send: Method) -> Method:
    @functools.wraps(send)
    def watched(self: Runtime, array: Any, device: Device, *, copy: bool) -> Buffer:
        start = time.perf_counter_ns()
        buffer = send(self, array, device, copy=copy)
        # Where the device reads the host's memory, nothing moves unless a copy was asked for.
        if copy or not isinstance(buffer, HostBuffer):
            details = {"device": str(device), "bytes": array.nbytes}
            record("transfer", f"to {device}", start, details)
            _note_memory(device)
        return buffer

    return watched


def _watched_download(view: Method) -> Method:
    @functools.wraps(view)
    def watched(self: Buffer) -> Any:
        start = time.perf_counter_ns()
        array = view(self)
        details = {"device": str(self.device), "bytes": array.nbytes}
        record("transfer", f"from {self.device}", start, details)
        return array

    return watched


def _watched_collective(perform: Method) -> Method:
    @functools.wraps(perform)
    def watched(self: Participant, collective: Collective, arrays: Any, out: Any = None) -> Any:
        start = time.perf_counter_ns()
        try:
            return perform(self, collective, arrays, out)
        finally:
            details = {"rank": self.rank, "source": collective.source}
            record("collective", collective.kind, start, details)

    return watched


_WATCHED: tuple[tuple[type, str, Callable[[Method], Method]], ...] = (
    (Executable, "__call__", _watched_program),
    (Runtime, "buffer_from_host", _watched_upload),
    (Buffer, "host_view", _watched_download),
    (Participant, "perform", _watched_collective),
)
# To look at memory of the host costs nothing; what is pending or queued hands on to another.
_NOT_WATCHED = (HostBuffer, PendingBuffer, HandedOn)

_unwatched: list[tuple[type, str, Method]] = []


def _kinds_with(base: type, name: str) -> Iterator[type]:
    """The classes under `base` that define the method themselves."""
    for kind in base.__subclasses__():
        if name in vars(kind) and not issubclass(kind, _NOT_WATCHED):
            yield kind
        yield from _kinds_with(kind, name)


def watch() -> None:
    """Has runtimes record events from now on; not to be called twice."""
    for base, name, watched in _WATCHED:
        for kind in _kinds_with(base, name):
            method = vars(kind)[name]
            _unwatched.append((kind, name, method))
            setattr(kind, name, watched(method))
    _watch_native(True)


def unwatch() -> None:
    """Puts the methods back."""
    for kind, name, method in _unwatched:
        setattr(kind, name, method)
    _unwatched.clear()
    _watch_native(False)


def _watch_native(watched: bool) -> None:
    """Says whether the native part is to call executables for programs that it calls itself."""
    module = native().module
    if module is not None:
        module.watch_calls(watched)
