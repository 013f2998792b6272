"""Collectives of ranks that all wait in one place: one thread has everybody's arrays in hand.

Nobody has to meet, and what all ranks of a group get is made once: the results of `all_reduce` and
`all_gather` are the same read-only arrays for the whole group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from xpr.runtimes.collectives import reduce
from xpr.runtimes.collectives.base import (
    Array,
    Collective,
    CollectiveError,
    Group,
    Kinds,
    described,
)
from xpr.runtimes.collectives.places import RankPlaces
from xpr.runtimes.collectives.workers import run_on_each
from xpr.runtimes.cores import cores
from xpr.runtimes.host import aligned_empty

_THREADS_BYTES = 1 << 20
"""Bytes to be read and written from which several threads are faster than one."""

_SHARED = ("all_reduce", "all_gather")


def perform_for_all(
    collective: Collective,
    operands: Sequence[Sequence[Array]],
    places: RankPlaces | None = None,
) -> list[list[Array]]:
    """The results of every rank, `operands[rank]` being those of each.

    With `places`, only this process's ranks: `operands[i]` and result `i` are those of
    `places.ranks[i]`, and the other processes must perform the same collective, each for its own.

    Results are read-only, and ranks may share them. Raises CollectiveError when the ranks of a
    group come with arrays of different types, ValueError for a rank in no group; between processes
    also TimeoutError and PeerError.

    >>> from xpr.runtimes.collectives import Collective, perform_for_all
    >>> total = Collective("all_reduce", groups=((0, 1),), op="sum")
    >>> perform_for_all(total, [[np.array([1, 2])], [np.array([3, 5])]])
    [[array([4, 7])], [array([4, 7])]]
    """
    if places is not None and places.run is None:
        with places.running() as run:
            return perform_for_all(collective, operands, run)
    held = [[x if x.flags.c_contiguous else x.copy(order="C") for x in xs] for xs in operands]
    ranks = range(len(held)) if places is None else places.ranks
    if len(ranks) != len(held):
        raise ValueError(f"{collective} needs operands of the ranks {ranks}, got {len(held)}")
    at = dict(zip(ranks, held, strict=True))
    kinds = {r: tuple([(x.shape, x.dtype) for x in xs]) for r, xs in at.items()}
    _check(collective, kinds, places)
    found: dict[int, list[Array]] = {}
    moves: list[reduce.Move] = []
    across: list[Group] = []
    for group in collective.groups:
        crosses = places is not None and places.crosses(group)
        here = [r for r in group if r in at] if crosses else group
        if not here or here[0] not in at:  # a group of other processes
            continue
        out_kinds = collective.out_types_of(kinds[here[0]])
        count = 1 if collective.kind in _SHARED else len(here)
        results = [[aligned_empty(s, d) for s, d in out_kinds] for _ in range(count)]
        for i, rank in enumerate(here):
            found[rank] = results[0 if count == 1 else i]
        if crosses:
            across.append(group)
        else:
            moves += reduce.moves(collective, group, [at[r] for r in group], results)
    with np.errstate(all="ignore"):
        _do(moves)
        if across and places is not None:
            places.processes.meetings.perform(places, collective, across, at, found, apart=False)
    out = [found[r] for r in ranks]
    for results in out:
        for x in results:
            x.setflags(write=False)
    return out


def _check(collective: Collective, kinds: Mapping[int, Kinds], places: RankPlaces | None) -> None:
    size = len(kinds) if places is None else len(places.owners)
    for rank, kind in kinds.items():
        group = collective.group_of(rank)
        first = group[0] if group[0] in kinds else next(r for r in group if r in kinds)
        if rank == first:
            if max(group) >= size:
                raise ValueError(f"{collective} has the group {group}, of {size} ranks in all")
        elif kind != kinds[first]:
            raise CollectiveError(
                f"rank {first} is at {described(collective, kinds[first])}, rank {rank} at "
                f"{described(collective, kind)}: the ranks of a group must perform the same "
                "collectives, on arrays of the same types, in the same order"
            )


def _do(moves: Sequence[reduce.Move]) -> None:
    if reduce.cost(moves) < _THREADS_BYTES or cores() < 2:
        for combine, sources, targets in moves:
            combine(sources, targets)
        return
    pieces = iter(list(reduce.pieces(moves)))

    def work() -> None:
        for combine, sources, targets in pieces:
            combine(sources, targets)

    run_on_each([work] * min(cores(), 16))


def run_in_chunks(functions: Sequence[Callable[[], object]]) -> None:
    """Calls all functions, on as many threads as there are cores."""
    waiting = iter(list(functions))

    def work() -> None:
        for function in waiting:
            function()

    run_on_each([work] * min(cores(), len(functions)))
