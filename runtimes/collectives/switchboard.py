"""Who is at which collective: what the processes of a program tell each other, and what follows.

Before anything moves, each process of a group tells the others which collective of which program
and run it is at, and small operands go with that. Only what agrees goes on; so processes that
differ raise before they have touched each other's memory.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from xpr.runtimes.collectives import rounds
from xpr.runtimes.collectives.base import CollectiveError, PeerError
from xpr.runtimes.collectives.messages import (
    ASK,
    DIGESTS,
    FAILED,
    HEAD,
    INLINE_BYTES,
    MEET,
    START,
    STATE,
    Circle,
    Failure,
    Meet,
    Where,
)
from xpr.runtimes.collectives.places import RankPlaces
from xpr.runtimes.collectives.streams import Flow
from xpr.runtimes.collectives.wire import MESSAGE_BYTES, Wire
from xpr.runtimes.processes import give_way, waiting

_SPINS = 100
_SPINS_ALONE = 10
"""Looks before other processes get the core between them; where there are more processes than
cores, the one that is waited for may need this one."""

_SPINS_OF_SWAPS = 300
"""Looks for the message that is expected, before the wait is one like any other."""

_ASK_FIRST = 0.5
_ASK_AFTER = 5.0
"""Seconds after which others are asked where they are, and those until they are asked again."""


class Switchboard:
    """Sends and takes in what processes tell each other. `lock` guards everything of it."""

    def __init__(self, processes: Any, wire: Wire) -> None:
        self.processes = processes
        self.wire = wire
        self.lock = threading.Lock()
        here = processes.hosts.count(processes.hosts[processes.index])
        self._spins_alone = 1 if here > (os.cpu_count() or 1) else _SPINS_ALONE
        self._circles: dict[tuple[int, ...], Circle] = {}
        self._named: dict[bytes, Circle] = {}
        self._early: defaultdict[bytes, list[tuple[int, Failure]]] = defaultdict(list)
        self._inbox: defaultdict[tuple[int, bytes], deque[Meet]] = defaultdict(deque)
        self._latest: dict[tuple[int, bytes], Meet] = {}
        self._states: dict[int, tuple[str, float]] = {}
        self._taken = 0
        """Messages that were put where `wait_for` finds them."""

    # ---- circles and runs

    def circle(self, members: tuple[int, ...]) -> Circle:
        """The circle of these processes."""
        found = self._circles.get(members)
        if found is None:
            with self.lock:
                found = self._circles.setdefault(members, Circle(members))
                self._named[found.name] = found
                for run, failure in self._early.pop(found.name, []):
                    found.failures.setdefault(run, failure)
        return found

    def begin(self, circle: Circle) -> int:
        """The number of a new run."""
        with self.lock:
            circle.runs += 1
            if circle.failures:
                circle.failures = {n: f for n, f in circle.failures.items() if n >= circle.runs}
            return circle.runs

    # ---- messages

    def pump(self) -> None:
        """Takes in what has come. Returns at once where another thread does it."""
        if not self.lock.acquire(blocking=False):
            return
        try:
            self._take_in()
        finally:
            self.lock.release()

    def _take_in(self) -> None:
        for source, message in self.wire.arrived():
            self._take(source, message)

    def _take(self, source: int, message: bytes) -> None:
        self._taken += 1
        kind, run, tag = HEAD.unpack_from(message)
        if kind == MEET:
            where = message[HEAD.size : START]
            meet = Meet(run, tag, where, message)
            self._inbox[source, where[:8] + where[16:24]].append(meet)
            self._latest[source, where[:8]] = meet
        elif kind == FAILED:
            said = message[START:].decode(errors="replace")
            self._failed(message[HEAD.size :][:8], run, Failure(source, bool(tag), said))
        elif kind == ASK:
            said = waiting()
            if said:
                self._say(source, STATE, said)
        else:
            said = message[START:].decode(errors="replace")
            self._states[source] = (said, time.monotonic())

    def _failed(self, name: bytes, run: int, failure: Failure) -> None:
        circle = self._named.get(name)
        if circle is None:
            self._early[name].append((run, failure))
        elif run >= circle.runs:
            circle.failures.setdefault(run, failure)

    def _say(
        self, process: int, kind: int, text: str, run: int = 0, tag: int = 0, where: bytes = b""
    ) -> None:
        said = text.encode()[: MESSAGE_BYTES - START]
        head = HEAD.pack(kind, run, tag)
        self.wire.post(process, head + where.ljust(DIGESTS, b"\0") + said)

    def announce(self, process: int, where: Where, run: int, tag: int, payload: bytes) -> None:
        """Tells another process where this one is."""
        self.wire.post(process, where.front(run, tag) + payload + where.tail)

    def announce_all(self, wheres: Mapping[int, Where], run: int, payload: bytes) -> None:
        """Tells all of them where this process is, with the same operands."""
        with self.lock:
            for process, where in wheres.items():
                self.wire.post(process, where.front(run) + payload + where.tail)

    # ---- failures

    def fail(self, places: RankPlaces, error: BaseException) -> None:
        """Tells the processes of a run that it has failed here, unless they know."""
        circle = self.circle(places.members)
        run = places.run
        if run is None or run in circle.told or run in circle.failures:
            return
        circle.told = {n for n in circle.told if n >= circle.runs} | {run}
        text = "".join(traceback.format_exception_only(error)).strip()
        disagrees = type(error) is CollectiveError
        with self.lock:
            for process in circle.members:
                if process != self.processes.index:
                    said = f"{places.name} failed there with {text}"
                    self._say(process, FAILED, said, run, disagrees, circle.name)

    def _check(self, circle: Circle, run: int, where: Where, missing: Sequence[int]) -> None:
        """Raises where it is known that the missing processes will not come."""
        failure = circle.failures.get(run)
        describe = self.processes.describe
        if failure is not None:
            found = CollectiveError if failure.disagrees else PeerError
            raise found(
                f"{describe(self.processes.index)} cannot perform {where.text}: "
                f"{describe(failure.process)}: {failure.text}"
            )
        for process in missing:
            latest = self._latest.get((process, circle.name))
            if latest is None or latest.run < run:
                continue
            if latest.run > run or latest.where[8:16] != where.digests[8:16]:
                raise self.mismatch(where, process, latest)

    def mismatch(self, where: Where, process: int, other: Meet) -> CollectiveError:
        """The error of processes at different collectives."""
        describe = self.processes.describe
        return CollectiveError(
            f"{describe(self.processes.index)} is at {where.text}, {describe(process)} at {other}: "
            "the processes of a program must perform the same collectives, on arrays of the same "
            "types, in the same order"
        )

    # ---- waiting

    def swap(
        self,
        circle: Circle,
        run: int,
        wheres: Mapping[int, Where],
        where: Where,
        payload: bytes,
        timeout: Any,
    ) -> dict[int, bytes]:
        """Tells all of `wheres`, which are equal to `where`, where this process is, and waits.

        Returns the message of each of them, whose operands begin at `START`. What comes as it is
        expected, which is the rule, begins with the same bytes as what this process sends.
        """
        expected = where.front(run)
        key = where.inbox
        inbox = self._inbox
        lock = self.lock
        wire = self.wire
        alone = self._spins_alone
        found: dict[int, bytes] = {}
        seen = -1
        with lock:
            wire.post_all(wheres, expected + payload + where.tail)
        for i in range(_SPINS_OF_SWAPS):
            if lock.acquire(blocking=False):
                try:
                    if self._taken != seen:  # another thread, or an earlier wait
                        seen = self._taken
                        for process in wheres:
                            box = inbox.get((process, key))
                            if box and process not in found and _begins(box, expected):
                                found[process] = box.popleft().message
                    for source, message in wire.arrived():
                        if (
                            message.startswith(expected)
                            and source not in found
                            and not inbox.get((source, key))
                        ):
                            found[source] = message
                        else:
                            self._take(source, message)
                finally:
                    lock.release()
            if len(found) == len(wheres) or circle.failures:
                break
            if i >= alone:
                give_way()
        if circle.failures:
            self._check(circle, run, where, ())
        missing = {p: w for p, w in wheres.items() if p not in found}
        if missing:
            found.update(
                (p, m.message) for p, m in self.wait_for(circle, run, missing, timeout).items()
            )
        return found

    def let_go(self, peers: Iterable[int], where: Where, timeout: Any) -> None:
        """Waits until all messages of this process have left: nobody looks at them afterwards."""
        if not self.wire.is_sending:
            return
        waiting_for = list(peers)

        def done() -> bool:
            with self.lock:
                return self.wire.flush()

        self.processes.wait_until(
            done, missing=lambda: waiting_for, what=where.text, timeout=timeout
        )

    def wait_for(
        self, circle: Circle, run: int, wheres: Mapping[int, Where], timeout: Any
    ) -> dict[int, Meet]:
        """What each other process tells, once all are at the same collective as this one.

        `wheres` has what this process told each of them.
        """
        found: dict[int, Meet] = {}
        missing = list(wheres)
        inbox = self._inbox
        boxes = {p: inbox[p, w.inbox] for p, w in wheres.items()}
        here = wheres[missing[0]]
        asked = [time.monotonic() + _ASK_FIRST]

        def look() -> bool:
            self.pump()
            for process in tuple(missing):
                box = boxes[process]
                while box and box[0].run < run:  # of a run that has failed
                    box.popleft()
                if not box:
                    continue
                meet = box[0]
                if meet.run > run or meet.where != wheres[process].digests:
                    self._check(circle, run, here, ())
                    raise self.mismatch(wheres[process], process, meet)
                found[process] = box.popleft()
                missing.remove(process)
            if circle.failures:  # of this run, by one that was here, perhaps
                self._check(circle, run, here, ())
            return not missing

        if self._spun(look):
            return found

        def done() -> bool:
            if look():
                return True
            self._check(circle, run, here, missing)
            if time.monotonic() > asked[0]:
                asked[0] = time.monotonic() + _ASK_AFTER
                self.ask(missing)
            return False

        self.processes.wait_until(done, missing=lambda: missing, what=here.text, timeout=timeout)
        return found

    def wait_for_flow(
        self,
        circle: Circle,
        run: int,
        where: Where,
        flow: Flow,
        timeout: Any,
    ) -> None:
        """Waits until the transfers of a collective get on, or are done."""

        def look() -> bool:
            return flow.advance() or flow.is_done

        if self._spun(look):
            return

        def done() -> bool:
            if look():
                return True
            self.pump()
            self._check(circle, run, where, ())
            return False

        what = f"the transfers of {where.text}"
        self.processes.wait_until(done, missing=flow.missing, what=what, timeout=timeout)

    def _spun(self, look: Callable[[], bool]) -> bool:
        """Whether it came true in the first few microseconds."""
        alone = self._spins_alone
        for i in range(_SPINS):
            if look():
                return True
            if i >= alone:
                give_way()
        return False

    def ask(self, processes: Sequence[int]) -> None:
        """Asks where others are. They answer if they wait for somebody."""
        with self.lock:
            for process in processes:
                self._states.pop(process, None)
                self._say(process, ASK, "")

    def state_of(self, process: int) -> str:
        """What a process answered when it was last asked."""
        return self._states.get(process, ("", 0.0))[0]


def _begins(box: deque[Meet], expected: bytes) -> bool:
    return box[0].message.startswith(expected)


_CHUNK = INLINE_BYTES


class Line(rounds.Line):
    """Messages between some processes at one collective, which all tell the same of it.

    `wheres` has what each other one of them is told.
    """

    def __init__(
        self,
        board: Switchboard,
        circle: Circle,
        run: int,
        order: Sequence[int],
        wheres: Mapping[int, Where],
        timeout: Any,
    ) -> None:
        self._board = board
        self._circle = circle
        self._run = run
        self._order = order
        self._wheres = wheres
        self._timeout = timeout
        self.count = len(order)
        self.me = order.index(board.processes.index)

    def send(self, to: int, block: bytes) -> None:
        process = self._order[to]
        where = {process: self._wheres[process]}
        for start in range(0, max(len(block), 1), _CHUNK):
            self._board.announce_all(where, self._run, block[start : start + _CHUNK])

    def receive(self, source: int, size: int) -> bytes:
        process = self._order[source]
        where = {process: self._wheres[process]}
        found: list[bytes] = []
        for _ in range(0, max(size, 1), _CHUNK):
            told = self._board.wait_for(self._circle, self._run, where, self._timeout)
            found.append(told[process].payload)
        return b"".join(found)
