"""`NamedSharding`: a mesh, and over which of its axes each axis of an array is spread."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from xpr.runtimes.base import Device
from xpr.runtimes.memories import HOST_KINDS
from xpr.sharding.base import Index, Shape, Sharding, check_memory_kind
from xpr.sharding.mesh import AbstractMesh, AxisType, Mesh
from xpr.sharding.spec import UNCONSTRAINED, PartitionSpec, axes_of


class DuplicateSpecError(ValueError):
    """A partition spec names a mesh axis twice."""


def _check(mesh: Mesh | AbstractMesh, spec: PartitionSpec) -> None:
    """Raises ValueError for a spec that does not fit the mesh."""
    used = [a for entry in spec.partitions for a in axes_of(entry)]
    twice = sorted({a for a in used if used.count(a) > 1}, key=str)
    if twice:
        raise DuplicateSpecError(
            "A single NamedSharding spec specification can map every mesh axis to at most one "
            f"positional dimension, but {spec} has duplicate entries for "
            + ", ".join(f"`{a}`" for a in twice)
        )
    for axis in used:
        if axis not in mesh.axis_names:
            raise ValueError(
                f"Resource axis: {axis} of {spec} is not found in mesh: {tuple(mesh.axis_names)}."
            )
    if UNCONSTRAINED in spec.partitions and AxisType.Auto not in mesh.axis_types:
        raise ValueError(
            f"{spec} cannot contain `P.UNCONSTRAINED` when no mesh axis_types are `Auto`. Got "
            f"mesh axis_types: {mesh.axis_types}"
        )
    for name, axes in (("Unreduced", spec.unreduced), ("Reduced", spec.reduced)):
        for axis in axes:
            if axis not in mesh.axis_names:
                raise ValueError(
                    f"{name} axes {axis} is not found in mesh.axis_names={mesh.axis_names}. Got "
                    f"pspec={spec}"
                )
            if mesh.axis_type(axis) is AxisType.Auto:
                raise ValueError(
                    f"{name} axes can only refer to mesh axes that is of type `Explicit`. Got "
                    f"{name.lower()} axes: {axes} and mesh: {mesh}"
                )


class NamedSharding(Sharding):
    """Array axes spread over the axes of a mesh, as a partition spec says.

    Raises TypeError for what is no mesh or no spec, ValueError for a spec with axes that the mesh
    lacks or with an axis twice, and for memory of a kind that the devices lack.

    >>> import xpr
    >>> from xpr.sharding import Mesh, PartitionSpec as P
    >>> mesh = Mesh(xpr.devices("cpu")[:1], ("x",))
    >>> NamedSharding(mesh, P("x")).shard_shape((4, 3))
    (4, 3)
    """

    __slots__ = ("_hash", "_memory_kind", "_replicated", "mesh", "spec")

    mesh: Mesh | AbstractMesh
    spec: PartitionSpec

    def __init__(
        self,
        mesh: Mesh | AbstractMesh,
        spec: PartitionSpec,
        *,
        memory_kind: str | None = None,
    ) -> None:
        if not isinstance(mesh, (Mesh, AbstractMesh)):
            raise TypeError(f"NamedSharding takes a Mesh, got {mesh!r} of type {type(mesh)}")
        if not isinstance(spec, PartitionSpec):
            raise TypeError(
                f"NamedSharding takes a PartitionSpec, got {spec!r} of type {type(spec)}"
            )
        _check(mesh, spec)
        if isinstance(mesh, Mesh):
            check_memory_kind(memory_kind, mesh.flat_devices[0].platform if mesh.size else "cpu")
            memory_kind = memory_kind or "device"
        elif memory_kind is not None and memory_kind not in ("device", *HOST_KINDS):
            raise ValueError(
                f"Got invalid memory kind: {memory_kind}. Valid memory kinds are: "
                f"{', '.join(('device', *HOST_KINDS))}"
            )
        self.mesh = mesh
        self.spec = spec
        self._memory_kind = memory_kind
        self._hash = hash((mesh, spec, memory_kind))
        self._replicated: bool | None = None

    # ---- devices

    def _concrete(self, name: str) -> Mesh:
        if not isinstance(self.mesh, Mesh):
            raise ValueError(f"{name} is not implemented for `xpr.sharding.AbstractMesh`.")
        return self.mesh

    @property
    def _device_assignment(self) -> tuple[Device, ...]:
        return self._concrete("_device_assignment").flat_devices

    @property
    def device_set(self) -> set[Device]:
        return set(self._concrete("device_set").device_set)

    @property
    def num_devices(self) -> int:
        return self.mesh.size

    @property
    def is_fully_addressable(self) -> bool:
        mesh = self._concrete("is_fully_addressable")
        return len(mesh.local_devices) == mesh.size

    @property
    def addressable_devices(self) -> set[Device]:
        return set(self._concrete("addressable_devices").local_devices)

    @property
    def local_assignment(self) -> tuple[Device, ...]:
        return tuple(self._concrete("local_assignment").local_devices)

    @property
    def memory_kind(self) -> str | None:
        return self._memory_kind

    # ---- parts

    def normalized_spec(self, ndim: int) -> tuple[tuple[Any, ...], ...]:
        """For each of `ndim` array axes the mesh axes that it is spread over, major to minor.

        >>> from xpr.sharding import AbstractMesh, PartitionSpec as P
        >>> mesh = AbstractMesh((2, 2, 2), ("x", "y", "z"))
        >>> NamedSharding(mesh, P("x", ("y", "z"))).normalized_spec(3)
        (('x',), ('y', 'z'), ())
        """
        self.spec.check_rank(ndim, f"Sharding {self}")
        found = tuple(map(axes_of, self.spec.partitions))
        return found + ((),) * (ndim - len(found))

    def shard_counts(self, ndim: int) -> tuple[int, ...]:
        return _counts(self, ndim)

    def shard_positions(self, ndim: int) -> tuple[tuple[int, ...], ...]:
        return _positions(self, ndim)

    def check_compatible_aval(self, aval_shape: Shape) -> None:
        self.spec.check_rank(len(aval_shape), f"Sharding {self}")

    def devices_indices_map(self, global_shape: Shape) -> dict[Device, Index]:
        if self.spec.unreduced:
            raise NotImplementedError(
                f"devices_indices_map: no part of an unreduced array is a part of the whole: {self}"
            )
        return super().devices_indices_map(global_shape)

    @property
    def is_fully_replicated(self) -> bool:
        found = self._replicated
        if found is None:
            shape = self.mesh.shape
            parts = [shape[a] for entry in self.spec.partitions for a in axes_of(entry)]
            whole = not self.spec.unreduced and all(n == 1 for n in parts)
            found = self._replicated = self.mesh.size == 1 or whole
        return found

    @property
    def replicated_axes(self) -> frozenset[Any]:
        """The mesh axes along which all devices hold the same values."""
        used = {a for entry in self.spec.partitions for a in axes_of(entry)}
        return frozenset(self.mesh.axis_names) - used - self.spec.unreduced - self.spec.reduced

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether `other` puts an array of `ndim` axes in the same places.

        Two shardings over abstract meshes are compared without devices.
        """
        if isinstance(other, NamedSharding):
            if other == self:
                return True
            if not _same_axes(self, other, self.spec.unreduced, other.spec.unreduced):
                return False
            if isinstance(self.mesh, AbstractMesh) and isinstance(other.mesh, AbstractMesh):
                return (
                    self.num_devices == other.num_devices
                    and self.shard_counts(ndim) == other.shard_counts(ndim)
                    and self.shard_positions(ndim) == other.shard_positions(ndim)
                )
        elif self.spec.unreduced:
            return False
        return super().is_equivalent_to(other, ndim)

    # ---- others like it

    def update(self, **changes: Any) -> NamedSharding:
        """A sharding with some of mesh, spec and memory_kind replaced."""
        spec = changes.pop("spec", self.spec)
        return NamedSharding(
            changes.pop("mesh", self.mesh),
            spec if isinstance(spec, PartitionSpec) else PartitionSpec(*spec),
            memory_kind=changes.pop("memory_kind", self._memory_kind),
            **changes,
        )

    def with_spec(self, spec: Any) -> NamedSharding:
        """The same mesh with another spec."""
        return self.update(spec=spec)

    def with_memory_kind(self, kind: str) -> NamedSharding:
        """The same places in memory of another kind."""
        return self.update(memory_kind=kind)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            type(other) is NamedSharding
            and self.mesh is other.mesh
            and self.spec is other.spec
            and self._memory_kind == other._memory_kind
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Any:
        return _named, (self.mesh, self.spec, self._memory_kind)

    def __repr__(self) -> str:
        kind = "" if self._memory_kind is None else f", memory_kind={self._memory_kind}"
        return f"NamedSharding(mesh={self.mesh!s}, spec={self.spec}{kind})"


def _named(mesh: Any, spec: PartitionSpec, memory_kind: str | None) -> NamedSharding:
    return NamedSharding(mesh, spec, memory_kind=memory_kind)


@functools.lru_cache(maxsize=1024)
def _counts(sharding: NamedSharding, ndim: int) -> tuple[int, ...]:
    sizes = sharding.mesh.shape
    found = []
    for axes in sharding.normalized_spec(ndim):
        count = 1
        for axis in axes:
            count *= sizes[axis]
        found.append(count)
    return tuple(found)


@functools.lru_cache(maxsize=1024)
def _positions(sharding: NamedSharding, ndim: int) -> tuple[tuple[int, ...], ...]:
    mesh = sharding.mesh
    places = dict(zip(mesh.axis_names, np.indices(mesh.axis_sizes), strict=True))
    columns = []
    for axes in sharding.normalized_spec(ndim):
        column = np.zeros(mesh.axis_sizes, int)
        for axis in axes:
            column = column * mesh.shape[axis] + places[axis]
        columns.append(column.reshape(-1).tolist())
    return tuple(zip(*columns, strict=True)) if columns else ((),) * mesh.size


def _same_axes(a: NamedSharding, b: NamedSharding, axes_a: Any, axes_b: Any) -> bool:
    """Whether two sets of mesh axes mean the same groups of devices."""
    if not axes_a and not axes_b:
        return True
    return a.mesh.shape_tuple == b.mesh.shape_tuple and axes_a == axes_b


def is_unreduced(sharding: Any) -> bool:
    """Whether arrays with that sharding are parts of sums on their devices."""
    return type(sharding) is NamedSharding and bool(sharding.spec.unreduced)


def explicit_sharding(sharding: Any, ndim: int) -> NamedSharding | None:
    """The sharding that the type of an array shows: what it has along Explicit mesh axes.

    In the body of a `shard_map` it shows along which Manual axes a value is unreduced or reduced.
    None when there is nothing to show, and for shardings without a mesh.
    """
    if type(sharding) is not NamedSharding:
        return None
    spec = sharding.spec
    if not (sharding.mesh.explicit_axes or spec.unreduced or spec.reduced):
        return None
    return _explicit(sharding, ndim)


@functools.lru_cache(maxsize=1024)
def _explicit(sharding: NamedSharding, ndim: int) -> NamedSharding:
    mesh = sharding.mesh
    shown = set(mesh.explicit_axes)
    entries = [tuple(a for a in axes if a in shown) for axes in sharding.normalized_spec(ndim)]
    return NamedSharding(mesh.abstract_mesh, sharding.spec.update(partitions=entries))
