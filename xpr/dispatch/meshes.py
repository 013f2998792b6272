"""Which mesh a program runs on: that of its arguments, of its own parameters, or of the context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr, all_eqns
from xpr.core.trace import Tracer
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.placement import incompatible
from xpr.dispatch.sharded_array import HostMemoryArray, ShardedArrayImpl
from xpr.runtimes.base import Device
from xpr.runtimes.registry import this_process
from xpr.sharding import Mesh, NamedSharding, Sharding
from xpr.sharding.context import concrete_mesh

if TYPE_CHECKING:
    from xpr.sharding.refine import Refinement


def meshes_in(closed: ClosedJaxpr) -> list[Mesh]:
    """The meshes that a program names, each once: of `shard_map`, constraints and constants."""
    found: dict[Mesh, None] = {}
    for c in closed.consts:
        if isinstance(c, ShardedArrayImpl):
            sharding = c.sharding
            if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, Mesh):
                found[sharding.mesh] = None
    for eqn in all_eqns(closed.jaxpr):
        found.update(dict.fromkeys(meshes_of_params(eqn.params)))
    return list(found)


def needs_mesh(closed: ClosedJaxpr) -> bool:
    """Whether a program names axes of a mesh, concrete or abstract."""
    return bool(meshes_in(closed)) or any(
        e.primitive.eager == "spmd" for e in all_eqns(closed.jaxpr)
    )


def meshes_of_params(params: dict[str, Any]) -> Iterator[Mesh]:
    """The concrete meshes that the parameters of one equation name."""
    for key in ("mesh", "sharding", "out_sharding"):
        value = params.get(key)
        mesh = value.mesh if isinstance(value, NamedSharding) else value
        if isinstance(mesh, Mesh) and not mesh.empty:
            yield mesh


def put_somewhere(x: Any) -> Sharding | None:
    """Where an argument was put, if it was: an array, or the type of one that says where it is."""
    if isinstance(x, ArrayImpl):
        if type(x) is HostMemoryArray:  # programs know of the devices' own memory alone
            return x.sharding.with_memory_kind("device")
        return x.sharding if x.committed else None
    found = None if isinstance(x, Tracer) else getattr(x, "sharding", None)
    return found if isinstance(found, Sharding) else None


class Places:
    """The devices that a computation has been told to run on, and who told it first."""

    def __init__(self, function: str) -> None:
        self.function = function
        self.mesh: Mesh | None = None
        self.others: dict[Any, Mesh] = {}
        """Meshes of the same devices with other axes, by these."""

        self.devices: tuple[Device, ...] = ()
        self._source = ""

    def add(self, devices: Sequence[Device], mesh: Mesh | None, source: str) -> None:
        """ValueError, naming both, if something else was told to run on other devices."""
        devices = tuple(devices)
        if not self.devices:
            self.devices, self._source = devices, source
        elif set(self.devices) != set(devices):
            raise incompatible(
                f"{self._source} and {_where(self.devices)}", f"{source} and {_where(devices)}"
            )
        if mesh is not None:
            self.others.setdefault(mesh.shape_tuple, mesh)
            if self.mesh is None or _is_better(mesh, self.mesh):
                self.mesh = mesh

    def add_sharding(self, sharding: Sharding, source: str) -> None:
        """The devices of a sharding of an argument, a result or a constraint."""
        mesh = sharding.mesh if isinstance(sharding, NamedSharding) else None
        if isinstance(mesh, Mesh):
            self.add(mesh.flat_devices, mesh, source)
        elif mesh is None:
            self.add(sharding._device_assignment, None, source)

    def add_arguments(self, leaves: Sequence[Any], names: Sequence[str]) -> None:
        """The devices of the arguments that were put somewhere."""
        for i, x in enumerate(leaves):
            sharding = put_somewhere(x)
            if sharding is not None:
                label = names[i] if i < len(names) else str(i)
                shape = ShapedArray(tuple(x.shape), x.dtype)
                self.add_sharding(
                    sharding, f"argument {label} of {self.function} with shape {shape}"
                )

    def add_program(self, closed: ClosedJaxpr) -> None:
        """The meshes that the program names."""
        for mesh in meshes_in(closed):
            self.add(mesh.flat_devices, mesh, f"a mesh inside {self.function}")

    def refinement(self) -> Refinement | None:
        """How several meshes go together; None where there is one."""
        if self.mesh is None or len(self.others) < 2:
            return None
        from xpr.sharding import refine  # noqa: PLC0415  few programs have two meshes

        rest = [m for m in self.others.values() if m.shape_tuple != self.mesh.shape_tuple]
        return refine.Refinement([self.mesh, *rest])

    def chosen(self) -> Mesh | None:
        """The mesh; that of the context where nothing else says one. None for a single device.

        ValueError where that of the context has other devices than what takes part.
        """
        context_mesh = concrete_mesh()
        if len(self.devices) == 1 and self.devices[0].process_index != this_process():
            return lone_mesh(self.devices[0])
        if context_mesh.empty:
            return self.mesh
        if self.devices and set(self.devices) != set(context_mesh.flat_devices):
            raise incompatible(
                f"{self._source} and {_where(self.devices)}",
                f"the mesh of set_mesh around {self.function} and "
                f"{_where(context_mesh.flat_devices)}",
            )
        return context_mesh if self.mesh is None else self.mesh


LONE = "_device"
"""The axis of a mesh that stands for one device of another process, and is never seen."""


def lone_mesh(device: Device) -> Mesh:
    """A mesh for what is computed on one device of another process: here only types are known."""
    return Mesh(np.array([device]), (LONE,))


def _is_better(new: Mesh, old: Mesh) -> bool:
    """Of two meshes of the same devices the one with more axes says more."""
    return len([n for n in new.axis_sizes if n > 1]) > len([n for n in old.axis_sizes if n > 1])


def _where(devices: Sequence[Device]) -> str:
    platform = devices[0].platform.upper() if devices else "none"
    return f"with device ids {[d.id for d in devices]} on platform {platform}"
