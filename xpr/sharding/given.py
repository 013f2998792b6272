"""Shardings that users give as an argument of an operation, for its result."""

from __future__ import annotations

from typing import Any

from xpr.core.errors import shown
from xpr.sharding.context import get_abstract_mesh
from xpr.sharding.mesh import AbstractMesh, AxisType
from xpr.sharding.named import NamedSharding
from xpr.sharding.spec import PartitionSpec, axes_of


def _is_body(mesh: AbstractMesh) -> bool:
    """Whether it is the mesh of the body of a `shard_map`, where types of outside are handed on."""
    return bool(mesh.manual_axes)


def resolved(name: str, sharding: Any) -> NamedSharding:
    """The sharding that the user gave to `name`; a partition spec means the mesh in use.

    The errors are those of `xpr.core.placing.given_sharding`.
    """
    if isinstance(sharding, PartitionSpec):
        mesh = get_abstract_mesh()
        if mesh.empty:
            raise ValueError(
                "Using PartitionSpec when you are not under a mesh context is not allowed. Please "
                "pass a NamedSharding instance or enter into a mesh context via `xpr.set_mesh`. "
                f"Got {sharding} for {name}"
            )
        found = NamedSharding(mesh, sharding)
    elif isinstance(sharding, NamedSharding):
        found = sharding
        if found.memory_kind not in (None, "device"):
            raise ValueError(
                f"`out_sharding` argument of {name}: sharding with memory_kind is not allowed, got "
                f"{found}. Move the result with xpr.device_put"
            )
        in_use = get_abstract_mesh()
        if not in_use.empty and in_use != found.mesh.abstract_mesh and not _is_body(in_use):
            raise ValueError(
                f"Context mesh {in_use} should match the mesh of sharding "
                f"{found.mesh.abstract_mesh} passed to {name}"
            )
    else:
        raise TypeError(
            f"`out_sharding` argument of {name} only supports instances of `NamedSharding` or "
            f"`PartitionSpec`. Got {shown(sharding)} of type: {type(sharding)}"
        )
    # In the body of a `shard_map` that of another value's type is handed on.
    of_type = found is sharding and found.mesh.are_all_axes_manual
    for kind, axes in (("Unreduced", found.spec.unreduced), ("Reduced", found.spec.reduced)):
        for axis in axes:
            if found.mesh.axis_type(axis) is not AxisType.Explicit and not of_type:
                raise ValueError(
                    f"{kind} axes can only refer to mesh axes that is of type `Explicit`. Got "
                    f"{kind.lower()} axes: {axes} and mesh: {found.mesh} for {name}"
                )
    for entry in found.spec.partitions:
        for axis in axes_of(entry):
            if found.mesh.axis_type(axis) is not AxisType.Explicit:
                raise ValueError(
                    f"PartitionSpec passed to {name} cannot contain axis names that are of type "
                    f"Auto or Manual. Got PartitionSpec: {found.spec} with axis name: {axis} of "
                    f"type: {found.mesh.axis_type(axis)}"
                )
    parts = found.spec.partitions
    while parts and parts[-1] is None:
        parts = parts[:-1]
    return found.with_spec(found.spec.update(partitions=parts))
