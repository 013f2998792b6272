"""Collectives between processes, with MPI: `Meetings` for `MpiProcesses`."""

from __future__ import annotations

import math
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
    described,
)
from xpr.runtimes.collectives.between import Exchange, Incoming, Part
from xpr.runtimes.collectives.places import Meetings, RankPlaces
from xpr.runtimes.collectives.rounds import DIRECT, ROUND_BYTES
from xpr.runtimes.collectives.streams import Flow
from xpr.runtimes.collectives.switchboard import (
    INLINE_BYTES,
    Circle,
    Line,
    Switchboard,
    Where,
    digest,
)
from xpr.runtimes.collectives.wire import Wire
from xpr.runtimes.processes import DEFAULT

_PACK_BYTES = 1 << 16
"""Blocks of fewer bytes are sent together."""

_GRACE = 5.0
"""Seconds that a failed collective waits for transfers that MPI is in the middle of."""


_TAG = struct.Struct("<i")


class _Plan:
    """What is known of a collective before its operands are."""

    def __init__(
        self,
        circle: Circle,
        places: RankPlaces,
        collective: Collective,
        groups: Sequence[Group],
        kinds: Mapping[Group, Kinds],
        apart: bool,
    ) -> None:
        self.circle = circle
        self.kinds = kinds
        self.is_uniform = len(groups) == 1
        self.collective = collective  # lives as long as its number is looked up
        index = places.processes.index
        self.parts = [Part(g, places.owners, index) for g in groups]
        self.peers = sorted({p for part in self.parts for p in part.others})
        self.wheres: dict[int, Where] = {}
        most = 0
        key = digest("group", groups[0] if apart else None)
        what = (
            collective.kind,
            collective.groups,
            collective.op,
            collective.axis,
            collective.concat_axis,
            collective.pairs,
            collective.number,
        )
        for peer in self.peers:
            shared = [p for p in self.parts if peer in p.of]
            types = {kinds[p.group]: None for p in shared}
            text = " and ".join(described(collective, k) for k in types)
            told = digest(what, [[(s, d.name) for s, d in k] for k in types])
            self.wheres[peer] = Where(circle, places.name, key, told, f"{text} in {places.name}")
            size = sum(between.bytes_between(collective, p, kinds[p.group]) for p in shared)
            most = max(most, size)
        first = self.parts[0]
        self.order = list(first.of)
        self.in_rounds = len(self.parts) == 1 and len(self.order) > DIRECT
        self.is_inline = most <= INLINE_BYTES
        if self.in_rounds and collective.kind != "all_reduce":
            # Messages have many blocks, and equal ones.
            is_even = len({len(ranks) for ranks in first.of.values()}) == 1
            half = (len(self.order) + 1) // 2
            self.is_inline = (
                is_even and collective.kind != "permute" and 0 < most * half <= ROUND_BYTES
            )
        self.where = self.wheres[self.peers[0]]
        self.quick: Part | None = None
        """The group, if all there is to do is a small reduction of one."""
        if self.is_inline and collective.kind == "all_reduce" and len(self.parts) == 1:
            self.quick = self.parts[0]
            types = self.types = kinds[self.quick.group]
            self.combines = [reduce.combiner(collective.op, dtype) for _, dtype in types]
            self.targets = self.quick.mine if apart else self.quick.mine[:1]
            self.by_root = len(self.quick.of) > 2
            """Whether the group's first process combines for all: there are fewer messages then."""
            self.root = next(iter(self.quick.of))
            self.to_root = {p: w for p, w in self.wheres.items() if p == self.root}
            self.layouts = _layouts(self.quick, types)
            self.wires = [self.quick.wire_type(dtype) for _, dtype in types]
            if self.in_rounds:
                # Sums of few go on to others, so that short floats have to stay wide.
                self.wires = [reduce.wide_type(dtype) for _, dtype in types]


def _layouts(part: Part, types: Kinds) -> list[tuple[Any, ...]]:
    """Shape, dtype, offset and strides of each operand in what all processes sent, joined."""
    kinds = [(shape, part.wire_type(dtype)) for shape, dtype in types]
    sizes = [math.prod(shape) * dtype.itemsize for shape, dtype in kinds]
    found: list[tuple[Any, ...]] = []
    at = 0
    for (shape, dtype), size in zip(kinds, sizes, strict=True):
        strides = [math.prod(shape[i + 1 :]) * dtype.itemsize for i in range(len(shape))]
        found.append(((len(part.of), *shape), dtype, at, (sum(sizes), *strides)))
        at += size
    return found


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
        if plan.quick is None:
            self._perform(circle, run, plan, operands, results, limit)
        else:
            self._perform_quick(run, plan, plan.quick, operands, results, limit)
            if plan.quick.is_single and not (apart or plan.in_rounds):
                places.again[id(collective)] = plan

    def perform_again(
        self, places: RankPlaces, collective: Collective, operands: Sequence[Array]
    ) -> list[Array] | None:
        plan = places.again.get(id(collective))
        run = places.run
        if plan is None or plan.quick is None or run is None or self.broken:
            return None
        if len(operands) != len(plan.types):
            return None
        for x, (shape, dtype) in zip(operands, plan.types, strict=True):
            if x.shape != shape or x.dtype != dtype:
                return None
        results = [np.empty(shape, dtype) for shape, dtype in plan.types]
        with np.errstate(all="ignore"):
            self._sum(run, plan, plan.quick, operands, results, DEFAULT)
        for x in results:
            x.setflags(write=False)
        return results

    def _plan(
        self,
        circle: Circle,
        places: RankPlaces,
        collective: Collective,
        groups: Sequence[Group],
        operands: Mapping[int, Sequence[Array]],
        apart: bool,
    ) -> _Plan:
        rank = next(r for r in groups[0] if r in operands)
        first = tuple([(x.shape, x.dtype) for x in operands[rank]])
        key = (id(collective), first, groups[0] if apart else None)
        plan = places.plans.get(key)
        if plan is not None and (plan.is_uniform or plan.kinds == _kinds(groups, operands)):
            return plan
        kinds = _kinds(groups, operands)
        plan = places.plans[key] = _Plan(circle, places, collective, groups, kinds, apart)
        return plan

    def _perform_quick(
        self,
        run: int,
        plan: _Plan,
        part: Part,
        operands: Mapping[int, Sequence[Array]],
        results: Mapping[int, Sequence[Array]],
        timeout: Any,
    ) -> None:
        """`_perform` for the sum of a few numbers, which is all about latency."""
        ours = operands[part.mine[0]]
        if plan.in_rounds or not part.is_single:
            ours = [
                between.partial(combine, [operands[r][i] for r in part.mine], wire)
                for i, (combine, wire) in enumerate(zip(plan.combines, plan.wires, strict=True))
            ]
        first, *others = plan.targets
        self._sum(run, plan, part, ours, results[first], timeout)
        for rank in others:
            for target, found in zip(results[rank], results[first], strict=True):
                np.copyto(_bytes(target), _bytes(found))

    def _sum(
        self,
        run: int,
        plan: _Plan,
        part: Part,
        ours: Sequence[Array],
        results: Sequence[Array],
        timeout: Any,
    ) -> None:
        """Writes the sums of what the processes have to `results`."""
        if plan.in_rounds:
            self._sum_in_rounds(run, plan, ours, results, timeout)
            return
        board = self.board
        index = self.processes.index
        payload = ours[0].tobytes() if len(ours) == 1 else b"".join([x.tobytes() for x in ours])
        if plan.by_root and index != plan.root:
            wheres = plan.to_root
            board.announce_all(wheres, run, payload)
            told = board.wait_for(plan.circle, run, wheres, timeout)[plan.root].payload
            at = 0
            for target in results:
                np.copyto(_bytes(target), np.frombuffer(told, np.uint8, target.nbytes, at))
                at += target.nbytes
        else:
            if not plan.by_root:
                board.announce_all(plan.wheres, run, payload)
            meets = board.wait_for(plan.circle, run, plan.wheres, timeout)
            # One copy, and views of it: that takes less time than an array for each process.
            told = b"".join([payload if p == index else meets[p].payload for p in part.of])
            for layout, combine, target in zip(plan.layouts, plan.combines, results, strict=True):
                combine(list(np.ndarray(layout[0], layout[1], told, *layout[2:])), [target])
            if plan.by_root:
                board.announce_all(plan.wheres, run, b"".join([x.tobytes() for x in results]))
        if self.wire.is_sending:
            self._let_go(plan, timeout)

    def _sum_in_rounds(
        self,
        run: int,
        plan: _Plan,
        ours: Sequence[Array],
        results: Sequence[Array],
        timeout: Any,
    ) -> None:
        def arrays(block: bytes) -> list[Array]:
            found, at = [], 0
            for x in ours:
                found.append(np.frombuffer(block, x.dtype, x.size, at))
                at += x.nbytes
            return found

        def combined(a: bytes, b: bytes) -> bytes:
            made = [np.empty(x.size, x.dtype) for x in ours]
            for combine, x, y, to in zip(plan.combines, arrays(a), arrays(b), made, strict=True):
                combine([x, y], [to])
            return b"".join([x.tobytes() for x in made])

        mine = b"".join([x.tobytes() for x in ours])
        total = rounds.reduced(
            Line(self.board, plan.circle, run, plan.order, plan.wheres, timeout), mine, combined
        )
        for combine, x, target in zip(plan.combines, arrays(total), results, strict=True):
            combine([x.reshape(target.shape)], [target])
        self._let_go(plan, timeout)

    def _perform_in_rounds(
        self, run: int, plan: _Plan, found: Exchange, timeout: Any
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
        plan: _Plan,
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
            self._let_go(plan, timeout)
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
        self._let_go(plan, timeout)

    def _let_go(self, plan: _Plan, timeout: Any) -> None:
        """Waits until all messages of this process have left: nobody looks at them afterwards."""
        board = self.board

        def done() -> bool:
            with board.lock:
                return self.wire.flush()

        if self.wire.is_sending:
            self.processes.wait_until(
                done, missing=lambda: plan.peers, what=plan.where.text, timeout=timeout
            )

    # ---- arrays

    def _move(
        self,
        circle: Circle,
        run: int,
        plan: _Plan,
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

    def _clean_up(self, flow: Flow, plan: _Plan) -> None:
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
