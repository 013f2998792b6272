"""Threads that stay: one for each rank of a run but the last, which the calling thread runs itself.

Each run takes a crew of threads for itself and gives it back, so that runs of several threads at
once, which wait for their own ranks only, never wait for each other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from xpr.runtimes import fork, shutdown
from xpr.runtimes.collectives.base import PeerError
from xpr.runtimes.collectives.current import taking_part
from xpr.runtimes.collectives.places import RankPlaces
from xpr.runtimes.collectives.threads import Rendezvous

T = TypeVar("T")

PATIENCE = 5.0
"""Seconds that an interrupted run waits for its ranks to notice. Those that compute for longer are
left alone: what they give is dropped."""


class _Worker:
    """A daemon thread that runs one function after the other."""

    def __init__(self, number: int) -> None:
        self._gate = threading.Lock()
        self._gate.acquire()
        self._job: Callable[[], None] | None = None
        # One that is no daemon would be waited for before anybody could tell it to end.
        self._thread = threading.Thread(target=self._work, name=f"xpr rank {number}", daemon=True)
        self._thread.start()

    def start(self, job: Callable[[], None] | None) -> None:
        """Has the function called, which raises nothing; None ends the thread."""
        self._job = job
        self._gate.release()

    def _work(self) -> None:
        while True:
            self._gate.acquire()
            job, self._job = self._job, None
            if job is None:
                return
            job()
            del job


_lock = threading.Lock()
_idle: list[list[_Worker]] = []
"""Crews that no run has; the one that was used last comes first."""


def _take(size: int) -> list[_Worker]:
    with _lock:
        crew = _idle.pop() if _idle else []
    while len(crew) < size:
        crew.append(_Worker(len(crew)))
    return crew


class _Run:
    """The functions of one run, what they gave, and the crew."""

    def __init__(
        self,
        functions: Sequence[Callable[[], Any]],
        failed: Callable[[int, BaseException], None] | None,
    ) -> None:
        self.functions = functions
        self.failed = failed
        self.results: list[Any] = [None] * len(functions)
        self.errors: list[BaseException | None] = [None] * len(functions)
        self._lock = threading.Lock()
        self._left = len(functions)
        self._crew = _take(len(functions) - 1)
        self.done = threading.Lock()
        self.done.acquire()

    def start(self) -> None:
        """Starts all but the last."""
        for i in range(len(self.functions) - 1):
            self._crew[i].start(lambda i=i: self.run(i))

    def run(self, i: int) -> None:
        """Runs function `i` in this thread."""
        try:
            self.results[i] = self.functions[i]()
        except BaseException as error:
            self.fail(i, error)
        self._end()

    def fail(self, i: int, error: BaseException) -> None:
        """Keeps the error and tells of it."""
        self.errors[i] = error
        if self.failed is not None:
            self.failed(i, error)

    def _end(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left:
                return
        with _lock:
            _idle.append(self._crew)
        self.done.release()


def run_on_each(
    functions: Sequence[Callable[[], T]],
    *,
    failed: Callable[[int, BaseException], None] | None = None,
) -> list[T]:
    """Calls each function in a thread of its own, all at once, and returns what they return.

    The last one runs in the calling thread. When one raises, `failed` is called with its number
    and the exception, and has to make the others end; when all have ended, the exception of the
    first that failed by itself is raised. An interrupt (Ctrl-C) counts as a failure of the last.

    >>> from xpr.runtimes.collectives.workers import run_on_each
    >>> run_on_each([lambda: 1, lambda: 2])
    [1, 2]
    """
    if not functions:
        return []
    if len(functions) == 1:
        return [functions[0]()]
    if shutdown.is_near:
        shutdown.stop_other_threads()
        raise RuntimeError(
            f"the process is ending: a program can no longer run on {len(functions)} devices"
        )
    run = _Run(functions, failed)
    last = len(functions) - 1
    try:
        run.start()
        run.run(last)
        mine = run.errors[last]
        if mine is not None and not isinstance(mine, Exception):
            raise mine
        run.done.acquire()
    except BaseException as error:
        # An interrupt: all else stays with the run.
        run.fail(last, error)
        run.done.acquire(timeout=PATIENCE)
        raise
    error = _first(run.errors)
    if error is None:
        return run.results
    try:
        raise error
    finally:
        del error, mine, run  # they would hold this frame, and it the results


def _first(errors: Sequence[BaseException | None]) -> BaseException | None:
    """The error of the first rank that failed by itself, not because another one did."""
    real = [e for e in errors if e is not None]
    own = [e for e in real if not isinstance(e, PeerError) and e.__cause__ not in real]
    return next(iter(own or real), None)


def run_together(
    functions: Sequence[Callable[[], T]],
    *,
    timeout: float | None = None,
    name: str = "program",
    places: RankPlaces | None = None,
) -> list[T]:
    """`run_on_each` for functions that perform collectives: function `i` is rank `i`.

    With `places`, of a program that several processes run, it is rank `places.ranks[i]`.

    A rank that fails, or ends before a collective that others perform, makes them fail, too.
    """
    if places is not None and places.run is None:
        with places.running() as run:
            return run_together(functions, timeout=timeout, name=name, places=run)
    ranks = range(len(functions)) if places is None else places.ranks
    size = len(functions) if places is None else len(places.owners)
    if len(ranks) != len(functions):
        raise ValueError(f"{name} needs functions for the ranks {ranks}, got {len(functions)}")
    meeting = Rendezvous(size, timeout=timeout, name=name, places=places)

    def part(rank: int, function: Callable[[], T]) -> T:
        with taking_part(meeting.participant(rank)):
            value = function()
        meeting.leave(rank)
        return value

    def whole(rank: int, function: Callable[[], T]) -> Callable[[], T]:
        return lambda: part(rank, function)

    def failed(i: int, error: BaseException) -> None:
        meeting.abort(ranks[i], error)

    parts = [whole(r, f) for r, f in zip(ranks, functions, strict=True)]
    return run_on_each(parts, failed=failed)


@fork.in_child
def _forget_threads() -> None:
    """In a forked child, which has no other threads."""
    global _lock
    _lock = threading.Lock()
    _idle.clear()
