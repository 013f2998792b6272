"""What `jax._src.sharding_impls` has beside public names."""

from __future__ import annotations

from xpr.sharding import NamedSharding, PartitionSpec, get_abstract_mesh
from xpr.transforms.shardings import UNSPECIFIED as UNSPECIFIED
from xpr.transforms.shardings import UnspecifiedValue as UnspecifiedValue


def canonicalize_sharding(
    sharding: NamedSharding | PartitionSpec | None,
    api_name: str,
    check_mesh_consistency: bool = True,
) -> NamedSharding | None:
    """What an argument `out_sharding` asks for: a sharding of the mesh in use, or None.

    Raises TypeError for what is no sharding of a mesh, ValueError for a spec without a mesh and
    for a sharding of another mesh than the one in use.
    """
    if sharding is None:
        return None
    if not isinstance(sharding, (NamedSharding, PartitionSpec)):
        raise TypeError(
            f"`out_sharding` argument of {api_name} only supports instances of `NamedSharding` or "
            f"`PartitionSpec`. Got {sharding} of type: {type(sharding)}"
        )
    current = get_abstract_mesh()
    if isinstance(sharding, PartitionSpec):
        if current.empty:
            raise ValueError(
                "Using PartitionSpec when you are not under a mesh context is not allowed. Please "
                "pass a NamedSharding instance or enter into a mesh context via `jax.set_mesh`. "
                f"Got {sharding}"
            )
        return NamedSharding(current, sharding)
    if sharding.mesh.empty:
        return None
    mesh = sharding.mesh.abstract_mesh
    all_auto = mesh.are_all_axes_auto and current.are_all_axes_auto
    if check_mesh_consistency and not all_auto and not current.empty and mesh != current:
        raise ValueError(
            f"Context mesh {current} should match the mesh of sharding {mesh} passed to {api_name}"
        )
    return sharding


__all__ = ["UNSPECIFIED", "UnspecifiedValue", "canonicalize_sharding"]
