"""Programs on several devices: partitioned, compiled once, loaded on each device, run together.

Each device runs the same program on its own parts. `spmd_run.py` says how. Of a mesh that spans
processes each process holds and runs the parts of its own devices; `agreement.py` sees to it that
all of them run the same program.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.core.config import state
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.jaxpr_trace import hoist_consts
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.meshes import LONE
from xpr.dispatch.nonfinite import SHARDED, check_finite
from xpr.dispatch.sharded_array import ShardedArrayImpl, from_buffers
from xpr.dispatch.spmd_run import Column, Runner
from xpr.dispatch.transfer import placed
from xpr.runtimes.base import Buffer
from xpr.runtimes.collectives.places import RankPlaces
from xpr.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding
from xpr.sharding.alike import Alike, by_spec, differ
from xpr.sharding.communication import Communication, communication
from xpr.sharding.layout import replicated
from xpr.sharding.partition import Partitioned, partition
from xpr.sharding.refine import Refinement, as_partition_spec
from xpr.sharding.rule import Axes, Spec
from xpr.sharding.rules import load_all
from xpr.sharding.stages import has_collectives


class MeshAxes:
    """The mesh of a program, and what shardings over it, or over several such meshes, mean."""

    def __init__(self, mesh: Mesh, refinement: Refinement | None) -> None:
        self.mesh = mesh if refinement is None else refinement.mesh
        self.refinement = refinement

    def spec(self, sharding: Sharding | None, ndim: int) -> Spec | None:
        """The spec that means `sharding`; None if there is none."""
        if isinstance(sharding, NamedSharding):
            if self.refinement is not None:
                return self.refinement.spec(sharding, ndim)
            if sharding.mesh.shape_tuple == self.mesh.shape_tuple:
                return sharding.normalized_spec(ndim)
        if sharding is not None and sharding.is_fully_replicated:
            return replicated(ndim)
        return None

    def named(self, spec: Spec) -> Sharding:
        """The sharding that `spec` means."""
        if self.mesh.axis_names == (LONE,):
            return SingleDeviceSharding(self.mesh.flat_devices[0])
        if self.refinement is not None:
            return self.refinement.back(spec)
        return NamedSharding(self.mesh, as_partition_spec(spec))

    def unreduced(self, sharding: Sharding | None) -> Axes | None:
        """The axes along which a result is wanted unreduced; None where its type says it."""
        if not isinstance(sharding, NamedSharding):
            return None
        axes = sharding.spec.unreduced
        if self.refinement is not None:
            axes = frozenset(self.refinement.axes(sharding.mesh, sorted(axes)))
        return tuple(a for a in self.mesh.axis_names if a in axes)

    def kept(self, given: Sharding | None, spec: Spec, aval: ShapedArray | None = None) -> Sharding:
        """The sharding that was given, if it is one of the mesh; else that of the spec.

        The type says along which axes such a value is unreduced and reduced.
        """
        if isinstance(given, NamedSharding) and isinstance(given.mesh, Mesh):
            known = (self.mesh,) if self.refinement is None else self.refinement.meshes
            if given.mesh in known:
                return given
        sharding = None if aval is None else aval.sharding
        if sharding is None or not (sharding.spec.unreduced or sharding.spec.reduced):
            return self.named(spec)
        sets = {"unreduced": sharding.spec.unreduced, "reduced": sharding.spec.reduced}
        return NamedSharding(self.mesh, as_partition_spec(spec).update(**sets))

    def of_constant(self, value: Any) -> Spec:
        """How a value that a program closes over is sharded."""
        if isinstance(value, ShardedArrayImpl):
            found = self.spec(value.sharding, value.ndim)
            if found is not None:
                return found
        return replicated(np.ndim(value))


class SpmdProgram:
    """A program of whole arrays that runs on all devices of a mesh.

    `in_shardings` and `out_shardings` have one entry for each flat argument and result; None leaves
    it to propagation. With `interpreted` nothing is compiled: the reference rules run on each
    device's parts, for devices whose memory the host sees.
    """

    def __init__(
        self,
        closed: ClosedJaxpr,
        name: str,
        mesh: Mesh,
        in_shardings: Sequence[Sharding | None],
        out_shardings: Sequence[Sharding | None],
        donate: Sequence[int] = (),
        *,
        interpreted: bool = False,
        refinement: Refinement | None = None,
    ) -> None:
        load_all()
        self.name = name
        self.out_avals = closed.out_avals
        axes = self._axes = MeshAxes(mesh, refinement)
        if refinement is not None:
            closed = refinement.program(closed)
        mesh = self.mesh = axes.mesh
        self.donate = tuple(donate)
        out_shardings = [
            _by_type(mesh, s, a) for s, a in zip(out_shardings, closed.out_avals, strict=True)
        ]
        constants = [axes.of_constant(c) for c in closed.consts]
        self.partitioned: Partitioned = partition(
            closed,
            mesh.shape,
            constants,
            [axes.spec(s, a.ndim) for s, a in zip(in_shardings, closed.in_avals, strict=True)],
            [axes.spec(s, a.ndim) for s, a in zip(out_shardings, closed.out_avals, strict=True)],
            mesh,
            [axes.unreduced(s) for s in out_shardings],
        )
        specs = self.partitioned.in_specs
        n_const = len(specs) - len(closed.in_avals)
        self.in_shardings = tuple(
            axes.kept(s, spec, a)
            for s, spec, a in zip(in_shardings, specs[n_const:], closed.in_avals, strict=True)
        )
        self.out_shardings = tuple(
            axes.kept(s, spec, a)
            for s, spec, a in zip(
                out_shardings, self.partitioned.out_specs, closed.out_avals, strict=True
            )
        )
        self.devices = mesh.flat_devices
        self.local_devices = tuple(mesh.local_devices)
        self.local, self._made = hoist_consts(self.partitioned.closed)
        front = len(self._made) + 1 + n_const
        self.local_donated = tuple(front + i for i in self.donate)
        self.meets = has_collectives(self.local.jaxpr)
        self._constants = [
            (c, axes.kept(c.sharding if isinstance(c, ArrayImpl) else None, spec))
            for c, spec in zip(
                [*closed.consts, *self.partitioned.more_consts], specs[:n_const], strict=True
            )
        ]
        self.result_makers: list[tuple[type[ArrayImpl], ShapedArray, Sharding]] = []
        """What the results of the first call were made as: those of others are the same. Nothing
        where some have no values."""

        self.front: list[Column] = []
        """What each device gets before its parts of the arguments, once the program is loaded."""

        self._float0 = any(a.dtype == dtypes.float0 for a in self.out_avals)
        self.closed = closed
        self.interpreted = interpreted
        self._lock = threading.Lock()
        self._runner: Runner | None = None

    @property
    def constants(self) -> list[Any]:
        """The values that the program closes over, those of the partitioner among them."""
        return [*self._made, *(c for c, _ in self._constants)]

    def communication(self) -> Communication:
        """What the devices send each other in one run."""
        return communication(self.local.jaxpr)

    def load(self) -> Runner:
        """Compiles the program and loads it on each device, if that has not been done."""
        with self._lock:
            if self._runner is None:
                self._runner = self._loaded()
        return self._runner

    def _loaded(self) -> Runner:
        for callback, spec in self.partitioned.inspected:
            callback(self._axes.named(spec))
        # What each device gets before its parts of the arguments: constants, and its number.
        mine = set(self.local_devices)
        numbers = tuple(
            placed(np.int32(i), d)._buffers[0] for i, d in enumerate(self.devices) if d in mine
        )
        whole = NamedSharding(self.mesh, PartitionSpec())
        self.front = [
            *(placed(c, whole)._buffers for c in self._made),
            numbers,
            *(placed(c, s)._buffers for c, s in self._constants),
        ]
        if self.local_devices == self.devices or not self.local_devices:
            return self._run_by(None)
        from xpr.dispatch import agreement  # noqa: PLC0415  few programs span processes

        return agreement.load(self, self._run_by)

    def _run_by(self, places: RankPlaces | None) -> Runner:
        return Runner(
            self.local,
            self.name,
            self.devices if self.local_devices else (),
            self.local_donated,
            interpreted=self.interpreted,
            same=self._same(),
            places=places,
        )

    def _same(self) -> list[Alike]:
        """Which devices get the same of each input of the local program."""
        sizes = self.mesh.shape
        own = differ(len(self.devices))
        specs = self.partitioned.in_specs
        found = [by_spec(spec, sizes) for spec in specs]
        given = [c.sharding if isinstance(c, ArrayImpl) else None for c, _ in self._constants]
        for i, sharding in enumerate([*given, *self.in_shardings]):
            if isinstance(sharding, NamedSharding) and sharding.spec.unreduced:
                found[i] = own  # each device has a term of its own
        return [*(by_spec((), sizes) for _ in self._made), own, *found]

    def check_places(self, leaves: Sequence[Any]) -> None:
        """ValueError for an argument that was put elsewhere than the program wants it."""
        for leaf, sharding in zip(leaves, self.in_shardings, strict=True):
            if (
                isinstance(leaf, ArrayImpl)
                and leaf.committed
                and not leaf.sharding.is_equivalent_to(sharding, leaf.ndim)
            ):
                raise ValueError(
                    "Compiled object called with input sharding that does not match the sharding "
                    f"that {self.name} was compiled for: {leaf.aval} is sharded as "
                    f"{leaf.sharding}, wanted {sharding}"
                )

    # ---- calls

    def __call__(self, leaves: Sequence[Any]) -> list[Any]:
        """Runs the program on flat arguments and returns flat results."""
        if state.no_execution:
            raise RuntimeError("a program on several devices was to run, but 'no_execution' is set")
        runner = self._runner or self.load()
        columns = list(self.front)
        for leaf, sharding in zip(leaves, self.in_shardings, strict=True):
            if type(leaf) is ShardedArrayImpl and leaf._sharding is sharding:
                leaf._check_alive()
                columns.append(leaf._buffers)
            else:
                columns.append(self._placed(leaf, sharding))
        found = runner.run(columns)
        for i in self.donate:
            if isinstance(leaves[i], ArrayImpl):
                leaves[i].delete()
        makers = self.result_makers
        if makers:
            out: list[Any] = [
                kind(aval, tuple(buffers), True, sharding)
                for (kind, aval, sharding), buffers in zip(makers, found, strict=True)
            ]
        else:
            out = [
                np.zeros(aval.shape, dtypes.float0)
                if self._float0 and aval.dtype == dtypes.float0
                else from_buffers(aval, tuple(buffers), sharding)
                for aval, buffers, sharding in zip(
                    self.out_avals, found, self.out_shardings, strict=True
                )
            ]
            if not self._float0:
                self.result_makers = [(type(x), x.aval, x.sharding) for x in out]
        if state.debug_nans or state.debug_infs:
            for a in out:
                if isinstance(a, ArrayImpl):
                    for b in a._buffers:
                        check_finite(b.host_view(), f"{SHARDED} {self.name}", sharded=True)
        return out

    def _placed(self, leaf: Any, sharding: Sharding) -> tuple[Buffer, ...]:
        if isinstance(leaf, ArrayImpl):
            leaf._check_alive()
            if is_there(leaf, sharding):
                return leaf._buffers
        return placed(leaf, sharding)._buffers


def is_there(x: ArrayImpl, sharding: Sharding) -> bool:
    """Whether an array lies as the sharding says, its parts in the order of the devices."""
    devices = tuple(b.device for b in x._buffers)
    is_alike = x.sharding.is_equivalent_to(sharding, x.ndim)
    return is_alike and devices == sharding.local_assignment


def _by_type(mesh: Mesh, given: Sharding | None, aval: ShapedArray) -> Sharding | None:
    """The sharding of a result: on Explicit axes its type decides, and one that says nothing is
    replicated, so that what is computed from it next does not depend on the partitioner."""
    if given is not None or not mesh.are_all_axes_explicit:
        return given
    if aval.sharding is None:
        return NamedSharding(mesh, PartitionSpec(*(None,) * aval.ndim))
    return NamedSharding(mesh, aval.sharding.spec)
