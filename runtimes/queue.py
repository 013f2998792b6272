"""Programs that run later: one queue and one thread for each device, and results to wait for.

A queued program keeps hold of what it needs of its operands when it is queued. Whoever deletes or
donates an array afterwards changes nothing for it, and the programs of a device run one after the
other in the order of their calls.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from xpr.runtimes import fork, shutdown
from xpr.runtimes.base import ArrayType, Buffer, Device, Executable, Shape, deleted_error, type_str
from xpr.runtimes.extension import native

LIMIT = 32
"""Programs that may wait for a device: a call that comes on top of them waits for one to finish."""


class Result:
    """One result of a queued program: first promised, then there, or the error instead of it."""

    __slots__ = ("buffer", "error", "is_shared", "job")

    def __init__(self, job: Job) -> None:
        self.job: Job | None = job
        self.buffer: Any = None
        self.error: Failure | None = None
        self.is_shared = False  # whether several arrays have it, so that none may be written to

    def wait(self) -> Any:
        """The buffer. Raises the program's exception when it failed."""
        job = self.job
        if job is not None:
            job.wait()
        if self.error is not None:
            raise self.error.exception.with_traceback(self.error.traceback)
        return self.buffer


class Failure:
    """An exception and the traceback that it had when it was raised."""

    __slots__ = ("exception", "traceback")

    def __init__(self, exception: BaseException) -> None:
        self.exception = exception
        self.traceback = exception.__traceback__


class Job:
    """A function to be called, which returns one buffer for each promised result."""

    __slots__ = ("_done", "_function", "_queue", "_results", "_site", "has_effects")

    def __init__(
        self,
        queue: DeviceQueue,
        function: Callable[[], Sequence[Any]],
        count: int = 0,
        site: object = None,
        has_effects: bool = False,
    ) -> None:
        self._queue = queue
        self._function: Callable[[], Sequence[Any]] | None = function
        self._site = site
        self._done = threading.Event()
        self._results = [Result(self) for _ in range(count)]
        self.has_effects = has_effects

    @property
    def results(self) -> list[Result]:
        """The promised results, until the function has been called."""
        return self._results

    def wait(self) -> None:
        """Waits for the end of the function; what it raised is with the results.

        Ctrl-C ends the wait, and the program that the queue runs meanwhile.
        """
        if self._queue.is_mine() and not self._done.is_set():
            raise RuntimeError(
                "a function that a program calls waits for a program behind it in the queue of "
                "the same device, which would never end"
            )
        try:
            self._done.wait()
        except KeyboardInterrupt:
            self._queue.interrupt()
            raise

    def run(self) -> None:
        """Calls the function and keeps the promises."""
        function, self._function = self._function, None
        assert function is not None
        try:
            for result, buffer in zip(self._results, function(), strict=True):
                result.buffer = buffer
        except BaseException as error:
            del function
            self.fail(error)
        else:
            self._end()

    def fail(self, error: BaseException) -> None:
        """Gives the error in place of all results, with a note of the call that it belongs to."""
        if self._site is not None and not getattr(error, "_xpr_queued", False):
            error.add_note(f"The program was called at {self._site}; it failed when it was run.")
            try:
                error._xpr_queued = True  # type: ignore[attr-defined]
            except AttributeError:  # exceptions with __slots__ take a note but no attribute
                pass
        failure = Failure(error)
        # The frames would hold the operands for as long as somebody keeps the error.
        import traceback  # noqa: PLC0415  only after a failure

        traceback.clear_frames(failure.traceback)
        for result in self._results:
            result.error = failure
        if not self._results:
            self._queue.failures.append(failure)
        self._function = None
        self._end()

    def _end(self) -> None:
        for result in self._results:
            result.job = None
        self._results = []
        self._done.set()


class PendingBuffer(Buffer):
    """A buffer whose values may still be computed; everything that needs them waits."""

    __slots__ = ("_kind", "_result", "device")

    def __init__(self, result: Result, kind: ArrayType, device: Device) -> None:
        self._result: Result | None = result
        self._kind = kind
        self.device = device

    @property
    def kind(self) -> ArrayType:
        """The shape and dtype."""
        return self._kind

    @property
    def shape(self) -> Shape:
        return self._kind[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._kind[1]

    def __repr__(self) -> str:
        state = "deleted" if self.is_deleted() else "ready" if self.is_ready() else "pending"
        return f"PendingBuffer({type_str(self._kind)}, {self.device!r}, {state})"

    def _promise(self) -> Result:
        result = self._result
        if result is None:
            raise deleted_error(self._kind)
        return result

    @property
    def view(self) -> Any:
        """The IREE buffer view if it is there, else None."""
        result = self._result
        return None if result is None or result.buffer is None else result.buffer.view

    @property
    def block(self) -> Any:
        """The block of the native part if it is there, else None."""
        result = self._result
        return None if result is None or result.buffer is None else result.buffer.block

    def native_block(self) -> Any:
        """The block of the native part."""
        return self._promise().wait().native_block()

    def private_block(self) -> Any:
        """A block of the native part with values that compiled code may overwrite."""
        result = self._promise()
        buffer = result.wait()
        return buffer.copied_block() if result.is_shared else buffer.private_block()

    def hal_view(self) -> Any:
        """The IREE buffer view."""
        return self._promise().wait().hal_view()

    def host_view(self) -> np.ndarray[Any, Any]:
        return self._promise().wait().host_view()

    def private_view(self) -> Any:
        """An IREE view of the values that compiled code may overwrite."""
        result = self._promise()
        buffer = result.wait()
        return buffer.copied_view() if result.is_shared else buffer.private_view()

    def copied_view(self) -> Any:
        """A view of a copy of the values in memory of IREE's own."""
        return self._promise().wait().copied_view()

    def memory_span(self) -> tuple[int, int]:
        return self._promise().wait().memory_span()

    def alias(self) -> PendingBuffer:
        result = self._promise()
        result.is_shared = True
        return PendingBuffer(result, self._kind, self.device)

    def retained(self) -> PendingBuffer:
        return PendingBuffer(self._promise(), self._kind, self.device)

    def taken(self) -> PendingBuffer:
        moved = PendingBuffer(self._promise(), self._kind, self.device)
        self.delete()
        return moved

    def is_ready(self) -> bool:
        return self._promise().job is None

    def is_deleted(self) -> bool:
        return self._result is None

    def delete(self) -> None:
        self._result = None

    def block_until_ready(self) -> None:
        self._promise().wait()

    def copy_to_host_async(self) -> None:
        result = self._promise()
        if not self.device.runtime.is_host:
            queue_of(self.device).call(lambda: _fetch(result))


def _fetch(result: Result) -> Sequence[Any]:
    if result.error is None:
        result.buffer.host_view()
    return ()


class DeviceQueue:
    """The programs that wait for one device, and the thread that runs them."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._reset()

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()  # the first of them is the one that runs
        self._thread: threading.Thread | None = None
        self._ending = _is_ending
        self.failures: list[Failure] = []

    def is_mine(self) -> bool:
        """Whether the calling thread is the one that runs the programs."""
        thread = self._thread
        return thread is not None and thread.ident == threading.get_ident()

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits or runs."""
        return not self._jobs

    def submit(self, executable: Executable, buffers: Sequence[Any], site: object) -> list[Any]:
        """Queues a call of `executable` and returns its promised results.

        Donated operands are deleted at once. In the queue's own thread, that is in a function that
        a program calls, and at the end of the process the call is made at once.
        """
        signature = executable.signature
        donated = {i for i, _ in signature.donations}
        check_donations(buffers, donated)
        if self.is_mine() or self._ending:
            return executable(buffers)
        self._wait_for_room()
        held = [b.taken() if i in donated else b.retained() for i, b in enumerate(buffers)]
        job = Job(
            self,
            lambda: executable(held),
            len(signature.outputs),
            site,
            bool(signature.host_calls),
        )
        device = self._device
        promised = zip(job.results, signature.outputs, strict=True)
        found = [PendingBuffer(result, kind, device) for result, kind in promised]
        self._put(job)
        return found

    def call(self, function: Callable[[], Sequence[Any]]) -> None:
        """Queues a call of a function that gives nothing."""
        if not (self.is_mine() or self._ending):
            self._put(Job(self, function))

    def _wait_for_room(self) -> None:
        if len(self._jobs) >= LIMIT:
            with self._changed:
                self._changed.wait_for(lambda: len(self._jobs) < LIMIT)

    def _put(self, job: Job) -> None:
        # An interrupt may come between any two lines: none of them leaves a job that nobody runs.
        with self._changed:
            running = self._thread is not None and self._thread.is_alive()
            if running or self._has_started():
                self._changed.notify_all()
                self._jobs.append(job)
                return
        job.run()

    def _has_started(self) -> bool:
        """Starts the queue's thread; False where none is to be had, as while the process ends."""
        # A thread that is not a daemon would be waited for before anybody could end it.
        thread = threading.Thread(target=self._work, name=f"xpr {self._device}", daemon=True)
        self._thread = thread
        try:
            thread.start()
        except RuntimeError:
            self._thread = None
            return False
        return True

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs)
                job = self._jobs[0]
            job.run()
            del job
            with self._changed:
                self._jobs.popleft()
                self._changed.notify_all()

    def interrupt(self) -> None:
        """Ends the program that runs, if the native part runs it; the others have their turn."""
        thread = self._thread if self._jobs else None
        module = native().module
        if module is not None and thread is not None and thread.ident is not None:
            module.interrupt_thread(thread.ident)

    def drain(self) -> None:
        """Waits until all that has been queued so far is done; errors stay with the results.

        Those of programs without results are kept in `failures`.
        """
        if self.is_mine():
            return
        with self._changed:
            last = self._jobs[-1] if self._jobs else None
        if last is not None:
            last.wait()

    def finish(self) -> None:
        """At the end of the process: waits for what runs and for programs that call functions.

        The others will not be missed: nobody is left to look at their results.
        """
        self._ending = True
        if self.is_mine():
            return
        with self._changed:
            while len(self._jobs) > 1 and not self._jobs[-1].has_effects:
                self._jobs.pop().fail(RuntimeError("the process ended before the program ran"))
        self.drain()

    def forget_thread(self) -> None:
        """In a forked child, which has neither the thread nor the results of what was queued."""
        for job in self._jobs:
            job.fail(RuntimeError("the program was left in the queue of the process that forked"))
        self._reset()


def check_donations(buffers: Sequence[Any], donated: Iterable[int]) -> None:
    """Raises RuntimeError when a donated operand is another operand, too."""
    for i in donated:
        for k, b in enumerate(buffers):
            if b is buffers[i] and k != i:
                raise RuntimeError(
                    "Attempt to use a buffer that was previously donated in the same call: "
                    f"arguments {i} and {k} are the same array, and argument {i} is donated"
                )


_lock = threading.Lock()
_queues: list[DeviceQueue] = []
_is_ending = False


def queue_of(device: Device) -> DeviceQueue:
    """The queue of a device, made by the first call."""
    queue = device.queue
    if queue is None:
        with _lock:
            queue = device.queue
            if queue is None:
                queue = device.queue = DeviceQueue(device)
                _queues.append(queue)
    return queue


@fork.before  # so that the child has the results of all that was queued
def drain_all() -> None:
    """Waits until everything that was queued on any device so far is done."""
    for queue in list(_queues):
        queue.drain()


def barrier() -> None:
    """Waits as `drain_all` does, and raises what programs without results have raised, if any."""
    drain_all()
    failures = [f for queue in list(_queues) for f in queue.failures]
    for queue in list(_queues):
        queue.failures.clear()
    if failures:
        raise failures[0].exception.with_traceback(failures[0].traceback)


def finish_all() -> None:
    """At the end of the process: see `DeviceQueue.finish`."""
    global _is_ending
    _is_ending = True
    for queue in list(_queues):
        queue.finish()


shutdown.at_first(finish_all)


@fork.in_child
def _forget_threads() -> None:
    global _lock
    _lock = threading.Lock()
    for queue in _queues:
        queue.forget_thread()
