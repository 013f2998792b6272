"""How a process leaves the others: at its end, by `shutdown`, or because it failed.

MPI's own end, MPI_Finalize, waits for all processes, for ever. So they first tell each other that
they have ended or failed, and wait for that with a limit; MPI is ended only if all have ended well.
Otherwise the process ends without it, which launchers take for a failure, as it is.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time
from collections.abc import Callable
from types import TracebackType

from xpr.distributed import starting
from xpr.distributed.mpi_processes import MpiProcesses
from xpr.runtimes.collectives.base import PeerError
from xpr.runtimes.queue import finish_all

GRACE = 5.0
"""Seconds that a process that failed waits for others to raise because of it.

Launchers end all processes when the first ends badly, before the others could say what they wait
for.
"""

_LATER = 0.5
"""Seconds that a process that failed because of another one ends after it."""

_FINALIZE = 30.0
"""Seconds that MPI_Finalize may take once all processes are there."""


class Leaving:
    """The end of this process's part among `processes`."""

    def __init__(self, processes: MpiProcesses, patience: float, *, finalizes: bool) -> None:
        self.processes = processes
        self._patience = patience
        self._finalizes = finalizes
        self._has_left = False
        self._pid = os.getpid()
        self._hook: Callable[..., object] = sys.excepthook
        sys.excepthook = self._tell
        atexit.register(self._at_exit)

    def _tell(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        try:
            # Nobody is told by one that has left them, nor by a copy of the process that fork made.
            if not self._has_left and self._pid == os.getpid():
                self.processes.fail(error)
        finally:
            self._hook(kind, error, trace)

    def _at_exit(self) -> None:
        if self._pid != os.getpid():
            return
        error = self._leave()
        if error is None and not self.processes.has_failed:
            return
        if error is not None and not self.processes.has_failed:
            here = self.processes.describe(self.processes.index)
            print(f"xpr: {here} at its end: {error}", file=sys.stderr)
        if self.processes.failed_for_others:
            # Launchers pass on the exit status of the process that ended first.
            time.sleep(_LATER)
        if not self._finalizes:
            # Whoever started MPI, mpi4py for instance, will end it, and may wait for ever for a
            # process that is gone.
            _end_within(_FINALIZE)

    def leave(self) -> None:
        """Waits for the others to leave or to end, too, and raises what goes wrong with them."""
        atexit.unregister(self._at_exit)
        error = self._leave()
        if error is not None:
            raise error

    def _leave(self) -> Exception | None:
        finish_all()
        self._has_left = True
        here = self.processes
        if not here.has_failed:
            here.end()
        error = self._wait(GRACE if here.has_failed else self._patience)
        if self._finalizes and error is None and not here.has_failed:
            here.close()
            starting.finish(here.MPI, _FINALIZE)
        return error

    def _wait(self, patience: float) -> Exception | None:
        """Waits until every process has ended or failed; what went wrong, if anything did."""
        here = self.processes
        failures: dict[int, Exception] = {}
        since: float | None = None
        start = time.monotonic()

        def missing() -> list[int]:
            return [p for p in range(here.count) if p != here.index and not here.has_ended(p)]

        def done() -> bool:
            nonlocal since
            here.poll()
            left = missing()
            for p in left:
                error = here.failure_of(p)
                if error is None and here.is_stopped(p) and time.monotonic() > start + here.limit:
                    error = PeerError(f"{here.describe(p)} is stopped")
                if error is not None:
                    failures.setdefault(p, error)
            if failures and since is None:
                since = time.monotonic()
            if since is not None and time.monotonic() > since + GRACE:
                return True
            return len(failures) == len(left) and not here.mailbox.is_sending

        try:
            here.wait_until(
                done,
                missing=missing,
                what="xpr.distributed.shutdown()",
                timeout=patience,
                limit_name="shutdown_timeout_seconds",
                heeds_failures=False,
            )
        except TimeoutError as error:
            return error
        if failures:
            first = min(failures)
            return PeerError(str(failures[first]))
        return None


def _end_within(seconds: float) -> None:
    """Has the system end this process, should it be still there then."""
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(seconds))
