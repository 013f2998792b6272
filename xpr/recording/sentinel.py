"""The sentinel: a share of all calls is computed again, in a process of low priority.

A call that is looked at goes the slow path once; between two of them, calls take the fast path
and nothing is asked. A timer arms the sentinel again after as long as 1 / rate calls take.
"""

from __future__ import annotations

import itertools
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs

from xpr.core.config import set_watcher, state
from xpr.core.extended_array import base_of
from xpr.recording.recorder import SUFFIX, Call, write_call

_LIMIT = 16 << 20
_MOST_WAITING = 8
_SHARE = 0.01
"""Of the caller's time so much may go to calls that are looked at."""

_numbers = itertools.count()


def default_folder() -> Path:
    """Where calls, alarms and summaries are kept unless a folder is named."""
    return Path(platformdirs.user_state_dir("xpr")) / "sentinel"


_ending: list[subprocess.Popen[bytes]] = []
"""Processes that check what is left after their sentinels have stopped."""


class Sentinel:
    """Looks at a share of the calls, writes them down, and keeps a process that checks them."""

    def __init__(self, rate: float, folder: Path) -> None:
        self.rate = rate
        self.folder = folder
        self.seen = 0
        """Calls that were looked at."""
        self._armed_at = 0.0
        self._timer: threading.Timer | None = None
        self._queue: queue.Queue[Call | None] = queue.Queue(_MOST_WAITING)
        self._writer: threading.Thread | None = None
        self._checker: subprocess.Popen[bytes] | None = None
        self._ended = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Looks at the next call."""
        with self._lock:
            if not self._ended:
                self._armed_at = time.perf_counter()
                set_watcher(self)

    def stop(self, wait: float | None = None) -> None:
        """Looks at no more calls; `wait` gives the checks of what was seen so many seconds."""
        with self._lock:
            self._ended = True
            set_watcher(None)
            if self._timer is not None:
                self._timer.cancel()
        if self._writer is not None:
            self._queue.put(None)
            self._writer.join()
        if self._checker is not None and self._checker.stdin is not None:
            self._checker.stdin.close()  # it checks what is left, and ends
            if wait is not None:
                self._checker.wait(wait)
            _ending[:] = [p for p in (*_ending, self._checker) if p.poll() is None]

    def __call__(
        self, name: str, closed: Any, parts: Any, run: Callable[[], Sequence[Any]]
    ) -> Sequence[Any]:
        start = time.perf_counter()
        between = start - self._armed_at
        with self._lock:
            set_watcher(None)
        kept = [
            np.array(base_of(x)) if i in parts.donated or isinstance(x, np.ndarray) else base_of(x)
            for i, x in enumerate(parts.leaves)
        ]
        results = run()
        self._hand_on(Call(name, closed, kept, results, "ok"))
        cost = time.perf_counter() - start
        if self.rate >= 1:
            self.start()
        else:
            self._arm_after(max(between / self.rate, cost / _SHARE, 1e-3))
        return results

    def _arm_after(self, seconds: float) -> None:
        with self._lock:
            if not self._ended:
                self._timer = threading.Timer(seconds, self.start)
                self._timer.daemon = True
                self._timer.start()

    def _hand_on(self, call: Call) -> None:
        self.seen += 1
        if self._writer is None:
            self._writer = threading.Thread(target=self._write_all, daemon=True)
            self._writer.start()
        try:
            self._queue.put_nowait(call)
        except queue.Full:
            return  # the disk is slower than the calls: this one is not checked

    def _write_all(self) -> None:
        waiting = self.folder / "waiting"
        while (call := self._queue.get()) is not None:
            file = waiting / f"{os.getpid()}-{next(_numbers):08d}{SUFFIX}"
            try:
                if len(list(waiting.glob(f"*{SUFFIX}"))) < _MOST_WAITING * 8:
                    write_call(file, call, _LIMIT)
                    self._check()
            except OSError as error:
                sys.stderr.write(f"xpr: the sentinel cannot write to {self.folder}: {error}\n")
                return

    def _check(self) -> None:
        """Has the process run that checks calls."""
        if self._checker is None or self._checker.poll() is not None:
            quiet = {"XPR_SENTINEL": "0", "XPR_RECORD": ""}
            self._checker = subprocess.Popen(
                [sys.executable, "-m", "xpr.recording.checker", str(self.folder)],
                stdin=subprocess.PIPE,
                env={**os.environ, **quiet},
            )


def of_settings() -> Sentinel:
    """The sentinel that the setting `sentinel` asks for."""
    return Sentinel(state.sentinel, default_folder())


@contextmanager
def sentinel(
    rate: float = 0.001,
    *,
    folder: str | os.PathLike[str] | None = None,
    wait: float | None = None,
) -> Iterator[Sentinel]:
    """Has a share of the calls in the block computed again, by a process of low priority.

    About `rate` of the calls of jitted functions, fewer where they are so short that this would
    take more than a hundredth of their time, are written down and evaluated by the reference rules.
    Where a result is outside of the bounds of rounding, the call is kept in `folder`, and `xpr
    sentinel report` shows it. With `wait` the block ends when what was seen has been checked, after
    so many seconds at most. A call that cannot be judged (an operation without bounds, a branch
    that rounding decides) raises no alarm; the daily summary counts it. Inside the block, a
    recorder around it records nothing.

    Raises ValueError for a rate that is not above 0 and up to 1.

    >>> import tempfile, xpr, xpr.numpy as jnp
    >>> f = xpr.jit(lambda x: jnp.sin(x) * 2)
    >>> with xpr.sentinel(1.0, folder=tempfile.mkdtemp()) as watch:
    ...     y = f(jnp.ones(3))
    >>> watch.seen
    1
    """
    if not 0 < rate <= 1:
        raise ValueError(f"the rate of a sentinel must be above 0 and up to 1, got {rate!r}")
    watch = Sentinel(rate, default_folder() if folder is None else Path(folder))
    watch.start()
    try:
        yield watch
    finally:
        watch.stop(wait)
