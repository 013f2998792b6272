"""What processes know of a collective before its operands are: who meets, and by which way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xpr.runtimes.collectives import between
from xpr.runtimes.collectives.base import Collective, Group, Kinds, described
from xpr.runtimes.collectives.between import Part
from xpr.runtimes.collectives.messages import INLINE_BYTES, Circle, Where, digest
from xpr.runtimes.collectives.places import RankPlaces
from xpr.runtimes.collectives.rounds import DIRECT, ROUND_BYTES
from xpr.runtimes.collectives.small import SmallSum
from xpr.runtimes.collectives.switchboard import Switchboard


class Plan:
    """A collective on operands of some types, as one process of a program performs it."""

    def __init__(
        self,
        board: Switchboard,
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
        """What each other process is told of where this one is."""
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
        self.where = self.wheres[self.peers[0]]
        first = self.parts[0]
        self.order = list(first.of)
        self.in_rounds = len(self.parts) == 1 and len(self.order) > DIRECT
        self.is_inline = most <= INLINE_BYTES
        """Whether operands go with the messages that tell where a process is."""
        if self.in_rounds and collective.kind != "all_reduce":
            # Messages have many blocks, and equal ones.
            is_even = len({len(ranks) for ranks in first.of.values()}) == 1
            half = (len(self.order) + 1) // 2
            self.is_inline = (
                is_even and collective.kind != "permute" and 0 < most * half <= ROUND_BYTES
            )
        self.small: SmallSum | None = None
        """How the group sums, if all there is to do is a small reduction of one."""
        if self.is_inline and collective.kind == "all_reduce" and len(self.parts) == 1:
            self.small = SmallSum(
                board, circle, first, collective.op, kinds[first.group], self.wheres, self.in_rounds
            )
