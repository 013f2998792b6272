"""Reductions of a few numbers over processes, which are all about latency.

The operands go with the message that tells where a process is. Processes that agree send the same
bytes before them, so that one comparison of bytes is all it takes to find that out; whatever else
comes, or does not come, is left to the switchboard, which knows all cases and all errors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xpr.runtimes.collectives import reduce, rounds
from xpr.runtimes.collectives.base import Array, Kinds
from xpr.runtimes.collectives.between import Part, partial
from xpr.runtimes.collectives.messages import START, Circle, Where
from xpr.runtimes.collectives.switchboard import Line, Switchboard
from xpr.runtimes.processes import DEFAULT

EACH = 4
"""Processes up to which each tells all others what it has; the first one of more combines for all.
There are fewer messages then, and one more on the way."""


class SmallSum:
    """One reduction of some small operands, all of whose ranks are in one group."""

    def __init__(
        self,
        board: Switchboard,
        circle: Circle,
        part: Part,
        op: str,
        kinds: Kinds,
        wheres: Mapping[int, Where],
        in_rounds: bool,
    ) -> None:
        self.part = part
        self.kinds = kinds
        self._board = board
        self._circle = circle
        self._wheres = wheres
        self._where = next(iter(wheres.values()))  # the same for all others
        self._me = part.index
        self._order = list(part.of)
        self._in_rounds = in_rounds
        self._by_root = not in_rounds and len(self._order) > EACH
        self._combines = [reduce.combiner(op, dtype) for _, dtype in kinds]
        self.wires = [
            # Sums of few go on to others in rounds, so that short floats have to stay wide.
            reduce.wide_type(dtype) if in_rounds else part.wire_type(dtype)
            for _, dtype in kinds
        ]
        self._slots = self._layout()
        self._is_one_each = part.is_single and not in_rounds
        self._has_floats = any(dtype.kind not in "biu" for _, dtype in kinds)

    def _layout(self) -> list[tuple[tuple[int, ...], np.dtype[Any], int]]:
        """Shape, dtype and place of each operand among the bytes of a process."""
        found: list[tuple[tuple[int, ...], np.dtype[Any], int]] = []
        at = 0
        for (shape, _), wire in zip(self.kinds, self.wires, strict=True):
            found.append((shape, wire, at))
            at += math.prod(shape) * wire.itemsize
        return found

    # ---- from operands to results

    def fits(self, operands: Sequence[Array]) -> bool:
        """Whether the operands have the types that were planned for."""
        return len(operands) == len(self.kinds) and all(
            x.shape == shape and x.dtype == dtype
            for x, (shape, dtype) in zip(operands, self.kinds, strict=True)
        )

    def of_one(self, run: int, operands: Sequence[Array]) -> list[Array]:
        """The results for the operands of the one rank that this process has, read-only."""
        results = [np.empty(shape, dtype) for shape, dtype in self.kinds]
        if self._has_floats:
            with np.errstate(all="ignore"):
                self.perform(run, [operands], results)
        else:
            self.perform(run, [operands], results)
        for x in results:
            x.setflags(write=False)
        return results

    def perform(
        self,
        run: int,
        operands: Sequence[Sequence[Array]],
        results: Sequence[Array],
        timeout: Any = DEFAULT,
    ) -> None:
        """Writes the results, from the operands of each rank of this process."""
        ours = operands[0]
        if not self._is_one_each:
            ours = [
                partial(combine, [xs[i] for xs in operands], wire)
                for i, (combine, wire) in enumerate(zip(self._combines, self.wires, strict=True))
            ]
        mine = ours[0].tobytes() if len(ours) == 1 else b"".join([x.tobytes() for x in ours])
        if self._in_rounds:
            self._through_rounds(run, mine, results, timeout)
        elif self._by_root:
            self._through_root(run, ours, mine, results, timeout)
        else:
            where = self._where
            told = self._board.swap(self._circle, run, self._wheres, where, mine, timeout)
            self._combine(ours, told, START, results)
        if self._board.wire.is_sending:
            self._board.let_go(self._wheres, self._where, timeout)

    def _combine(
        self,
        ours: Sequence[Array],
        told: Mapping[int, bytes],
        skip: int,
        results: Sequence[Array],
    ) -> None:
        """Combines what the processes have, of which the others' begins after `skip` bytes."""
        me = self._me
        for (shape, wire, at), combine, x, target in zip(
            self._slots, self._combines, ours, results, strict=True
        ):
            combine(
                [
                    x if p == me else np.ndarray(shape, wire, told[p], skip + at)
                    for p in self._order
                ],
                [target],
            )

    # ---- more than a few processes

    def _through_root(
        self,
        run: int,
        ours: Sequence[Array],
        mine: bytes,
        results: Sequence[Array],
        timeout: Any,
    ) -> None:
        board = self._board
        root = self._order[0]
        if self._me == root:
            meets = board.wait_for(self._circle, run, self._wheres, timeout)
            told = {p: m.payload for p, m in meets.items()}
            self._combine(ours, told, 0, results)
            board.announce_all(self._wheres, run, b"".join([x.tobytes() for x in results]))
            return
        where = {root: self._wheres[root]}
        board.announce_all(where, run, mine)
        total = board.wait_for(self._circle, run, where, timeout)[root].payload
        at = 0
        for target in results:
            _copy_bytes(np.frombuffer(total, np.uint8, target.nbytes, at), target)
            at += target.nbytes

    def _through_rounds(
        self, run: int, mine: bytes, results: Sequence[Array], timeout: Any
    ) -> None:
        def arrays(block: bytes) -> list[Array]:
            return [np.ndarray(shape, wire, block, at) for shape, wire, at in self._slots]

        def combined(a: bytes, b: bytes) -> bytes:
            made = [np.empty(shape, wire) for shape, wire, _ in self._slots]
            for combine, x, y, to in zip(self._combines, arrays(a), arrays(b), made, strict=True):
                combine([x, y], [to])
            return b"".join([x.tobytes() for x in made])

        line = Line(self._board, self._circle, run, self._order, self._wheres, timeout)
        total = rounds.reduced(line, mine, combined)
        for combine, x, target in zip(self._combines, arrays(total), results, strict=True):
            combine([x], [target])


def _copy_bytes(source: Array, target: Array) -> None:
    np.copyto(target.reshape(-1).view(np.uint8), source)
