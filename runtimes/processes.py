"""The processes that compute together, this one among them: the interface, and which there are.

An engine (MPI) starts processes, lets them find each other and moves bytes; `xpr.distributed` joins
one of its processes to the others and sets `current`. Nothing here loads an engine. A program that
was not joined has `current = None`, and nothing costs anything.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from xpr.runtimes.collectives.places import Meetings

DEFAULT_LIMIT = 60.0
"""Seconds that a process waits for others where `collective_timeout` is not set."""

LATE = 10.0
"""Seconds after which a process that is waited for is named on stderr."""


class _Default:
    def __repr__(self) -> str:
        return "collective_timeout"


DEFAULT: Final = _Default()
"""Stands for the limit that the setting `collective_timeout` tells."""

Timeout = float | _Default


class Processes(ABC):
    """The processes that compute together. Every method may be called in any thread."""

    engine: str = ""
    """What they meet by, for messages."""

    index: int
    """The number of this process."""

    count: int

    hosts: tuple[int, ...]
    """The number of the machine that each process runs on, from 0."""

    cores: int | None = None
    """Cores of its machine that are left to this process by the others; None if nobody knows."""

    limit: float = DEFAULT_LIMIT
    """Seconds that a wait without a timeout of its own may take."""

    @abstractmethod
    def gather(
        self,
        payload: bytes,
        *,
        what: str,
        members: Sequence[int] | None = None,
        timeout: Timeout = DEFAULT,
        channel: str = "",
    ) -> list[bytes]:
        """Everybody's bytes, in the order of `members`, of which there are all by default.

        Each of them must call it, with the same `members` and the same `what`, which messages
        name, and in the same order; what meets in the background has a `channel` of its own, with
        an order of its own. Raises TimeoutError for a process that does not come, PeerError for one
        that failed or ended, CollectiveError for one that is elsewhere in its program.
        """

    def barrier(
        self,
        *,
        what: str,
        members: Sequence[int] | None = None,
        timeout: Timeout = DEFAULT,
        channel: str = "",
    ) -> None:
        """Waits until all `members` have come. Raises as `gather` does."""
        self.gather(b"", what=what, members=members, timeout=timeout, channel=channel)

    @property
    @abstractmethod
    def meetings(self) -> Meetings:
        """How processes perform the collectives of programs; `RankPlaces` leads there."""

    @abstractmethod
    def fail(self, error: BaseException) -> None:
        """Tells the others that this process failed: whoever waits for it raises."""

    @abstractmethod
    def poll(self) -> None:
        """Takes in what others have sent, their failures among it. It never waits."""

    @abstractmethod
    def failure_of(self, process: int) -> Exception | None:
        """Why `process` will not come any more, as an error to raise; None as far as is known.

        It knows what `poll` took in, and of processes on the same machine whether they are alive.
        """

    def describe(self, process: int) -> str:
        """A process as messages name it."""
        return f"process {process}"

    def whereabouts(self, process: int) -> str:
        """What is known of what `process` does while others wait for it; "" when nothing is."""
        del process
        return ""

    def wait_until(
        self,
        done: Callable[[], bool],
        *,
        missing: Callable[[], Sequence[int]],
        what: str,
        timeout: Timeout = DEFAULT,
        limit_name: str = "the setting collective_timeout, or XPR_COLLECTIVE_TIMEOUT",
        heeds_failures: bool = True,
    ) -> None:
        """Waits until `done`, which is asked again and again, and must look at the engine itself.

        `missing` tells the processes that are waited for: they are named on stderr when the wait
        gets long. Raises TimeoutError when `timeout` seconds are over, and says by `limit_name` who
        sets them; PeerError when one of them failed or ended, if it `heeds_failures`. Between looks
        other processes get the core: there may be more processes than cores.
        """
        if done():
            return
        me = threading.get_ident()
        names = ", ".join(f"process {p}" for p in list(missing())[:_SHOWN])
        _waits[me] = f"waits at {what} for {names}"
        try:
            self._wait_until(done, missing, what, timeout, limit_name, heeds_failures)
        finally:
            _waits.pop(me, None)

    def _wait_until(
        self,
        done: Callable[[], bool],
        missing: Callable[[], Sequence[int]],
        what: str,
        timeout: Timeout,
        limit_name: str,
        heeds_failures: bool,
    ) -> None:
        limit = self.limit if isinstance(timeout, _Default) else timeout
        start = time.monotonic()
        nap = _NAP
        look = start + _LOOK
        late = start + min(LATE, limit)
        named = False
        while True:
            if done():
                break
            now = time.monotonic()
            if now < start + _EAGER:
                give_way()
                continue
            if now >= look:
                look = now + _LOOK
                self.poll()
                if done():
                    break
                for process in missing() if heeds_failures else ():
                    error = self.failure_of(process)
                    if error is not None:
                        raise _of_peer(what, error)
                if now >= start + limit:
                    raise TimeoutError(
                        f"{what}: {self.names(missing())} did not come within {limit:g} s "
                        f"({limit_name})"
                    )
                if not named and now >= late and limit > LATE:
                    named = True
                    _say(
                        f"xpr: {self.describe(self.index)} has waited {now - start:.0f} s at "
                        f"{what} for {self.names(missing())}; it will wait {limit:g} s"
                    )
            time.sleep(nap)
            nap = min(nap * 1.2, _LONGEST_NAP)
        if named:
            _say(
                f"xpr: {self.describe(self.index)} goes on after "
                f"{time.monotonic() - start:.0f} s at {what}"
            )

    def names(self, members: Sequence[int]) -> str:
        """Processes as messages list them, with what is known of what they do."""
        shown = []
        for process in members[:_SHOWN]:
            about = self.whereabouts(process)
            shown.append(self.describe(process) + (f" [{about}]" if about else ""))
        if len(members) > _SHOWN:
            shown.append(f"{len(members) - _SHOWN} more")
        return "; ".join(shown) or "nobody"


def _of_peer(what: str, error: Exception) -> Exception:
    # Collectives are loaded by programs that have some.
    from xpr.runtimes.collectives.base import PeerError  # noqa: PLC0415

    found = PeerError(f"{what}: {error}")
    for note in getattr(error, "__notes__", ()):
        found.add_note(note)
    return found


_SHOWN = 8
"""Processes that a message names before it counts the rest."""

_EAGER = 0.002
"""Seconds in which a wait looks as often as it can, giving the core up between."""

_NAP = 50e-6
_LONGEST_NAP = 0.001
_LOOK = 0.1
"""Seconds between two looks at failures and the time."""

give_way: Callable[[], Any] = getattr(os, "sched_yield", lambda: time.sleep(0))
"""Lets others have the core."""


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


_waits: dict[int, str] = {}


def waiting() -> str:
    """Where threads of this process wait for other processes, for messages; "" if none does."""
    return "; ".join(list(_waits.values()))


current: Processes | None = None
"""The processes that this one was joined to; None in a program of one process."""
