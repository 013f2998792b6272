"""Over how many devices a function was exported, and how its inputs and results are sharded there.

Devices are told by their places in the mesh, so that a function exported on one machine can be
called on as many devices of another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr.core.errors import shown
from xpr.core.trace import Tracer
from xpr.dispatch.meshes import Places, put_somewhere
from xpr.dispatch.transfer import device_put
from xpr.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, Sharding
from xpr.sharding.context import concrete_mesh
from xpr.sharding.spec import axes_of
from xpr.transforms.constraints import with_sharding_constraint
from xpr.transforms.sharded_calls import asked_shardings

Specs = tuple[PartitionSpec | None, ...]


@dataclass(frozen=True)
class Layout:
    """The mesh that a function was exported on, and the specs that were asked for (else None)."""

    sizes: tuple[int, ...]
    names: tuple[str, ...]
    types: tuple[AxisType, ...]
    inputs: Specs
    outputs: Specs
    mesh: Mesh | None = None
    """The mesh itself, in the process that exported the function."""

    @property
    def size(self) -> int:
        """The number of devices."""
        return math.prod(self.sizes)

    def of_vjp(self) -> Layout:
        """The layout of the derivative: cotangents are sharded as what they belong to."""
        of_inputs, of_outputs = (
            tuple(None if s is None else s.to_ct_spec() for s in specs)
            for specs in (self.inputs, self.outputs)
        )
        return Layout(
            self.sizes, self.names, self.types, self.inputs + of_outputs, of_inputs, self.mesh
        )

    def mesh_for(self, name: str, leaves: Sequence[Any], paths: Sequence[str]) -> Mesh:
        """The devices of a call as a mesh of this shape.

        They are those of the arguments, else those of the mesh in use. Raises ValueError, with both
        numbers, where there are more or fewer.
        """
        places = Places(name)
        places.add_arguments(leaves, paths)
        devices = places.devices
        if places.mesh is not None:
            devices = places.mesh.flat_devices
        elif not devices and not concrete_mesh().empty:
            devices = concrete_mesh().flat_devices
        elif not devices and any(isinstance(x, Tracer) for x in leaves):
            if self.mesh is None:
                raise ValueError(
                    f"Function {name} was exported for {self.size} devices: a call of it inside a "
                    "traced function has to be told which, by xpr.set_mesh(mesh) around the "
                    "outermost call"
                )
            return self.mesh
        count = max(len(devices), 1)
        if count != self.size:
            raise ValueError(
                f"Function {name} was exported for {self.size} devices and is called in a context "
                f"with {count} devices, which is not allowed."
            )
        grid = np.empty(count, object)
        grid[:] = devices
        return Mesh(grid.reshape(self.sizes), self.names, self.types)

    def placed(self, mesh: Mesh, leaves: Sequence[Any]) -> list[Any]:
        """The inputs of a call where they were when the function was exported."""
        return [
            _renamed(x, mesh) if s is None else _placed(x, NamedSharding(mesh, s))
            for x, s in zip(leaves, self.inputs, strict=True)
        ]

    def out_shardings(self, mesh: Mesh) -> tuple[NamedSharding | None, ...]:
        """Where the results are to be."""
        return tuple(None if s is None else NamedSharding(mesh, s) for s in self.outputs)

    def shardings_on(self, mesh: Any, specs: Specs) -> tuple[NamedSharding | None, ...]:
        """The specs, of inputs or outputs, as shardings over a mesh; None where none was asked for.

        Raises ValueError for a mesh of other axes.
        """
        axes = dict(zip(self.names, self.sizes, strict=True))
        if dict(mesh.shape) != axes:
            raise ValueError(
                f"the function was exported for a mesh with the axes {axes}, got one with "
                f"{dict(mesh.shape)}"
            )
        return tuple(
            None if s is None else NamedSharding(mesh, s, memory_kind="device") for s in specs
        )

    def data(self) -> dict[str, Any]:
        """The layout as JSON; `layout_from_data` reads it."""
        return {
            "sizes": self.sizes,
            "names": self.names,
            "types": [t.name for t in self.types],
            "inputs": [_spec_data(s) for s in self.inputs],
            "outputs": [_spec_data(s) for s in self.outputs],
        }


def _placed(x: Any, sharding: NamedSharding) -> Any:
    return (
        with_sharding_constraint(x, sharding) if isinstance(x, Tracer) else device_put(x, sharding)
    )


def _renamed(x: Any, mesh: Mesh) -> Any:
    """An argument that may be anywhere, by the axes of `mesh`; whole where its own differ in size.

    The axes that a program names are those that it was exported with.
    """
    sharding = put_somewhere(x)
    if not isinstance(sharding, NamedSharding) or sharding.mesh.shape_tuple == mesh.shape_tuple:
        return x
    spec = PartitionSpec()
    if sharding.mesh.axis_sizes == mesh.axis_sizes:
        names = dict(zip(sharding.mesh.axis_names, mesh.axis_names, strict=True))
        axes = [tuple(names[a] for a in axes_of(entry)) for entry in sharding.spec.partitions]
        spec = PartitionSpec(*axes)
    return device_put(x, NamedSharding(mesh, spec))


def _spec_data(spec: PartitionSpec | None) -> Any:
    if spec is None:
        return None
    entries = [list(e) if isinstance(e, tuple) else e for e in spec.partitions]
    if not spec.unreduced and not spec.reduced:
        return entries
    return {
        "partitions": entries,
        "unreduced": sorted(spec.unreduced),
        "reduced": sorted(spec.reduced),
    }


def _spec_from_data(data: Any) -> PartitionSpec | None:
    if data is None:
        return None
    sets: dict[str, frozenset[str]] = {}
    if isinstance(data, dict):
        sets = {k: frozenset(data[k]) for k in ("unreduced", "reduced")}
        data = data["partitions"]
    return PartitionSpec(*(tuple(e) if isinstance(e, list) else e for e in data), **sets)


def layout_from_data(data: Any) -> Layout | None:
    """What `Layout.data` wrote; None for a function of one device."""
    if data is None:
        return None

    return Layout(
        tuple(int(n) for n in data["sizes"]),
        tuple(str(n) for n in data["names"]),
        tuple(AxisType[t] for t in data["types"]),
        tuple(map(_spec_from_data, data["inputs"])),
        tuple(map(_spec_from_data, data["outputs"])),
    )


def layout_of(traced: Any) -> Layout | None:
    """The layout of a traced function; None if one device is to run it.

    Raises NotImplementedError for shardings that are none of a mesh.
    """
    mesh, inputs, outputs = asked_shardings(traced._function, traced._traced, traced._parts)
    if mesh is None or mesh.size == 1:
        return None

    def spec(sharding: Sharding | None, aval: Any) -> PartitionSpec | None:
        sharding = aval.sharding if sharding is None else sharding
        if sharding is None:
            return None
        if not isinstance(sharding, NamedSharding):
            raise NotImplementedError(f"export takes shardings of a mesh, got {shown(sharding)}")
        if sharding.mesh.shape_tuple != mesh.shape_tuple:
            raise NotImplementedError(
                f"export takes shardings of one mesh, got {sharding} beside {mesh}"
            )
        return sharding.spec

    closed = traced._traced.closed
    return Layout(
        mesh.axis_sizes,
        mesh.axis_names,
        mesh.axis_types,
        tuple(spec(s, a) for s, a in zip(inputs, closed.in_avals, strict=True)),
        tuple(spec(s, a) for s, a in zip(outputs, closed.out_avals, strict=True)),
        mesh,
    )
