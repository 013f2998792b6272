"""What every sharding can tell, derived from which part of each axis each device holds."""

from __future__ import annotations

import functools
import math
from typing import Any

from xpr.runtimes import registry
from xpr.runtimes.base import Device
from xpr.runtimes.memories import kinds_of, unknown_kind

Shape = tuple[int, ...]
Index = tuple[slice, ...]
"""The part of an array that a device holds, a slice for each axis."""


class IndivisibleError(ValueError):
    """An axis is spread over a number of devices that does not divide its size.

    >>> import xpr
    >>> issubclass(xpr.sharding.IndivisibleError, ValueError)
    True
    """


class Sharding:
    """How an array is spread over devices.

    A subclass says in which order it uses its devices (`_device_assignment`), into how many parts
    each axis is cut (`shard_counts`) and which of them each device holds (`shard_positions`).

    >>> import xpr, xpr.numpy as jnp
    >>> sharding = jnp.ones(2).sharding
    >>> isinstance(sharding, xpr.sharding.Sharding), sharding.is_fully_replicated
    (True, True)
    """

    __slots__ = ("__weakref__",)

    @property
    def _device_assignment(self) -> tuple[Device, ...]:
        raise NotImplementedError(f"{type(self).__name__} must say which devices it uses")

    def shard_counts(self, ndim: int) -> tuple[int, ...]:
        """Into how many parts each axis of an array of `ndim` axes is cut."""
        raise NotImplementedError(f"{type(self).__name__} must say how it cuts arrays")

    def shard_positions(self, ndim: int) -> tuple[tuple[int, ...], ...]:
        """For each device, in order, the number of the part that it holds along each axis."""
        raise NotImplementedError(f"{type(self).__name__} must say which parts devices hold")

    @property
    def memory_kind(self) -> str | None:
        """The kind of memory that holds the array; None where no devices are known."""
        return "device"

    @property
    def device_set(self) -> set[Device]:
        """The devices that hold a part of the array."""
        return set(self._device_assignment)

    @property
    def num_devices(self) -> int:
        """How many devices hold a part of the array."""
        return len(self._device_assignment)

    @property
    def addressable_devices(self) -> set[Device]:
        """The devices that belong to this process."""
        return set(self.local_assignment)

    @property
    def local_assignment(self) -> tuple[Device, ...]:
        """The devices that belong to this process, in order."""
        mine = registry.this_process()
        return tuple(d for d in self._device_assignment if d.process_index == mine)

    @property
    def _addressable_device_assignment(self) -> tuple[Device, ...]:
        """As `local_assignment`, by the name under which orbax asks JAX for it."""
        return self.local_assignment

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process can reach all the devices."""
        return len(self.local_assignment) == self.num_devices

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole array."""
        raise NotImplementedError(f"{type(self).__name__} must say whether it replicates")

    def check_compatible_aval(self, aval_shape: Shape) -> None:
        """Raises ValueError when arrays of that rank cannot be spread in this way."""

    def shard_shape(self, global_shape: Shape) -> Shape:
        """The shape of each device's part.

        Raises ValueError for too small a rank, and when the parts of an axis would be uneven.
        """
        self.check_compatible_aval(global_shape)
        counts = self.shard_counts(len(global_shape))
        for axis, (size, count) in enumerate(zip(global_shape, counts, strict=True)):
            if size % count:
                raise IndivisibleError(
                    f"Sharding {self} implies that array axis {axis} is partitioned {count} "
                    f"times, but the dimension size is {size} (full shape: {tuple(global_shape)}, "
                    f"per-dimension tiling factors: {list(counts)} should evenly divide the shape)"
                )
        return tuple(size // count for size, count in zip(global_shape, counts, strict=True))

    def shard_indices(self, global_shape: Shape) -> tuple[Index, ...]:
        """The part that each device holds, in order."""
        return _indices(self, tuple(global_shape))

    def devices_indices_map(self, global_shape: Shape) -> dict[Device, Index]:
        """The part of the array that each device holds."""
        return dict(zip(self._device_assignment, self.shard_indices(global_shape), strict=True))

    def addressable_devices_indices_map(self, global_shape: Shape) -> dict[Device, Index | None]:
        """The part of the array that each device of this process holds."""
        mine = registry.this_process()
        found = self.devices_indices_map(global_shape)
        return {d: index for d, index in found.items() if d.process_index == mine}

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether `other` puts an array of `ndim` axes in the same places."""
        return (
            self.num_devices == other.num_devices
            and self.memory_kind == other.memory_kind
            and self.shard_counts(ndim) == other.shard_counts(ndim)
            and self.shard_positions(ndim) == other.shard_positions(ndim)
            and self._device_assignment == other._device_assignment
        )

    def with_memory_kind(self, kind: str) -> Sharding:
        """The same places in memory of another kind."""
        raise NotImplementedError(f"{type(self).__name__} must say how its memory is replaced")


@functools.lru_cache(maxsize=1024)
def _indices(sharding: Sharding, shape: Shape) -> tuple[Index, ...]:
    part = sharding.shard_shape(shape)
    counts = sharding.shard_counts(len(shape))
    return tuple(
        tuple(
            slice(None) if count == 1 else slice(i * size, (i + 1) * size)
            for i, size, count in zip(position, part, counts, strict=True)
        )
        for position in sharding.shard_positions(len(shape))
    )


def number_of_parts(sharding: Sharding, ndim: int) -> int:
    """How many different parts an array of `ndim` axes is cut into."""
    return math.prod(sharding.shard_counts(ndim))


def replica_ids(sharding: Sharding, ndim: int) -> tuple[int, ...]:
    """For each device, in order, how many devices before it hold the same part."""
    seen: dict[tuple[int, ...], int] = {}
    found = []
    for position in sharding.shard_positions(ndim):
        count = seen.get(position, 0)
        seen[position] = count + 1
        found.append(count)
    return tuple(found)


def check_memory_kind(kind: str | None, platform: str) -> None:
    """Raises ValueError for a kind of memory that the devices do not have."""
    if kind is not None and kind not in kinds_of(platform):
        raise ValueError(unknown_kind(kind, platform))


class Shard:
    """The part of an array that one device holds.

    >>> import xpr.numpy as jnp
    >>> shard = jnp.arange(3).addressable_shards[0]
    >>> shard.index, shard.replica_id
    ((slice(None, None, None),), 0)
    >>> shard.data
    Array([0, 1, 2], dtype=int32)
    """

    __slots__ = ("data", "device", "index", "replica_id")

    def __init__(self, device: Device, index: Index, replica_id: int, data: Any) -> None:
        self.device = device
        self.index = index
        self.replica_id = replica_id
        self.data = data

    def __repr__(self) -> str:
        return (
            f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, "
            f"data={self.data})"
        )
