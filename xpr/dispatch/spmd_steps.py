"""The stages of a program of several processes on the one device of this one, planned once.

Where a process has one device there is one buffer for each variable, and nobody to share work with:
a run is a list of steps over a list of values. The sum of a few numbers, at which processes meet
most often, is planned with the first run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core.events import span
from xpr.core.jaxpr import JaxprEqn, Literal, Var
from xpr.runtimes.base import Buffer, Device
from xpr.runtimes.collectives.base import Array
from xpr.runtimes.collectives.places import RankPlaces, SumOfOne
from xpr.runtimes.collectives.together import perform_for_all
from xpr.runtimes.host import HostBuffer

Part = Callable[[Sequence[Buffer]], list[Any]]
Values = list[Any]
"""The buffer of each variable that has one, and None."""


class Steps:
    """What one device runs, and where it meets the others."""

    def __init__(
        self,
        device: Device,
        invars: Sequence[Var],
        outvars: Sequence[Any],
    ) -> None:
        self._device = device
        self._place: dict[Var, int] = {v: i for i, v in enumerate(invars)}
        self._invars = set(invars)
        self._outvars = outvars
        self._steps: list[_Compute | _Meet] = []
        self._size = len(self._place)
        self._results: list[tuple[int, bool]] = []

    def compute(
        self, part: Part, inputs: Sequence[Var], outputs: Sequence[Var], dead: Sequence[Var]
    ) -> None:
        """Adds a compiled program, after which some variables are not read any more."""
        takes = [self._place[v] for v in inputs]
        gives = [self._slot(v) for v in outputs]
        self._steps.append(_Compute(part, takes, gives, self._gone(dead)))

    def meet(self, eqn: JaxprEqn, dead: Sequence[Var]) -> None:
        """Adds a collective."""
        takes = [
            np.asarray(v.val, v.aval.dtype) if isinstance(v, Literal) else self._place[v]
            for v in eqn.invars
        ]
        gives = [self._slot(v) for v in eqn.outvars]
        self._steps.append(
            _Meet(eqn.params["collective"], takes, gives, self._gone(dead), self._device)
        )

    def _slot(self, v: Var) -> int:
        place = self._place.get(v)
        if place is None:
            place = self._place[v] = self._size
            self._size += 1
        return place

    def _gone(self, dead: Sequence[Var]) -> list[int]:
        return [self._place[v] for v in dead if v in self._place]

    def finish(self) -> None:
        """Called when all steps are there."""
        taken = set(self._invars)
        for v in self._outvars:
            # What the caller has already, or gets twice, is an array of its own.
            self._results.append((self._place[v], v in taken))
            taken.add(v)

    def run(self, columns: Sequence[Sequence[Any]], places: RankPlaces) -> list[Sequence[Any]]:
        """The results, from the operands: one buffer each, in a column."""
        values: Values = [c[0] for c in columns]
        values += [None] * (self._size - len(values))
        for step in self._steps:
            step.run(values, places)
        return [(values[i].alias() if again else values[i],) for i, again in self._results]


class _Compute:
    __slots__ = ("dead", "gives", "part", "takes")

    def __init__(self, part: Part, takes: list[int], gives: list[int], dead: list[int]) -> None:
        self.part = part
        self.takes = takes
        self.gives = gives
        self.dead = dead

    def run(self, values: Values, places: RankPlaces) -> None:
        found = self.part([values[i] for i in self.takes])
        for i, x in zip(self.gives, found, strict=True):
            values[i] = x
        for i in self.dead:
            values[i] = None


class _Meet:
    __slots__ = ("collective", "dead", "device", "gives", "is_planned", "small", "takes")

    def __init__(
        self,
        collective: Any,
        takes: list[int | Array],
        gives: list[int],
        dead: list[int],
        device: Device,
    ) -> None:
        self.collective = collective
        self.takes = takes
        self.gives = gives
        self.dead = dead
        self.device = device
        self.small: SumOfOne | None = None
        self.is_planned = False

    def run(self, values: Values, places: RankPlaces) -> None:
        operands = [values[t].host_view() if isinstance(t, int) else t for t in self.takes]
        if not self.is_planned:
            self._plan(operands, places)
        with span("collective", self.collective.kind, source=self.collective.source):
            if self.small is not None:
                assert places.run is not None
                found = self.small(places.run, operands)
            else:
                (found,) = perform_for_all(self.collective, [operands], places)
        device = self.device
        for i, x in zip(self.gives, found, strict=True):
            if device.runtime.is_host:
                values[i] = HostBuffer(x, device)
            else:
                values[i] = device.runtime.buffer_from_host(x, device, copy=True)
        for i in self.dead:
            values[i] = None

    def _plan(self, operands: Sequence[Any], places: RankPlaces) -> None:
        kinds = tuple([(x.shape, x.dtype) for x in operands])
        self.small = places.processes.meetings.small_sum(places, self.collective, kinds)
        self.is_planned = True
