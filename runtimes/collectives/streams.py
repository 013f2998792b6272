"""Transfers under way, and large reductions in pieces that overlap with them.

A large operand is cut into pieces, each of which one process owns: it receives what the others
made of their ranks, combines it while it is in the cache, and sends the result round if all are to
have it. Some pieces are under way at a time, so that memory for what comes is small and reused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr.runtimes.collectives import reduce
from xpr.runtimes.collectives.base import Array
from xpr.runtimes.collectives.wire import Transfer, Wire

PIECE_BYTES = 1 << 20
WINDOW = 4
"""Pieces under way for each process of the group."""


@dataclass(slots=True)
class Item:
    """An operand that is reduced over processes."""

    sources: list[Array]
    """Those of this process's ranks, of one shape."""

    targets: list[Array]
    """What gets the result in this process, of the same shape; contiguous if the result is sent."""

    owner: int | None
    """The process that gets the result; None if all do."""

    order: list[int]
    """The processes, in the order in which they are combined."""

    combine: reduce.Combine
    wire: np.dtype[Any]
    """The type in which what a process has combined goes to others."""


class _Step:
    """Transfers that something waits for."""

    __slots__ = ("then", "waiting")

    def __init__(self, waiting: list[Transfer], then: Callable[[], None]) -> None:
        self.waiting = waiting
        self.then = then


class Flow:
    """The transfers of one collective: what has begun, and what is to follow.

    `tags` has the tag of each process for what it receives; the next number is that of results.
    `lock` is held in every call of `wire`.
    """

    def __init__(self, wire: Wire, lock: Any, index: int, tags: Mapping[int, int]) -> None:
        self._wire = wire
        self._lock = lock
        self._index = index
        self._tags = tags
        self._steps: list[_Step] = []
        self._pieces: Iterator[tuple[Item, int, Any]] = iter(())
        self._window = 0
        self._more = False
        # Pieces of this process: their results are sent in this order.
        self._owned: deque[tuple[_Step, Callable[[], None]]] = deque()
        self._free: dict[int, list[Array]] = {}

    # ---- what is to be done

    def send(self, process: int, blocks: Sequence[Array]) -> None:
        """Begins to send blocks."""
        with self._lock:
            for block in blocks:
                sent = self._wire.send(process, self._tags[process], block)
                self._steps.append(_Step(sent, _nothing))

    def receive(self, process: int, block: Array, then: Callable[[], None]) -> None:
        """Begins to receive a block, and calls a function when it is there."""
        with self._lock:
            got = self._wire.receive(process, self._tags[self._index], block)
        self._steps.append(_Step(got, then))

    def reduce(self, items: Sequence[Item]) -> None:
        """Begins to reduce; called once, after all blocks have begun."""
        if items:
            self._pieces = _pieces(items)
            self._window = WINDOW * max(len(i.order) for i in items)
            self._more = True
            self._fill()

    # ---- getting on

    def advance(self) -> bool:
        """Does what can be done now, without waiting; whether anything was."""
        ended: list[_Step] = []
        some = False
        with self._lock:
            for step in self._steps:
                waiting = step.waiting
                while waiting and self._wire.is_done(waiting[-1]):
                    waiting.pop()
                    some = True
                if not waiting:
                    ended.append(step)
        if ended:
            self._steps = [s for s in self._steps if s.waiting]
            for step in ended:
                step.then()
            self._fill()
        return some

    @property
    def is_done(self) -> bool:
        """Whether all has ended."""
        return not self._steps and not self._more

    def missing(self) -> list[int]:
        """The processes whose transfers are waited for."""
        return sorted({t.process for s in self._steps for t in s.waiting})

    def transfers(self) -> list[Transfer]:
        """What is under way."""
        return [t for s in self._steps for t in s.waiting]

    # ---- pieces

    def _fill(self) -> None:
        while self._more and len(self._steps) < self._window:
            found = next(self._pieces, None)
            if found is None:
                self._more = False
                return
            item, owner, at = found
            if owner == self._index:
                self._own(item, at)
            else:
                self._give(item, owner, at)

    def _give(self, item: Item, owner: int, at: Any) -> None:
        """Sends what this process has of a piece to its owner, and gets the result."""
        sources = [s[at] for s in item.sources]
        block, made = sources[0], None
        if len(sources) > 1 or block.dtype != item.wire or not block.flags.c_contiguous:
            block = made = self._memory(block.shape, item.wire)
            item.combine(sources, [block])
        with self._lock:
            waiting = self._wire.send(owner, self._tags[owner], block)
            if item.owner is None:
                target = item.targets[0][at]
                waiting += self._wire.receive(owner, self._tags[self._index] + 1, target)

        def end() -> None:
            if made is not None:
                self._release(made)
            if item.owner is None and len(item.targets) > 1:
                reduce.copy([item.targets[0][at]], [t[at] for t in item.targets[1:]])

        self._steps.append(_Step(waiting, end))

    def _own(self, item: Item, at: Any) -> None:
        """Gets a piece from everybody, combines it, and sends the result."""
        sources = [s[at] for s in item.sources]
        temporary = {
            p: self._memory(sources[0].shape, item.wire) for p in item.order if p != self._index
        }
        waiting: list[Transfer] = []
        with self._lock:
            for process, block in temporary.items():
                waiting += self._wire.receive(process, self._tags[self._index], block)

        def combine() -> None:
            mine = sources[0]
            made: Array | None = None
            if len(sources) > 1:
                mine = made = self._memory(mine.shape, item.wire)
                item.combine(sources, [mine])
            targets = [t[at] for t in item.targets]
            item.combine([temporary.get(p, mine) for p in item.order], targets)
            for block in (*temporary.values(), *(() if made is None else (made,))):
                self._release(block)
            if item.owner is None:
                with self._lock:
                    sent: list[Transfer] = []
                    for process in temporary:
                        tag = self._tags[process] + 1
                        sent += self._wire.send(process, tag, targets[0])
                self._steps.append(_Step(sent, _nothing))

        own = _Step(waiting, self._combine_in_order)
        self._owned.append((own, combine))
        self._steps.append(own)

    def _combine_in_order(self) -> None:
        """Combines what has come: results go out in the order in which they are waited for."""
        while self._owned and not self._owned[0][0].waiting:
            self._owned.popleft()[1]()

    def _memory(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        size = int(np.prod(shape)) * dtype.itemsize
        free = self._free.get(size)
        raw = free.pop() if free else np.empty(size, np.uint8)
        return raw.view(dtype).reshape(shape)

    def _release(self, block: Array) -> None:
        raw = block.reshape(-1).view(np.uint8)
        self._free.setdefault(raw.nbytes, []).append(raw)


def _nothing() -> None:
    pass


def _pieces(items: Sequence[Item]) -> Iterator[tuple[Item, int, Any]]:
    """The pieces of all items with the process that combines each, the same in all processes."""
    for item in items:
        cuts = reduce.cuts(item.sources[0].shape, item.wire.itemsize, PIECE_BYTES)
        for i, at in enumerate(cuts):
            yield item, item.order[i % len(item.order)] if item.owner is None else item.owner, at
