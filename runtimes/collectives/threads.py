"""Collectives between the threads of one process, directly in the memory that they share.

The ranks of a group come to a *meeting* with their arrays. The last to come starts the work, cut
into pieces; for large arrays it wakes as many others as there are free cores, and whoever is awake
takes the next piece. Nobody else wakes before all is done: each rank sleeps on a lock of its own,
because a condition on which all of them wait would wake eight threads to fight for two cores.

An error of one rank breaks the whole run: everybody who waits or comes later raises.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from xpr.runtimes import shutdown
from xpr.runtimes.base import type_str
from xpr.runtimes.collectives import reduce
from xpr.runtimes.collectives.base import (
    Array,
    Collective,
    CollectiveError,
    Group,
    Kinds,
    Participant,
    PeerError,
    described,
)
from xpr.runtimes.collectives.places import RankPlaces
from xpr.runtimes.cores import cores

_HELP_BYTES = 1 << 20
"""Bytes to be read and written from which it pays to wake another thread."""


class _Meeting:
    """The ranks of one group at one collective."""

    __slots__ = (
        "arrays",
        "collective",
        "come",
        "done",
        "group",
        "kinds",
        "out",
        "workers",
        "works",
    )

    def __init__(self, collective: Collective, kinds: Kinds, group: Group) -> None:
        self.collective = collective
        self.kinds = kinds
        self.group = group
        self.arrays: list[Sequence[Array] | None] = [None] * len(group)
        self.out: list[Sequence[Array]] = [()] * len(group)
        self.come = 0  # ranks that are here
        self.done = False  # whether all results are there
        self.works: Iterator[reduce.Move] | None = None  # the pieces that nobody has taken yet
        self.workers = 0  # threads that take pieces

    def missing(self) -> list[int]:
        """The ranks that are still to come."""
        if self.come == len(self.group):
            return []
        return [r for r, arrays in zip(self.group, self.arrays, strict=True) if arrays is None]

    def __str__(self) -> str:
        return described(self.collective, self.kinds)


class Rendezvous:
    """Where the ranks of one run of a program meet, each of which is a thread of this process.

    `timeout` is the number of seconds that a rank waits for others to come, None for ever; `name`
    says in messages which program it is.

    With `places` the program runs in several processes, and the ranks that meet here are this
    one's: the last of a group to come meets the other processes for all of them.
    """

    def __init__(
        self,
        size: int,
        *,
        timeout: float | None = None,
        name: str = "program",
        places: RankPlaces | None = None,
    ) -> None:
        self.size = size
        self.timeout = timeout
        self.name = name
        self.places = places
        self._lock = threading.Lock()
        self._open: dict[Group, _Meeting] = {}
        self._at: list[_Meeting | None] = [None] * size  # the meeting that a rank is in
        self._busy = 0  # the number of ranks that are in one
        self._left = [False] * size
        self._some_left = False
        self._error: BaseException | None = None
        self._failed_rank: int | None = None
        self._gates = [threading.Lock() for _ in range(size)]
        for gate in self._gates:
            gate.acquire()
        _alive.add(self)
        if shutdown.is_near:
            _break_at_end(self)

    def participant(self, rank: int) -> ThreadParticipant:
        """The part of one rank, for the thread that runs it."""
        if not 0 <= rank < self.size:
            raise ValueError(f"{self.name} runs on {self.size} ranks, got rank {rank}")
        return ThreadParticipant(self, rank)

    # ---- a rank ends

    def abort(self, rank: int | None, error: BaseException) -> None:
        """Breaks the run because the program of `rank` has failed, or for another reason."""
        with self._lock:
            self._break(rank, error)

    def leave(self, rank: int) -> None:
        """Tells that the program of `rank` has ended: whoever waits for it fails."""
        with self._lock:
            self._left[rank] = self._some_left = True
            for waiting, meeting in enumerate(self._at):
                if meeting is not None and rank in meeting.missing():
                    self._break(rank, self._too_early(rank, waiting, meeting))
                    return

    @property
    def error(self) -> BaseException | None:
        """What broke the run, if anything did."""
        return self._error

    def _break(self, rank: int | None, error: BaseException) -> None:
        if self._error is None:
            self._error = error
            self._failed_rank = rank
        self._open.clear()
        for waiting, meeting in enumerate(self._at):
            if meeting is not None and not meeting.done:
                self._wake(waiting)

    def _wake(self, rank: int) -> None:
        gate = self._gates[rank]
        if gate.locked():
            gate.release()

    # ---- a rank comes

    def perform(
        self,
        rank: int,
        collective: Collective,
        arrays: Sequence[Array],
        out: Sequence[Array] | None,
    ) -> list[Array]:
        """`Participant.perform` for `rank`."""
        try:
            return self._perform(rank, collective, arrays, out)
        except BaseException as error:
            self.abort(rank, error)
            raise

    def _perform(
        self,
        rank: int,
        collective: Collective,
        arrays: Sequence[Array],
        out: Sequence[Array] | None,
    ) -> list[Array]:
        arrays = [a if a.flags.c_contiguous else a.copy(order="C") for a in arrays]
        kinds = tuple([(a.shape, a.dtype) for a in arrays])
        group = collective.group_of(rank)
        results = _results(collective, kinds, out)
        with self._lock:
            if self._error is not None:
                raise self._consequence(rank, described(collective, kinds))
            meeting = self._open.get(group)
            if meeting is None:
                if max(group) >= self.size:
                    raise ValueError(
                        f"{collective} has the group {group}, of {self.size} ranks in all"
                    )
                meeting = self._open[group] = _Meeting(collective, kinds, self._here(group))
            elif meeting.kinds != kinds or meeting.collective != collective:
                other = next(r for r in group if self._at[r] is meeting)
                raise self._mismatch(rank, described(collective, kinds), other, meeting)
            place = meeting.group.index(rank)
            meeting.arrays[place] = arrays
            meeting.out[place] = results
            meeting.come += 1
            last = meeting.come == len(meeting.group)
            if last:
                meeting.workers = 1
                del self._open[group]
            elif self._busy != meeting.come - 1 or self._some_left:
                self._check_others(rank, meeting)
            self._at[rank] = meeting
            self._busy += 1
        if last:
            self._start(rank, meeting)
        else:
            self._wait_for_others(rank, meeting)
        while not meeting.done:
            self._gates[rank].acquire()
            self._help(rank, meeting)
        return results

    def _check_others(self, rank: int, meeting: _Meeting) -> None:
        """Raises if one that `rank` would wait for never comes.

        That is one whose program has ended, and one that waits, at another collective, for `rank`
        itself, directly or by way of others who wait. Ranks of different groups that are at
        different collectives are no error: each group goes on at its own pace.
        """
        unseen = meeting.missing()
        for other in unseen:
            if self._left[other]:
                raise self._too_early(other, rank, meeting)
        seen = {rank, *unseen}
        while unseen:
            other = unseen.pop()
            elsewhere = self._at[other]
            missing = [] if elsewhere is None else elsewhere.missing()
            if rank in missing:
                assert elsewhere is not None
                raise self._mismatch(rank, str(meeting), other, elsewhere)
            unseen += [r for r in missing if r not in seen]
            seen.update(missing)

    def _wait_for_others(self, rank: int, meeting: _Meeting) -> None:
        gate = self._gates[rank]
        timeout = self.timeout
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            if end is None:
                woken = gate.acquire()
            else:
                woken = gate.acquire(timeout=max(0.0, end - time.monotonic()))
            if meeting.done:
                return
            if meeting.come == len(meeting.group):
                if woken:
                    self._help(rank, meeting)
                return
            with self._lock:
                if self._error is not None:
                    raise self._consequence(rank, str(meeting))
                if not woken and meeting.missing():
                    raise self._timeout(rank, meeting)

    # ---- the work

    def _start(self, rank: int, meeting: _Meeting) -> None:
        arrays = [x for x in meeting.arrays if x is not None]
        if self.places is not None and self.places.crosses(meeting.collective.group_of(rank)):
            self._meet_processes(rank, meeting, arrays)
            return
        found = reduce.moves(meeting.collective, meeting.group, arrays, meeting.out)
        if reduce.cost(found) < _HELP_BYTES:
            meeting.works = iter(found)
        else:
            meeting.works = reduce.pieces(found)
            with self._lock:
                for other in [r for r in meeting.group if r != rank][: cores() - 1]:
                    self._wake(other)
        self._work(rank, meeting)

    def _here(self, group: Group) -> Group:
        """The ranks of the group that are in this process."""
        if self.places is None or not self.places.crosses(group):
            return group
        return tuple(r for r in group if r in self.places.ranks)

    def _meet_processes(
        self, rank: int, meeting: _Meeting, arrays: Sequence[Sequence[Array]]
    ) -> None:
        places = self.places
        assert places is not None
        with np.errstate(all="ignore"):
            places.processes.meetings.perform(
                places,
                meeting.collective,
                [meeting.collective.group_of(rank)],
                dict(zip(meeting.group, arrays, strict=True)),
                dict(zip(meeting.group, meeting.out, strict=True)),
                apart=True,
                timeout=self.timeout,
            )
        meeting.works = iter(())
        self._work(rank, meeting)

    def _help(self, rank: int, meeting: _Meeting) -> None:
        """What a rank does whose lock has been opened: it works, unless there is nothing to do."""
        with self._lock:
            if meeting.done:
                return
            if self._error is not None:
                raise self._consequence(rank, str(meeting))
            if meeting.works is None:
                return
            meeting.workers += 1
        self._work(rank, meeting)

    def _work(self, rank: int, meeting: _Meeting) -> None:
        works = meeting.works
        assert works is not None
        with np.errstate(all="ignore"):
            while True:
                with self._lock:  # a generator runs in one thread at a time
                    move = next(works, None)
                if move is None:
                    break
                combine, sources, targets = move
                combine(sources, targets)
        with self._lock:
            # After an error somebody may have gone, whose arrays now hold anything.
            if self._error is not None:
                raise self._consequence(rank, str(meeting))
            meeting.workers -= 1
            if meeting.workers:
                return
            meeting.done = True
            meeting.works = None
            meeting.arrays, meeting.out = [], []
            for other in meeting.group:
                if self._at[other] is meeting:
                    self._at[other] = None
                    self._busy -= 1
                    if other != rank:
                        self._wake(other)

    # ---- messages

    def _mismatch(self, rank: int, mine: str, other: int, meeting: _Meeting) -> CollectiveError:
        return CollectiveError(
            f"{self.name}: rank {rank} is at {mine}, rank {other} at {meeting} of the group "
            f"{meeting.group}: the ranks of a group must perform the same collectives, on arrays "
            f"of the same types, in the same order"
        )

    def _too_early(self, rank: int, waiting: int, meeting: _Meeting) -> CollectiveError:
        return CollectiveError(
            f"{self.name}: rank {rank} has ended, while rank {waiting} waits for it at {meeting}"
        )

    def _timeout(self, rank: int, meeting: _Meeting) -> TimeoutError:
        missing = sorted(meeting.missing())
        states = [
            f"rank {r} waits at {m}"
            for r, m in enumerate(self._at)
            if m is not None and r in missing
        ]
        return TimeoutError(
            f"{self.name}: rank {rank} has waited {self.timeout:g} s at {meeting} for rank "
            f"{', '.join(map(str, missing))}" + "".join(f"; {s}" for s in states)
        )

    def _consequence(self, rank: int, where: str) -> BaseException:
        """What a rank raises because the run is broken."""
        cause = self._error
        assert cause is not None
        if type(cause) is CollectiveError:
            found: BaseException = CollectiveError(*cause.args)
        else:
            failed = "" if self._failed_rank is None else f"rank {self._failed_rank} failed with "
            found = PeerError(
                f"{self.name}: rank {rank} cannot perform {where}: {failed}"
                f"{type(cause).__name__}: {cause}"
            )
        found.__cause__ = cause
        return found


class ThreadParticipant(Participant):
    """One rank of a `Rendezvous`."""

    engine: ClassVar[str] = "threads"

    def __init__(self, rendezvous: Rendezvous, rank: int) -> None:
        self.rendezvous = rendezvous
        self.rank = rank

    def perform(
        self, collective: Collective, arrays: Sequence[Array], out: Sequence[Array] | None = None
    ) -> list[Array]:
        return self.rendezvous.perform(self.rank, collective, arrays, out)


def _results(collective: Collective, kinds: Kinds, out: Sequence[Array] | None) -> list[Array]:
    kinds_out = collective.out_types_of(kinds)
    if out is None:
        return [np.empty(shape, dtype) for shape, dtype in kinds_out]
    found = [(x.shape, x.dtype) for x in out]
    if found != kinds_out or not all(x.flags.c_contiguous and x.flags.writeable for x in out):
        raise ValueError(
            f"{collective} writes to contiguous arrays {', '.join(map(type_str, kinds_out))}, got "
            f"{', '.join(map(type_str, found))}"
        )
    return list(out)


_alive: weakref.WeakSet[Rendezvous] = weakref.WeakSet()


def _break_at_end(rendezvous: Rendezvous) -> None:
    rendezvous.abort(None, RuntimeError("the process is ending"))


def _break_all() -> None:
    """At the end of the process, when some ranks are stopped before they come."""
    for rendezvous in list(_alive):
        _break_at_end(rendezvous)


shutdown.when_near(_break_all)
