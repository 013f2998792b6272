"""How the devices of one process run a partitioned program.

The program is cut into stages where its devices meet (`xpr/sharding/stages.py`). As many threads as
there are cores run a stage for all devices; small ones run in the calling thread. Between stages
the collectives are done with everybody's arrays in hand. A stage that has collectives inside of a
loop or a branch gets a thread for each device, and the threads meet there.

Of a mesh that spans processes each process runs the parts of its own devices; `RankPlaces` tell the
collectives whose the others are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core.config import state
from xpr.core.events import span
from xpr.core.jaxpr import ClosedJaxpr, JaxprEqn, Literal, Var
from xpr.dispatch.spmd_steps import Steps
from xpr.interpreters.reference import called_program, interpret, interpret_equation
from xpr.primitives.group_collective import call_for_all
from xpr.runtimes.base import Buffer, Device
from xpr.runtimes.collectives.places import RankPlaces
from xpr.runtimes.collectives.together import perform_for_all, run_in_chunks
from xpr.runtimes.collectives.workers import run_together
from xpr.runtimes.host import HostBuffer
from xpr.sharding.alike import Alike, alike, differ, of_variables
from xpr.sharding.shared import Sharing
from xpr.sharding.stages import Stage, has_collectives, joined, joined_inside, levels, stages

_THREADS_COST = 2e6
"""Operations plus bytes of all devices together from which several threads pay."""

_MAX_STAGES = 8
"""Each stage is compiled on its own: a program with more cuts is compiled whole, with its
collectives as calls into this process."""

Part = Callable[[Sequence[Buffer]], list[Any]]
"""The program of one device: buffers in, buffers out."""

Column = Sequence[Any]
"""One buffer for each device."""


class Runner:
    """A partitioned program loaded on the devices of this process.

    `places` tell which ranks of the program they are, where other processes have ranks of it, too.
    """

    def __init__(
        self,
        closed: ClosedJaxpr,
        name: str,
        devices: Sequence[Device],
        donate: Sequence[int],
        *,
        interpreted: bool,
        same: Sequence[Alike] = (),
        places: RankPlaces | None = None,
    ) -> None:
        """`same` says, if it is known, which ranks get equal values for each of the inputs."""
        self.name = name
        self.places = places
        self.devices = devices if places is None else [devices[r] for r in places.ranks]
        self.meets_others = places is not None and has_collectives(closed.jaxpr)
        self.invars = closed.jaxpr.invars
        self.outvars = closed.jaxpr.outvars
        donated = {self.invars[i] for i in donate}
        self.stages = [
            LoadedStage(s, name, self.devices, donated, self._source(s), interpreted=interpreted)
            for s in (_cut(closed, devices, same) if devices else ())
        ]
        self.programs = [p for s in self.stages for p in s.programs.values()]
        self._steps = self._planned()

    def _planned(self) -> Steps | None:
        """The steps of the one device that this process has; None for other programs."""
        if not self.meets_others or len(self.devices) != 1:
            return None
        if any(isinstance(v, Literal) for v in self.outvars):
            return None
        found = Steps(self.devices[0], self.invars, self.outvars)
        for loaded in self.stages:
            stage = loaded.stage
            if stage.meets or any(e.primitive.name == "call_once" for e in stage.collectives):
                return None
            meets = stage.collectives
            if loaded.parts:
                (part,) = loaded.parts
                dead = [] if meets else stage.dead
                found.compute(part, [*stage.inputs, *stage.summed], stage.outputs, dead)
            for eqn in meets:
                found.meet(eqn, stage.dead if eqn is meets[-1] else [])
        found.finish()
        return found

    def run(self, columns: Sequence[Column]) -> list[Column]:
        """The results, from the operands: one buffer for each device each."""
        if self.places is not None and self.meets_others:
            with self.places.running() as places:
                if self._steps is not None:
                    return self._steps.run(columns, places)
                return self._run(columns, places)
        return self._run(columns, None) if self.devices else [()] * len(self.outvars)

    def _run(self, columns: Sequence[Column], places: RankPlaces | None) -> list[Column]:
        env: dict[Var, Column] = dict(zip(self.invars, columns, strict=True))
        for stage in self.stages:
            stage.run(env, self.name, places)
        out: list[Column] = []
        taken: set[int] = {id(c) for c in columns}
        for v in self.outvars:
            column = self._literal(v) if isinstance(v, Literal) else env[v]
            if id(column) in taken:
                column = [b if b is None else b.alias() for b in column]
            taken.add(id(column))
            out.append(column)
        return out

    def _source(self, stage: Stage) -> Alike:
        """For each device here the one, by its place among them, whose results it gets."""
        if stage.alike is None:
            return differ(len(self.devices))
        if self.places is None:
            return stage.alike
        return alike([stage.alike[rank] for rank in self.places.ranks])

    def _literal(self, literal: Literal) -> Column:
        value = np.array(literal.val, literal.aval.dtype)
        value.setflags(write=False)
        return [_buffer(value, d) for d in self.devices]


def _cut(closed: ClosedJaxpr, devices: Sequence[Device], same: Sequence[Alike]) -> list[Stage]:
    of_var, _ = levels(closed.jaxpr)
    if max(of_var.values(), default=0) < _MAX_STAGES:
        closed = closed.replace(jaxpr=joined_inside(closed.jaxpr))
        return stages(closed, _sharing(closed, devices, same))
    jaxpr = joined(closed.jaxpr)
    outputs = list(dict.fromkeys(v for v in jaxpr.outvars if isinstance(v, Var)))
    made = [v for v in outputs if v not in set(jaxpr.invars)]
    whole = ClosedJaxpr(jaxpr.replace(outvars=list(made)), [])
    return [Stage(whole, list(jaxpr.invars), made, True)]


def _sharing(
    closed: ClosedJaxpr, devices: Sequence[Device], same: Sequence[Alike]
) -> Sharing | None:
    """What ranks have in common; None if that is nothing.

    A program is cut in the same way, so that it rounds in the same way, in any number of processes.
    """
    # Only in the host's memory can devices share a result, and others may round otherwise.
    places = alike([d.runtime.name if d.runtime.is_host else i for i, d in enumerate(devices)])
    size = len(devices)
    if not same or len(set(places)) == size:
        return None
    is_one_memory = len({d.process_index for d in devices}) == 1
    return Sharing(size, of_variables(closed.jaxpr, same, places), is_one_memory)


class LoadedStage:
    """A stage, and what of it is loaded on the devices of this process."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        devices: Sequence[Device],
        donated: set[Var],
        source: Alike,
        *,
        interpreted: bool,
    ) -> None:
        self.stage = stage
        self.devices = devices
        self.source = source
        """For each device the one whose results it gets."""

        self.ranks = sorted(set(self.source))
        """Those that run the program."""

        self.programs: dict[str, Any] = {}
        """The compiled program by the target of its devices, that of the first one."""

        self.parts: list[Part] = []
        cost = 0.0
        dead = set(stage.dead)
        for eqn in stage.collectives:
            dead.difference_update(v for v in eqn.invars if isinstance(v, Var))
        donate = [i for i, v in enumerate(stage.inputs) if v in donated and v in dead]
        self.given_up = () if stage.alike is None else tuple(donate)
        running = [devices[r] for r in self.ranks]
        if not stage.outputs and not stage.closed.eqns:
            self.parts = []
        elif interpreted:
            self.parts = [_interpreted(stage.closed, d) for d in running]
        else:
            self.parts, cost = self._compiled(name, running, donate)
        self.in_threads = len(self.parts) > 1 and cost > _THREADS_COST

    def _compiled(
        self, name: str, devices: Sequence[Device], donate: Sequence[int]
    ) -> tuple[list[Part], float]:
        """The program of each device, compiled once for each kind of device, and its cost."""
        from xpr.dispatch.compiled import CompiledProgram  # noqa: PLC0415  the compile path is lazy

        # A device alone may queue its programs; one that runs them for others is waited for.
        count = 0 if len(self.devices) == 1 else len(devices)
        parts: list[Part] = []
        cost = 0.0
        for device in devices:
            target = device.runtime.target
            first = self.programs.get(target)
            if first is None:
                first = self.programs[target] = CompiledProgram(
                    self.stage.closed, name, device, donate, beside=count
                )
                parts.append(first.run)
            else:
                parts.append(first.loaded_on(device, count).run)
            if first.executable is not None:
                cost += first.executable.signature.cost
        return parts, cost

    def run(self, env: dict[Var, Column], name: str, places: RankPlaces | None) -> None:
        """Runs the stage and what follows it, from and to the columns of `env`."""
        stage = self.stage
        if self.parts:
            inputs = [env[v] for v in stage.inputs]
            operands: list[Any]
            operands = list(zip(*inputs, strict=True)) if inputs else [()] * len(self.devices)
            if stage.alike is None:
                found = self._run(operands, name, places)
            else:
                found = self._run_once(operands, [b for v in stage.summed for b in env[v]], name)
            env.update(zip(stage.outputs, zip(*found, strict=True), strict=True))
        for eqn in stage.collectives:
            if eqn.primitive.name == "call_once":
                self._call(eqn, env, places)
            else:
                self._meet(eqn, env, places)
        for v in stage.dead:
            env.pop(v, None)

    def _run_once(
        self, operands: Sequence[Sequence[Any]], summed: Sequence[Any], name: str
    ) -> list[list[Any]]:
        """What each device gets of a program that some run for the others."""
        for rank, source in enumerate(self.source):
            if rank != source:
                for i in self.given_up:
                    # Also for the programs that still read the memory, should it be the same.
                    device, buffer = self.devices[rank], operands[rank][i]
                    if device.queue is not None:
                        device.queue.drain()
                    if buffer is not operands[source][i]:
                        buffer.delete()
        found = self._run([(*operands[r], *summed) for r in self.ranks], name, None)
        results = dict(zip(self.ranks, found, strict=True))
        return [
            results[source]
            if rank == source
            else [None if b is None else b.seen_from(device) for b in results[source]]
            for rank, (source, device) in enumerate(zip(self.source, self.devices, strict=True))
        ]

    def _run(
        self, operands: Sequence[Sequence[Any]], name: str, places: RankPlaces | None
    ) -> list[list[Any]]:
        if self.stage.meets:
            return run_together(
                [
                    lambda part=part, given=given: part(given)
                    for part, given in zip(self.parts, operands, strict=True)
                ],
                timeout=state.collective_timeout,
                name=name,
                places=places,
            )
        if not self.in_threads:
            return [part(given) for part, given in zip(self.parts, operands, strict=True)]
        found: list[list[Any]] = [[] for _ in operands]

        def run(i: int) -> None:
            found[i] = self.parts[i](operands[i])

        run_in_chunks([lambda i=i: run(i) for i in range(len(operands))])
        return found

    def _call(self, eqn: JaxprEqn, env: dict[Var, Column], places: RankPlaces | None) -> None:
        """Calls a function of this process on what the first device has, for all."""
        found: Sequence[Any]
        if places is None or places.ranks[0] == 0:
            found = call_for_all(*_host_operands(eqn, env, 0), **eqn.params)
        else:
            found = [np.zeros(v.aval.shape, v.aval.dtype) for v in eqn.outvars]
        if places is not None and found:
            # The process of the first device tells the others.
            mine = [[np.asarray(x)[None] for x in found]] * len(self.devices)
            collective = eqn.params["collective"]
            found = [x[0] for x in perform_for_all(collective, mine, places)[0]]
        for v, x in zip(eqn.outvars, found, strict=True):
            value = np.array(x, v.aval.dtype)
            value.setflags(write=False)
            env[v] = [_buffer(value, d) for d in self.devices]

    def _meet(self, eqn: JaxprEqn, env: dict[Var, Column], places: RankPlaces | None) -> None:
        operands = [_host_operands(eqn, env, i) for i in range(len(self.devices))]
        collective = eqn.params["collective"]
        with span("collective", collective.kind, source=collective.source):
            found = perform_for_all(collective, operands, places)
        for i, v in enumerate(eqn.outvars):
            env[v] = [_buffer(found[r][i], d) for r, d in enumerate(self.devices)]


def _host_operands(eqn: JaxprEqn, env: dict[Var, Column], place: int) -> list[Any]:
    return [
        np.asarray(v.val, v.aval.dtype) if isinstance(v, Literal) else env[v][place].host_view()
        for v in eqn.invars
    ]


def _buffer(value: np.ndarray[Any, Any], device: Device) -> Buffer:
    """A buffer with values that nobody changes any more."""
    if device.runtime.is_host:
        return HostBuffer(value, device)
    return device.runtime.buffer_from_host(value, device, copy=True)


def _interpreted(local: ClosedJaxpr, device: Device) -> Part:
    compute = _one_equation(local) or functools.partial(interpret, local, [])

    def run(buffers: Sequence[Buffer]) -> list[Buffer]:
        arrays = [b.host_view() for b in buffers]
        taken = list(arrays)
        out: list[Buffer] = []
        for x in compute(arrays):
            # What owns its memory shares it with itself alone.
            if any(x is t if x.base is None else np.may_share_memory(x, t) for t in taken):
                x = np.array(x)
            taken.append(x)
            x.setflags(write=False)
            out.append(HostBuffer(x, device))
        return out

    return run


def _one_equation(closed: ClosedJaxpr) -> Callable[[Sequence[Any]], list[Any]] | None:
    """What computes a program of one equation; None for other programs."""
    jaxpr = closed.jaxpr
    if len(jaxpr.eqns) != 1 or jaxpr.constvars:
        return None
    (eqn,) = jaxpr.eqns
    if list(eqn.outvars) != list(jaxpr.outvars) or eqn.primitive.interprets:
        return None
    if called_program(eqn) is not None or any(isinstance(v, Literal) for v in eqn.invars):
        return None
    places = {v: i for i, v in enumerate(jaxpr.invars)}
    operands = [places[v] for v in eqn.invars if isinstance(v, Var)]
    return lambda arrays: interpret_equation(eqn, [arrays[i] for i in operands])
