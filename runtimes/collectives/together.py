"""Collectives of ranks that all wait in one place: one thread has everybody's arrays in hand.

Nobody has to meet, and what all ranks of a group get is made once: the results of `all_reduce` and
`all_gather` are the same read-only arrays for the whole group.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np

from xpr.runtimes.collectives import reduce
from xpr.runtimes.collectives.base import (
    Array,
    Collective,
    CollectiveError,
    Kinds,
    described,
)
from xpr.runtimes.collectives.workers import run_on_each
from xpr.runtimes.host import aligned_empty

_THREADS_BYTES = 1 << 20
"""Bytes to be read and written from which several threads are faster than one."""

_SHARED = ("all_reduce", "all_gather")


def perform_for_all(
    collective: Collective, operands: Sequence[Sequence[Array]]
) -> list[list[Array]]:
    """The results of every rank, `operands[rank]` being those of each.

    Results are read-only, and ranks may share them. Raises CollectiveError when the ranks of a
    group come with arrays of different types, ValueError for a rank in no group.

    >>> from xpr.runtimes.collectives import Collective, perform_for_all
    >>> total = Collective("all_reduce", groups=((0, 1),), op="sum")
    >>> perform_for_all(total, [[np.array([1, 2])], [np.array([3, 5])]])
    [[array([4, 7])], [array([4, 7])]]
    """
    held = [[x if x.flags.c_contiguous else x.copy(order="C") for x in xs] for xs in operands]
    kinds = [tuple([(x.shape, x.dtype) for x in xs]) for xs in held]
    _check(collective, kinds)
    found: list[list[Array]] = [[] for _ in held]
    moves: list[reduce.Move] = []
    for group in collective.groups:
        out_kinds = collective.out_types_of(kinds[group[0]])
        count = 1 if collective.kind in _SHARED else len(group)
        results = [[aligned_empty(s, d) for s, d in out_kinds] for _ in range(count)]
        moves += reduce.moves(collective, group, [held[r] for r in group], results)
        for i, rank in enumerate(group):
            found[rank] = results[0 if count == 1 else i]
    with np.errstate(all="ignore"):
        _do(moves)
    for results in found:
        for x in results:
            x.setflags(write=False)
    return found


def _check(collective: Collective, kinds: Sequence[Kinds]) -> None:
    for rank, kind in enumerate(kinds):
        group = collective.group_of(rank)
        if max(group) >= len(kinds):
            raise ValueError(f"{collective} has the group {group}, of {len(kinds)} ranks in all")
        if kind != kinds[group[0]]:
            raise CollectiveError(
                f"rank {group[0]} is at {described(collective, kinds[group[0]])}, rank {rank} at "
                f"{described(collective, kind)}: the ranks of a group must perform the same "
                "collectives, on arrays of the same types, in the same order"
            )


def _do(moves: Sequence[reduce.Move]) -> None:
    if reduce.cost(moves) < _THREADS_BYTES or _CORES < 2:
        for combine, sources, targets in moves:
            combine(sources, targets)
        return
    pieces = iter(list(reduce.pieces(moves)))

    def work() -> None:
        for combine, sources, targets in pieces:
            combine(sources, targets)

    run_on_each([work] * min(_CORES, 16))


def run_in_chunks(functions: Sequence[Callable[[], object]]) -> None:
    """Calls all functions, on as many threads as there are cores."""
    waiting = iter(list(functions))

    def work() -> None:
        for function in waiting:
            function()

    run_on_each([work] * min(_CORES, len(functions)))


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_CORES = _cores()
