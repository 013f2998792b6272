"""Collectives between processes, with MPI: `Meetings` for `MpiProcesses`."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xpr.runtimes.collectives import between, reduce, rounds
from xpr.runtimes.collectives.base import (
    Array,
    Collective,
    CollectiveError,
    Group,
    Kinds,
)
from xpr.runtimes.collectives.between import Exchange, Incoming
from xpr.runtimes.collectives.messages import Circle
from xpr.runtimes.collectives.places import Meetings, RankPlaces, SumOfOne
from xpr.runtimes.collectives.plans import Plan
from xpr.runtimes.collectives.streams import Flow
from xpr.runtimes.collectives.switchboard import Line, Switchboard
from xpr.runtimes.collectives.wire import Wire
from xpr.runtimes.processes import DEFAULT

_PACK_BYTES = 1 << 16
"""Blocks of fewer bytes are sent together."""

_GRACE = 5.0
"""Seconds that a failed collective waits for transfers that MPI is in the middle of."""

_TAG = struct.Struct("<i")


class MpiMeetings(Meetings):
    """`Meetings` of an `MpiProcesses`."""

    def __init__(self, processes: Any) -> None:
        self.processes = processes
        self.wire = Wire(processes.MPI, processes.world)
        self.board = Switchboard(processes, self.wire)
        self.broken = ""
        """Why no more collectives are possible, if they are not."""

    def begin(self, places: RankPlaces) -> int:
        return self.board.begin(self.board.circle(places.members))

    def fail(self, places: RankPlaces, error: BaseException) -> None:
        if not self.broken:
            self.board.fail(places, error)

    def poll(self) -> None:
        if not self.broken:
            self.board.pump()

    def state_of(self, process: int) -> str:
        return self.board.state_of(process)

    def close(self) -> None:
        with self.board.lock:
            self.wire.close()

    def perform(
        self,
        places: RankPlaces,
        collective: Collective,
        groups: Sequence[Group],
        operands: Mapping[int, Sequence[Array]],
        results: Mapping[int, Sequence[Array]],
        *,
        apart: bool,
        timeout: float | None = None,
    ) -> None:
        board = self.board
        circle = board.circle(places.members)
        plan = self._plan(circle, places, collective, groups, operands, apart)
        if self.broken:
            raise CollectiveError(f"{plan.where.text} is not possible any more: {self.broken}")
        run = places.run
        if run is None:
            raise ValueError(f"{plan.where.text} belongs to no run: see RankPlaces.running")
        limit = DEFAULT if timeout is None else timeout
        if plan.small is None:
            self._perform(circle, run, plan, operands, results, limit)
            return
        mine = plan.parts[0].mine
        targets = results[mine[0]]
        plan.small.perform(run, [operands[r] for r in mine], targets, limit)
        for rank in mine[1:] if apart else ():
            for target, found in zip(results[rank], targets, strict=True):
                np.copyto(_bytes(target), _bytes(found))

    def small_sum(
        self, places: RankPlaces, collective: Collective, kinds: Kinds
    ) -> SumOfOne | None:
        (rank,) = places.ranks
        group = collective.group_of(rank)
        if collective.kind != "all_reduce" or not places.crosses(group):
            return None
        circle = self.board.circle(places.members)
        found = {group: kinds}
        small = Plan(self.board, circle, places, collective, [group], found, apart=False).small
        if small is None:
            return None
        reduced = small.of_one

        def summed(run: int, operands: Sequence[Array]) -> list[Array]:
            if self.broken:
                raise CollectiveError(f"{collective} is not possible any more: {self.broken}")
            return reduced(run, operands)

        return summed

    def _plan(
        self,
        circle: Circle,
        places: RankPlaces,
        collective: Collective,
        groups: Sequence[Group],
        operands: Mapping[int, Sequence[Array]],
        apart: bool,
    ) -> Plan:
        rank = next(r for r in groups[0] if r in operands)
        first = tuple([(x.shape, x.dtype) for x in operands[rank]])
        key = (id(collective), first, groups[0] if apart else None)
        plan = places.plans.get(key)
        if plan is not None and (plan.is_uniform or plan.kinds == _kinds(groups, operands)):
            return plan
        kinds = _kinds(groups, operands)
        plan = places.plans[key] = Plan(
            self.board, circle, places, collective, groups, kinds, apart
        )
        return plan

    def _perform_in_rounds(
        self, run: int, plan: Plan, found: Exchange, timeout: Any
    ) -> dict[int, int]:
        """Exchanges small blocks, or the tags for larger ones: those of all processes."""
        line = Line(self.board, plan.circle, run, plan.order, plan.wheres, timeout)
        if not plan.is_inline:
            with self.board.lock:
                tag = self.wire.tag()
            _do(found.moves)
            told = rounds.gathered(line, _TAG.pack(tag))
            return {p: _TAG.unpack(t)[0] for p, t in zip(plan.order, told, strict=True)}
        _do(found.moves)
        payloads = {p: b"".join([x.tobytes() for x in xs]) for p, xs in found.outgoing.items()}
        some = payloads[plan.peers[0]]
        payloads[self.processes.index] = bytes(len(some))
        if plan.collective.kind == "all_gather":
            got = rounds.gathered(line, some)
        else:
            got = rounds.exchanged(line, [payloads[p] for p in plan.order])
        told = dict(zip(plan.order, got, strict=True))
        for peer, blocks in found.incoming.items():
            rest = memoryview(told[peer])
            for block in blocks:
                rest = block.take(rest)
                block.finish()
        return {}

    def _perform(
        self,
        circle: Circle,
        run: int,
        plan: Plan,
        operands: Mapping[int, Sequence[Array]],
        results: Mapping[int, Sequence[Array]],
        timeout: Any,
    ) -> None:
        board = self.board
        found = between.exchange(
            plan.collective, plan.parts, plan.peers, operands, results, small=plan.is_inline
        )
        if plan.in_rounds:
            tags = self._perform_in_rounds(run, plan, found, timeout)
            if tags:
                self._move(circle, run, plan, found, tags, timeout)
            for then in found.after:
                then()
            board.let_go(plan.peers, plan.where, timeout)
            return
        tag = 0
        with board.lock:
            if not plan.is_inline:
                tag = self.wire.tag()
            for peer in plan.peers:
                payload = b""
                if plan.is_inline:
                    payload = b"".join([x.tobytes() for x in found.outgoing[peer]])
                board.announce(peer, plan.wheres[peer], run, tag, payload)
        _do(found.moves)
        meets = board.wait_for(circle, run, plan.wheres, timeout)
        if plan.is_inline:
            for peer, blocks in found.incoming.items():
                rest = memoryview(meets[peer].payload)
                for block in blocks:
                    rest = block.take(rest)
                    block.finish()
        else:
            tags = {p: m.tag for p, m in meets.items()}
            tags[self.processes.index] = tag
            self._move(circle, run, plan, found, tags, timeout)
        for then in found.after:
            then()
        board.let_go(plan.peers, plan.where, timeout)

    # ---- arrays

    def _move(
        self,
        circle: Circle,
        run: int,
        plan: Plan,
        found: Exchange,
        tags: Mapping[int, int],
        timeout: Any,
    ) -> None:
        board = self.board
        flow = Flow(self.wire, board.lock, self.processes.index, tags)
        try:
            for peer in plan.peers:
                _begin(flow, peer, found.outgoing[peer], found.incoming[peer])
            flow.reduce(found.items)
            while not flow.is_done:
                board.wait_for_flow(circle, run, plan.where, flow, timeout)
        except BaseException:
            self._clean_up(flow, plan)
            raise

    def _clean_up(self, flow: Flow, plan: Plan) -> None:
        """Leaves no transfer that could write to memory that is somebody else's by then."""
        end = time.monotonic() + _GRACE
        with self.board.lock:
            busy = self.wire.give_up(flow.transfers())
        while any(t.is_receive for t in busy) and time.monotonic() < end:
            time.sleep(0.001)
            with self.board.lock:
                busy = [t for t in busy if not self.wire.is_done(t)]
        if any(t.is_receive for t in busy):
            names = self.processes.names(sorted({t.process for t in busy if t.is_receive}))
            self.broken = f"{plan.where.text} failed while memory of {names} was arriving"
            self.processes.fail(CollectiveError(self.broken))
        with self.board.lock:
            self.wire.keep(busy)


def _kinds(groups: Sequence[Group], operands: Mapping[int, Sequence[Array]]) -> dict[Group, Kinds]:
    """The types of the operands of each group."""
    return {
        g: tuple([(x.shape, x.dtype) for x in operands[next(r for r in g if r in operands)]])
        for g in groups
    }


def _do(moves: Sequence[reduce.Move]) -> None:
    for combine, sources, targets in moves:
        combine(sources, targets)


def _begin(flow: Flow, peer: int, outgoing: Sequence[Array], incoming: Sequence[Incoming]) -> None:
    """Begins all transfers between this process and another; small blocks go together."""
    blocks = [np.ascontiguousarray(b) for b in outgoing]
    small = [b for b in blocks if b.nbytes < _PACK_BYTES]
    if small:
        flow.send(peer, [np.concatenate([_bytes(b) for b in small])])
    flow.send(peer, [b for b in blocks if b.nbytes >= _PACK_BYTES])
    packed = [b for b in incoming if b.nbytes < _PACK_BYTES]
    if packed:
        memory = np.empty(sum(b.nbytes for b in packed), np.uint8)

        def unpack() -> None:
            rest = memory.data
            for block in packed:
                rest = block.take(rest)
                block.finish()

        flow.receive(peer, memory, unpack)
    for block in incoming:
        if block.nbytes >= _PACK_BYTES:
            flow.receive(peer, block.memory(), block.finish)


def _bytes(x: Array) -> Array:
    return x.reshape(-1).view(np.uint8)
