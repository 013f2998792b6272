"""The functions that a handler may call: XLA's table of them, with what each one does here.

What a device other than the CPU would offer (streams, memory) is not there: a handler that asks for
it gets an error, as it does for a context that has ended.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from ctypes import POINTER, c_void_p, cast
from typing import Any

from xpr.runtimes.foreign import layouts, targets
from xpr.runtimes.foreign.handles import Numbered, give_error, raised, text_address
from xpr.runtimes.foreign.layouts import DELETER, FUNCTIONS, STAGES, TASK
from xpr.runtimes.foreign.status import ForeignError


class Future:
    """What a handler promises to end later, perhaps in another thread."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._error: ForeignError | None = None

    def end(self, error: ForeignError | None = None) -> None:
        self._error = error
        self._done.set()

    def wait(self) -> ForeignError | None:
        """The error it ended with, when it has ended."""
        self._done.wait()
        return self._error


class States:
    """The states that handlers have set, by stages; `clear` deletes them."""

    def __init__(self) -> None:
        self._states: dict[int, tuple[int, int]] = {}
        self._lock = threading.Lock()

    def set(self, stage: int, number: int, address: int) -> None:
        deleter = targets.state_type(number).deleter
        if not deleter:
            raise ForeignError("INVALID_ARGUMENT", "Type info must have a deleter")
        with self._lock:
            if stage in self._states:
                raise ForeignError("FAILED_PRECONDITION", "State is already set")
            self._states[stage] = number, address

    def get(self, stage: int, number: int) -> int:
        found = self._states.get(stage)
        if found is None:
            raise ForeignError("NOT_FOUND", "State is not set")
        if found[0] != number:
            raise ForeignError(
                "INVALID_ARGUMENT",
                f"Set state has a different type: {targets.state_type(found[0]).name}, asked for "
                f"type id {number}",
            )
        return found[1]

    def clear(self) -> None:
        with self._lock:
            states, self._states = self._states, {}
        for number, address in states.values():
            DELETER(targets.state_type(number).deleter)(address)


class Context:
    """What a handler's context stands for: one execution, of one call in a program."""

    def __init__(self, instance: States) -> None:
        self._instance = instance
        self._own = States()
        self.run = next(_runs)

    def states(self, stage: int) -> States:
        """Where the states of a stage are: those of the first one outlive an execution."""
        if not 0 <= stage < len(STAGES):
            raise ForeignError("INVALID_ARGUMENT", f"there is no stage {stage}")
        return self._instance if stage == layouts.INSTANTIATE else self._own

    def renew(self) -> None:
        """Begins another execution."""
        self._own.clear()
        self.run = next(_runs)


_runs = itertools.count(1)
_futures = Numbered()
_contexts = Numbered()


def new_context(instance: States) -> tuple[Context, int]:
    """A context, and the number by which handlers know it until `drop_context`."""
    context = Context(instance)
    return context, _contexts.add(context)


def drop_context(number: int) -> None:
    """Ends a context."""
    found = _contexts.take(number)
    if found is not None:
        found.renew()


def awaited(number: int | None) -> ForeignError | None:
    """Waits for the future of that number, if it is one: the error with which it ended."""
    if not number:
        return None
    future = _futures.get(number)
    if future is None:
        return ForeignError("UNKNOWN", "a handler returned no known future")
    try:
        return future.wait()
    finally:
        _futures.take(number)


# ---- what the functions do: each takes its structure, and raises ForeignError


def _context(number: int | None) -> Context:
    found = _contexts.get(number)
    if found is None:
        raise ForeignError("INVALID_ARGUMENT", "this execution context has ended, or never was one")
    return found


def _error_get_message(args: Any) -> None:
    args.message = text_address(args.error)


def _error_destroy(args: Any) -> None:
    raised(args.error)


def _text(part: Any) -> str:
    return ctypes.string_at(part.data, part.length).decode()


def _handler_register(args: Any) -> None:
    targets.add_target(
        _text(args.name),
        targets.xla_platform(_text(args.platform)),
        tuple(h or 0 for h in args.handlers),
        args.traits,
        table(),
    )


def _type_register(args: Any) -> None:
    deleter = (args.info.contents.deleter or 0) if args.info else 0
    args.type[0] = targets.add_type(_text(args.name), args.type[0], deleter)


def _no_gpu(args: Any) -> None:
    del args
    raise ForeignError("UNIMPLEMENTED", "XLA FFI GPU context is not available")


def _context_get(args: Any) -> None:
    _context(args.context)
    raise ForeignError(
        "NOT_FOUND", f"User data with type id {args.type[0]} not found in execution context"
    )


def _state_set(args: Any) -> None:
    _context(args.context).states(args.stage).set(args.stage, args.type[0], args.state or 0)


def _state_get(args: Any) -> None:
    args.state = _context(args.context).states(args.stage).get(args.stage, args.type[0])


def _schedule(args: Any) -> None:
    _context(args.context)
    # The structure is gone when the task runs.
    _thread_pool().submit(TASK(args.task), args.data)


def _num_threads(args: Any) -> None:
    _context(args.context)
    args.count[0] = _THREADS


def _future_create(args: Any) -> None:
    args.future = _futures.add(Future())


def _future(number: int | None) -> Future:
    found = _futures.get(number)
    if found is None:
        raise ForeignError("INVALID_ARGUMENT", "this future has ended, or never was one")
    return found


def _future_done(args: Any) -> None:
    _future(args.future).end()


def _future_failed(args: Any) -> None:
    _future(args.future).end(raised(args.error))


def _run_id(args: Any) -> None:
    args.run = _context(args.context).run


def _device_ordinal(args: Any) -> None:
    _context(args.context)
    args.ordinal = 0


_ACTIONS: dict[str, Callable[[Any], None]] = {
    "Error_GetMessage": _error_get_message,
    "Error_Destroy": _error_destroy,
    "Handler_Register": _handler_register,
    "Stream_Get": _no_gpu,
    "Type_Register": _type_register,
    "ExecutionContext_Get": _context_get,
    "State_Set": _state_set,
    "State_Get": _state_get,
    "DeviceMemory_Allocate": _no_gpu,
    "DeviceMemory_Free": _no_gpu,
    "ThreadPool_Schedule": _schedule,
    "ThreadPool_NumThreads": _num_threads,
    "Future_Create": _future_create,
    "Future_SetAvailable": _future_done,
    "Future_SetError": _future_failed,
    "RunId_Get": _run_id,
    "DeviceOrdinal_Get": _device_ordinal,
}

_RETURNS_NOTHING = ("Error_GetMessage", "Error_Destroy")

_THREADS = os.cpu_count() or 1
_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_table: Any = None
# What C code may call must never be freed.
_kept: list[Any] = []


def _thread_pool() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(_THREADS, "xpr-foreign")
        return _pool


def _error_create(args: Any) -> int:
    kind = layouts.ErrorCreate
    found = cast(args, POINTER(kind)).contents
    if found.struct_size < kind.counted_size():
        error = _wrong_size("Error_Create", kind, found.struct_size)
    else:
        message = (found.message or b"").decode(errors="replace")
        error = ForeignError.numbered(found.code, message)
    return give_error(error)


def _wrong_size(name: str, kind: Any, size: int) -> ForeignError:
    return ForeignError(
        "INVALID_ARGUMENT",
        f"Unexpected XLA_FFI_{name} size: expected {kind.counted_size()}, got {size}. Check "
        "installed software versions. The framework XLA FFI API version is "
        f"{layouts.MAJOR}.{layouts.MINOR}.",
    )


def _entry(name: str, kind: Any) -> Callable[[int], int | None]:
    """The function of that name as handlers call it: nothing is ever raised into their code."""
    action = _ACTIONS[name]
    of_kind = POINTER(kind)
    size = kind.counted_size()

    def entry(args: int) -> int | None:
        try:
            found = cast(args, of_kind).contents
            if found.struct_size < size:
                raise _wrong_size(name, kind, found.struct_size)
            action(found)
        except ForeignError as error:
            return give_error(error)
        except Exception as error:
            return give_error(ForeignError("INTERNAL", f"{type(error).__name__}: {error}"))
        return None

    def silent(args: int) -> None:
        raised(entry(args))

    return silent if name in _RETURNS_NOTHING else entry


def table() -> int:
    """The address of the table of functions."""
    global _table
    with _lock:
        if _table is None:
            made = layouts.Api.new()
            made.version = layouts.Version.new(major=layouts.MAJOR, minor=layouts.MINOR)
            for name, kind in FUNCTIONS:
                python = _error_create if name == "Error_Create" else _entry(name, kind)
                result = None if name in _RETURNS_NOTHING else c_void_p
                function = ctypes.CFUNCTYPE(result, c_void_p)(python)
                _kept.append(function)
                setattr(made, name, cast(function, c_void_p).value)
            _table = made
    return ctypes.addressof(_table)
