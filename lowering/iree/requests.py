"""Which programs are compiled when: side by side, the same one once, small ones in one module.

As many threads as cores compile at once; what is asked for meanwhile waits in a queue, where small
programs are put together. Whoever waits for longer than two seconds gets one more thread, so that
nobody's small program waits for the end of others' large ones.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from xpr.lowering.iree.interruption import Interruption

# The compiler recurses over nested and chained operations; other threads than the main one have
# only 512 kB on macOS. Only the pages in use cost memory.
_STACK_BYTES = 64 << 20

THREAD_NAME = "xpr-compile"

_PATIENCE = 2.0
"""The seconds that somebody waits for a thread."""


@dataclass(eq=False)
class Request:
    """A program that is to be compiled, once for all who ask for it meanwhile."""

    key: bytes
    job: Any
    kind: Hashable | None
    """Requests of one kind can be compiled together; None is one to be compiled alone."""

    future: Future[Any] = field(default_factory=Future)
    waiting: int = 0
    """How many threads wait for the result."""

    wanted: bool = False
    """Whether it is wanted though nobody waits for it yet."""

    bundle: Bundle | None = None
    """What it is compiled with, since it has been begun."""


@dataclass(eq=False)
class Bundle:
    """Requests that are compiled together, in one thread."""

    requests: list[Request]
    beside: bool = False
    """Whether others are compiled at the same time, and need the other cores."""

    interruption: Interruption = field(default_factory=Interruption)


Compile = Callable[[Bundle], Sequence[Any]]
"""Compiles a bundle: what came of each of its requests, exceptions among them."""


class Requests:
    """The programs that are being compiled, or wait for that."""

    def __init__(self, compile: Compile, most: int, cores: int | None = None) -> None:
        """`most` requests are compiled together at most."""
        self._compile = compile
        self._most = most
        self._cores = cores or _cores()
        self._own = threading.local()
        self.reset()

    def reset(self) -> None:
        """Forgets all: in a forked process there are no threads to go on with it."""
        self._lock = threading.Lock()
        self._running: dict[bytes, Request] = {}
        self._pending: deque[Bundle] = deque()
        self._active = 0
        self._own.gathered = None

    def ask(self, key: bytes, job: Any, kind: Hashable | None) -> tuple[Request, bool]:
        """The request for a program, and whether it is a new one.

        Whoever asks calls `wait`, or wants the result at some time nevertheless.
        """
        with self._lock:
            request = self._running.get(key)
            if request is not None:
                return request, False
            request = self._running[key] = Request(key, job, kind)
            gathered = getattr(self._own, "gathered", None)
            if gathered is not None:
                gathered.append(request)
                return request, True
            self._pending.append(Bundle([request]))
        self._start()
        return request, True

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """What the block asks for is begun at its end, all at once."""
        outer, gathered = getattr(self._own, "gathered", None), []
        self._own.gathered = gathered
        try:
            yield
        finally:
            self._own.gathered = outer
            with self._lock:
                self._pending.extend(_bundles(gathered, self._cores, self._most))
            self._start()

    def wait(self, request: Request) -> Any:
        """The result; the compile ends when the last one that waits for it is interrupted."""
        gathered = getattr(self._own, "gathered", None)
        with self._lock:
            request.waiting += 1
            if gathered and request in gathered:
                gathered.remove(request)
                self._pending.append(Bundle([request]))
        self._start()
        try:
            self._hurry(request)
            return request.future.result()
        except BaseException:
            self._give_up(request)
            raise
        finally:
            with self._lock:
                request.waiting -= 1

    def end_unawaited(self) -> None:
        """Ends the compiles that no thread waits for."""
        with self._lock:
            for request in list(self._running.values()):
                request.wanted = False
                self._drop(request, 0)

    def _hurry(self, request: Request) -> None:
        """Waits for some time, and gets one more thread then if all have other things to do."""
        with contextlib.suppress(TimeoutError):
            request.future.exception(_PATIENCE)
            return
        with self._lock:
            late = request.bundle is None
        if late:
            self._start(one_more=True)

    def _give_up(self, request: Request) -> None:
        with self._lock:
            self._drop(request, 1)

    def _drop(self, request: Request, waiting: int) -> None:
        """Ends the compile of a request if only `waiting` threads wait for it."""
        if request.future.done() or request.wanted or request.waiting > waiting:
            return
        # Whoever asks from now on starts anew.
        if self._running.get(request.key) is request:
            del self._running[request.key]
        bundle = request.bundle
        if bundle is not None and not any(
            self._running.get(r.key) is r and not r.future.done() for r in bundle.requests
        ):
            bundle.interruption.request()

    def _start(self, *, one_more: bool = False) -> None:
        """Starts threads as long as there is something to do, and cores to do it."""
        while True:
            with self._lock:
                if not self._pending or (self._active >= self._cores and not one_more):
                    return
                self._active += 1
                one_more = False
            previous = threading.stack_size(_STACK_BYTES)
            try:
                threading.Thread(target=self._work, name=THREAD_NAME).start()
            except RuntimeError:
                # No thread is to be had: the process has too many, or is about to end.
                self._work()
            finally:
                threading.stack_size(previous)

    def _work(self) -> None:
        while True:
            with self._lock:
                bundle = self._next()
                if bundle is None:
                    self._active -= 1
                    return
            outcomes: Sequence[Any]
            try:
                outcomes = self._compile(bundle)
            except BaseException as error:  # it is raised again where the result is awaited
                outcomes = [error] * len(bundle.requests)
            # Before those who wait go on, so that a new attempt never gets the old failure.
            with self._lock:
                for request in bundle.requests:
                    if self._running.get(request.key) is request:
                        del self._running[request.key]
            for request, outcome in zip(bundle.requests, outcomes, strict=True):
                if isinstance(outcome, BaseException):
                    request.future.set_exception(outcome)
                else:
                    request.future.set_result(outcome)

    def _next(self) -> Bundle | None:
        """What is to be compiled next, together with others of its kind; the lock is held."""
        while self._pending:
            bundle = self._pending.popleft()
            bundle.requests = [r for r in bundle.requests if self._running.get(r.key) is r]
            if not bundle.requests:
                continue  # nobody wants it any more
            kind = bundle.requests[0].kind
            if len(bundle.requests) == 1 and kind is not None:
                like = [
                    b for b in self._pending if len(b.requests) == 1 and b.requests[0].kind == kind
                ]
                share = min(math.ceil((1 + len(like)) / self._cores), self._most)
                for other in like[: share - 1]:
                    self._pending.remove(other)
                    bundle.requests += other.requests
            for request in bundle.requests:
                request.bundle = bundle
            bundle.beside = self._active > 1 or bool(self._pending)
            return bundle
        return None


def when_threads_end(function: Callable[[], None]) -> None:
    """Has a function called at the end of the process, before its threads are waited for."""
    # What Python's own pools of threads use, and the only way to be called so early.
    register = getattr(threading, "_register_atexit", None)
    if register is not None:
        # Once the end has begun, as in a function that atexit calls, there are no threads to be
        # waited for any more, and Python takes no further function.
        with contextlib.suppress(RuntimeError):
            register(function)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _bundles(requests: Sequence[Request], cores: int, most: int) -> list[Bundle]:
    """Requests in as many bundles as cores, as far as they can be compiled together."""
    kinds: dict[Hashable, list[Request]] = {}
    found: list[Bundle] = []
    for request in requests:
        if request.kind is None:
            found.append(Bundle([request]))
        else:
            kinds.setdefault(request.kind, []).append(request)
    for same in kinds.values():
        number = max(min(cores, len(same)), math.ceil(len(same) / most))
        found += [Bundle(same[i::number]) for i in range(number)]
    return found
