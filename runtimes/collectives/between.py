"""Which bytes go between processes at a collective, and what is made of them.

Each process has some ranks of a group. What it sends to another process is a list of blocks, which
the other one expects in the same order, because both follow from the groups and the types alone.
Reductions combine the ranks of a process first; then each process gets what the others made of
their ranks and combines it in the order in which the processes first appear in the group. Where
every process has one rank of the group that is the order of the ranks, and the result has the bits
that devices of one process get.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xpr.runtimes.collectives import reduce
from xpr.runtimes.collectives.base import REDUCING, Array, Collective, Group, Kinds
from xpr.runtimes.collectives.streams import Item

Arrays = Mapping[int, Sequence[Array]]
"""The operands or results of the ranks of this process."""

STREAM_BYTES = 1 << 16
"""Bytes of an operand from which a reduction is shared out between the processes."""


class Part:
    """A group of ranks of several processes, seen from one of them."""

    def __init__(self, group: Group, owners: Sequence[int], index: int) -> None:
        self.group = group
        self.index = index
        self.of: dict[int, list[int]] = {}
        """The ranks of each process, which come in the order in which the group first has them."""
        for rank in group:
            self.of.setdefault(owners[rank], []).append(rank)
        self.mine = self.of[index]
        self.others = [p for p in self.of if p != index]
        self.is_single = all(len(ranks) == 1 for ranks in self.of.values())
        self.place = {rank: i for i, rank in enumerate(group)}

    def wire_type(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """The type in which what a process has combined goes to others: short floats are wide."""
        if self.is_single or not reduce.is_short_float(dtype):
            return dtype
        return np.dtype(np.float32)


@dataclass(slots=True)
class Incoming:
    """A block that is received: `targets` get it, and `array` holds it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    targets: list[Array] = field(default_factory=list)
    array: Array | None = None

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def memory(self) -> Array:
        """Contiguous memory to receive into: that of a target, where there is a fitting one."""
        for target in self.targets:
            if target.flags.c_contiguous:
                self.array = target
                return target
        self.array = np.empty(self.shape, self.dtype)
        return self.array

    def take(self, payload: memoryview) -> memoryview:
        """Takes the block from the front of the bytes and returns the rest."""
        count = int(np.prod(self.shape))
        size = count * self.dtype.itemsize
        self.array = np.frombuffer(payload, self.dtype, count).reshape(self.shape)
        return payload[size:]

    def finish(self) -> None:
        """Writes what has come to the targets."""
        assert self.array is not None
        for target in self.targets:
            if target is not self.array:
                np.copyto(target, self.array)


class Exchange:
    """The blocks of one collective between this process and others."""

    def __init__(self, peers: Sequence[int]) -> None:
        self.outgoing: dict[int, list[Array]] = {p: [] for p in peers}
        self.incoming: dict[int, list[Incoming]] = {p: [] for p in peers}
        self.moves: list[reduce.Move] = []
        """What this process's ranks give each other."""
        self.items: list[Item] = []
        """Reductions of large operands."""
        self.after: list[Callable[[], None]] = []

    def send(self, process: int, block: Array) -> None:
        self.outgoing[process].append(block)

    def expect(self, process: int, like: Array, targets: list[Array]) -> Incoming:
        found = Incoming(like.shape, like.dtype, targets)
        self.incoming[process].append(found)
        return found


class _Operand:
    """One operand of a collective in one group, and what it becomes: by ranks of this process."""

    __slots__ = ("collective", "found", "outs", "part", "xs")

    def __init__(
        self,
        found: Exchange,
        collective: Collective,
        part: Part,
        xs: dict[int, Array],
        outs: dict[int, Array],
    ) -> None:
        self.found = found
        """Where the blocks and moves go."""
        self.collective = collective
        self.part = part
        self.xs = xs
        self.outs = outs

    @property
    def distinct(self) -> list[Array]:
        """The results, of which ranks may share some."""
        return list({id(x): x for x in self.outs.values()}.values())

    # ---- reductions

    def shares(self, x: Array) -> Sequence[Array]:
        """What each rank of the group gets of the reduced operand, in the order of the group."""
        group = self.part.group
        if self.collective.kind == "all_reduce":
            return [x] * len(group)
        cut = reduce.in_parts(x, self.collective.axis, len(group))
        return [cut[:, i] for i in range(len(group))]

    def wanted(self, process: int) -> list[int]:
        """The ranks of a process whose results differ."""
        ranks = self.part.of[process]
        return ranks[:1] if self.collective.kind == "all_reduce" else ranks


def exchange(
    collective: Collective,
    parts: Sequence[Part],
    peers: Sequence[int],
    operands: Arrays,
    results: Arrays,
    *,
    small: bool,
) -> Exchange:
    """What happens at a collective; `small` reductions are made in every process at once."""
    found = Exchange(peers)
    for part in parts:
        for i in range(len(operands[part.mine[0]])):
            xs = {r: operands[r][i] for r in part.mine}
            outs = {r: results[r][i] for r in part.mine}
            first = outs[part.mine[0]]
            if not first.size:
                continue
            operand = _Operand(found, collective, part, xs, outs)
            if collective.kind in REDUCING:
                large = not small and first.nbytes * len(part.others) > STREAM_BYTES
                (_reduce_large if large else _reduce_small)(operand)
            else:
                _KINDS[collective.kind](operand)
    return found


# ---- reductions


def _reduce_small(operand: _Operand) -> None:
    found, part, outs = operand.found, operand.part, operand.outs
    is_for_all = operand.collective.kind == "all_reduce"
    dtype = outs[part.mine[0]].dtype
    wire = part.wire_type(dtype)
    combine = reduce.combiner(operand.collective.op, dtype)
    shares = {r: operand.shares(x) for r, x in operand.xs.items()}
    made: dict[int, Array] = {}

    def mine(rank: int) -> Array:
        at = 0 if is_for_all else part.place[rank]
        if at not in made:
            made[at] = partial(combine, [shares[r][at] for r in part.mine], wire)
        return made[at]

    for process in part.others:
        for rank in operand.wanted(process):
            found.send(process, mine(rank))
    for rank in operand.wanted(part.index):
        own = mine(rank)
        slots = {p: found.expect(p, own, []) for p in part.others}
        found.after.append(lambda own=own, slots=slots, rank=rank: finish(own, slots, rank))

    def finish(own: Array, slots: dict[int, Incoming], rank: int) -> None:
        sources = [own if p == part.index else _held(slots[p]) for p in part.of]
        targets = operand.distinct if is_for_all else [outs[rank]]
        combine(sources, [t.reshape(own.shape) for t in targets])


def _held(block: Incoming) -> Array:
    assert block.array is not None
    return block.array


def _reduce_large(operand: _Operand) -> None:
    found, part, xs, outs = operand.found, operand.part, operand.xs, operand.outs
    dtype = outs[part.mine[0]].dtype
    wire = part.wire_type(dtype)
    combine = reduce.combiner(operand.collective.op, dtype)
    order = list(part.of)
    if operand.collective.kind == "all_reduce":
        sources = [x.reshape(-1) for x in xs.values()]
        targets = [t.reshape(-1) for t in operand.distinct]
        found.items.append(Item(sources, targets, None, order, combine, wire))
        return
    shares = {r: operand.shares(x) for r, x in xs.items()}
    for at, rank in enumerate(part.group):
        sources = [shares[r][at] for r in part.mine]
        owner = next(p for p, ranks in part.of.items() if rank in ranks)
        targets = [outs[rank].reshape(sources[0].shape)] if rank in outs else []
        if sources[0].shape[0] == 1 and all(s.flags.c_contiguous for s in sources):
            sources = [s.reshape(-1) for s in sources]
            targets = [t.reshape(-1) for t in targets]
        found.items.append(Item(sources, targets, owner, order, combine, wire))


def partial(combine: reduce.Combine, sources: list[Array], wire: np.dtype[Any]) -> Array:
    """What a process makes of its own ranks: contiguous, and the operand itself if it has one."""
    if len(sources) == 1 and sources[0].dtype == wire:
        return np.ascontiguousarray(sources[0])
    made = np.empty(sources[0].shape, wire)
    combine(sources, [made])
    return made


# ---- what only moves


def _all_gather(operand: _Operand) -> None:
    found, part = operand.found, operand.part
    axis, size = operand.collective.axis, len(part.group)
    cuts = [reduce.in_parts(reduce.as_raw(t), axis, size) for t in operand.distinct]
    shape = cuts[0][:, 0].shape
    for rank, given in operand.xs.items():
        at = part.place[rank]
        x = reduce.as_raw(given)
        found.moves.append((reduce.copy, [x.reshape(shape)], [c[:, at] for c in cuts]))
        for process in part.others:
            found.send(process, x)
    for process in part.others:
        for rank in part.of[process]:
            targets = [c[:, part.place[rank]] for c in cuts]
            found.expect(process, targets[0], targets)


def _all_to_all(operand: _Operand) -> None:
    found, part = operand.found, operand.part
    size = len(part.group)
    split, concat = operand.collective.axis, operand.collective.concat_axis
    sent = {r: np.split(reduce.as_raw(x), size, split) for r, x in operand.xs.items()}
    got = {r: np.split(reduce.as_raw(t), size, concat) for r, t in operand.outs.items()}
    for s in part.mine:
        for d in part.mine:
            source, target = sent[s][part.place[d]], got[d][part.place[s]]
            found.moves.append((reduce.copy, [source], [target]))
        for process in part.others:
            for d in part.of[process]:
                found.send(process, sent[s][part.place[d]])
    for process in part.others:
        for s in part.of[process]:
            for d in part.mine:
                target = got[d][part.place[s]]
                found.expect(process, target, [target])


def _permute(operand: _Operand) -> None:
    found, part, xs, outs = operand.found, operand.part, operand.xs, operand.outs
    sender = {d: s for s, d in operand.collective.pairs}
    for process in part.others:
        for d in part.of[process]:
            if sender.get(d) in xs:
                found.send(process, reduce.as_raw(xs[sender[d]]))
    for process in part.others:
        for d in part.mine:
            if sender.get(d) in part.of[process]:
                target = reduce.as_raw(outs[d])
                found.expect(process, target, [target])
    for d in part.mine:
        s = sender.get(d)
        if s is None:
            found.moves.append((reduce.zeros, [], [reduce.as_raw(outs[d])]))
        elif s in xs:
            found.moves.append((reduce.copy, [reduce.as_raw(xs[s])], [reduce.as_raw(outs[d])]))


_KINDS = {"all_gather": _all_gather, "all_to_all": _all_to_all, "permute": _permute}


def bytes_between(collective: Collective, part: Part, kinds: Kinds) -> int:
    """The most bytes that one process of the group has for another."""
    total = 0
    ranks = max(len(r) for r in part.of.values())
    for shape, dtype in kinds:
        size = int(np.prod(shape)) * part.wire_type(dtype).itemsize
        if collective.kind == "all_reduce":
            total += size
        elif collective.kind in ("reduce_scatter", "all_to_all"):
            total += -(-size // len(part.group)) * ranks * ranks
        else:
            total += size * ranks
    return total
