"""Meshes of the devices at hand: `make_mesh`, and grids of devices of one or many groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.runtimes import registry
from xpr.runtimes.base import Device
from xpr.sharding.mesh import AxisType, Mesh


def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Sequence[str],
    axis_types: tuple[AxisType, ...] | None = None,
    *,
    devices: Sequence[Device] | None = None,
) -> Mesh:
    """A mesh of that shape over `devices`, or over those of the default backend, as many as fit.

    Its axes are of type Explicit unless `axis_types` says otherwise. Raises ValueError when there
    are too few devices.

    >>> make_mesh((1, 1), ("x", "y"))
    Mesh(axis_sizes=(1, 1), axis_names=('x', 'y'), axis_types=(Explicit, Explicit))
    """
    here = registry.devices() if devices is None else list(devices)
    sizes = tuple(int(s) for s in axis_shapes)
    count = math.prod(sizes)
    if count > len(here):
        raise ValueError(
            f"Number of devices {len(here)} must be >= the product of mesh_shape {sizes}"
        )
    if axis_types is None:
        axis_types = (AxisType.Explicit,) * len(sizes)
    return Mesh(create_device_mesh(sizes, here[:count]), axis_names, axis_types)


def create_device_mesh(
    mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None,
    *,
    contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> np.ndarray[Any, Any]:
    """The devices as an array of that shape, row by row, for a `Mesh`.

    The two options are about networks of the shape of a torus; here they change nothing. Raises
    ValueError when the number of devices is not that of the shape.

    >>> import xpr
    >>> create_device_mesh((1, 1), xpr.devices("cpu")[:1])
    array([[CpuDevice(id=0)]], dtype=object)
    """
    del contiguous_submeshes, allow_split_physical_axes
    here = registry.devices() if devices is None else list(devices)
    sizes = tuple(int(s) for s in mesh_shape)
    if math.prod(sizes) != len(here):
        raise ValueError(
            f"Number of devices {len(here)} must equal the product of mesh_shape {sizes}"
        )
    grid = np.empty(len(here), object)
    grid[:] = here
    return grid.reshape(sizes)


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int],
    dcn_mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None,
    *,
    process_is_granule: bool = False,
    should_sort_granules_by_key: bool = True,
    allow_split_physical_axes: bool = False,
) -> np.ndarray[Any, Any]:
    """The devices of several groups with a slow network between them, as one array.

    Groups are processes with `process_is_granule`, otherwise devices with the same `slice_index`.
    Each group is a block of shape `mesh_shape`, and blocks stand in a grid of shape
    `dcn_mesh_shape`; the result's shape is the product of the two, axis by axis. Raises
    ValueError when the groups or their devices are too many or too few.

    >>> import xpr
    >>> here = xpr.devices("cpu")[:1]
    >>> create_hybrid_device_mesh((1, 1), (1, 1), here, process_is_granule=True)
    array([[CpuDevice(id=0)]], dtype=object)
    """
    del allow_split_physical_axes
    here = registry.devices() if devices is None else list(devices)
    attribute = "process_index" if process_is_granule else "slice_index"
    groups: dict[Any, list[Any]] = {}
    for device in here:
        if not hasattr(device, attribute):
            raise ValueError(
                f"Device {device} does not have attribute {attribute}. See `process_is_granule` "
                "option."
            )
        groups.setdefault(getattr(device, attribute), []).append(device)
    inner, outer = (tuple(int(s) for s in shape) for shape in (mesh_shape, dcn_mesh_shape))
    if len(inner) != len(outer):
        raise ValueError(
            f"mesh_shape and dcn_mesh_shape must have the same length, got {inner} and {outer}"
        )
    if math.prod(outer) != len(groups):
        raise ValueError(
            f"Number of slices {len(groups)} must equal the product of dcn_mesh_shape {outer}"
        )
    keys = sorted(groups) if should_sort_granules_by_key else list(groups)
    blocks = np.stack([create_device_mesh(inner, groups[k]) for k in keys])
    grid = blocks.reshape(outer + inner)
    rank = len(inner)
    order = [axis for i in range(rank) for axis in (i, rank + i)]
    return grid.transpose(order).reshape([o * i for o, i in zip(outer, inner, strict=True)])
