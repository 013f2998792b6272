"""Shardings, and the one that every array has that lives on a single device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xpr.runtimes.base import Device


class Sharding:
    """How an array is spread over devices."""

    __slots__ = ()

    @property
    def device_set(self) -> set[Device]:
        """The devices that hold a part of the array."""
        raise NotImplementedError(f"{type(self).__name__} must say which devices it uses")

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole array."""
        raise NotImplementedError(f"{type(self).__name__} must say whether it replicates")

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process can reach all the devices."""
        return all(d.process_index == 0 for d in self.device_set)

    @property
    def addressable_devices(self) -> set[Device]:
        """The devices that this process can reach."""
        return self.device_set

    @property
    def num_devices(self) -> int:
        return len(self.device_set)


class SingleDeviceSharding(Sharding):
    """The whole array on one device.

    >>> import xpr, xpr.numpy as jnp
    >>> place = SingleDeviceSharding(xpr.devices("cpu")[0])
    >>> xpr.device_put(jnp.ones(2), place).sharding == place
    True
    """

    __slots__ = ("_device",)

    def __init__(self, device: Device, *, memory_kind: str | None = None) -> None:
        if not isinstance(device, Device):
            raise TypeError(f"SingleDeviceSharding takes a device, got {type(device).__name__}")
        if memory_kind not in (None, "device"):
            raise NotImplementedError(
                f"arrays live in the memory kind 'device' only, got {memory_kind!r}"
            )
        self._device = device

    @property
    def memory_kind(self) -> str:
        """The kind of memory that holds the array: always the device's own."""
        return "device"

    @property
    def device_set(self) -> set[Device]:
        return {self._device}

    @property
    def is_fully_replicated(self) -> bool:
        return True

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of each device's part: the whole."""
        return global_shape

    def devices_indices_map(self, global_shape: tuple[int, ...]) -> dict[Device, tuple[slice, ...]]:
        """Which part of the array each device holds."""
        return {self._device: (slice(None),) * len(global_shape)}

    def addressable_devices_indices_map(
        self, global_shape: tuple[int, ...]
    ) -> dict[Device, tuple[slice, ...]]:
        """Which part of the array each device of this process holds."""
        return self.devices_indices_map(global_shape)

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether `other` puts an array of `ndim` axes in the same places."""
        return other.device_set == self.device_set

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SingleDeviceSharding) and other._device is self._device

    def __hash__(self) -> int:
        return hash(self._device)

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self._device!r}, memory_kind=device)"


def make_single_device_sharding(
    device: Device, *, memory_kind: str | None = None
) -> SingleDeviceSharding:
    """The sharding that puts the whole of an array on `device`."""
    return SingleDeviceSharding(device, memory_kind=memory_kind)


@dataclass(frozen=True)
class Shard:
    """The part of an array that one device holds."""

    device: Device
    index: tuple[slice, ...]
    replica_id: int
    data: Any
