"""The sharding of every array that lives on a single device."""

from __future__ import annotations

from xpr.runtimes.base import Device
from xpr.sharding.base import Index, Shape, Sharding, check_memory_kind


class SingleDeviceSharding(Sharding):
    """The whole array on one device.

    >>> import xpr, xpr.numpy as jnp
    >>> place = SingleDeviceSharding(xpr.devices("cpu")[0])
    >>> xpr.device_put(jnp.ones(2), place).sharding == place
    True
    """

    __slots__ = ("_device", "_memory_kind")

    def __init__(self, device: Device, *, memory_kind: str | None = None) -> None:
        if not isinstance(device, Device):
            raise TypeError(f"SingleDeviceSharding takes a device, got {type(device).__name__}")
        check_memory_kind(memory_kind, device.platform)
        self._device = device
        self._memory_kind = memory_kind or "device"

    @property
    def _device_assignment(self) -> tuple[Device, ...]:
        return (self._device,)

    @property
    def device_set(self) -> set[Device]:
        return {self._device}

    @property
    def memory_kind(self) -> str | None:
        return self._memory_kind

    @property
    def num_devices(self) -> int:
        return 1

    @property
    def is_fully_replicated(self) -> bool:
        return True

    def shard_counts(self, ndim: int) -> tuple[int, ...]:
        return (1,) * ndim

    def shard_positions(self, ndim: int) -> tuple[tuple[int, ...], ...]:
        return ((0,) * ndim,)

    def shard_shape(self, global_shape: Shape) -> Shape:
        """The shape of each device's part: the whole."""
        return global_shape

    def shard_indices(self, global_shape: Shape) -> tuple[Index, ...]:
        return ((slice(None),) * len(global_shape),)

    def with_memory_kind(self, kind: str) -> SingleDeviceSharding:
        """The same device's memory of another kind."""
        return SingleDeviceSharding(self._device, memory_kind=kind)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, SingleDeviceSharding)
            and other._device is self._device
            and other._memory_kind == self._memory_kind
        )

    def __hash__(self) -> int:
        return hash(self._device)

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self._device!r}, memory_kind={self._memory_kind})"


def make_single_device_sharding(
    device: Device, *, memory_kind: str | None = None
) -> SingleDeviceSharding:
    """The sharding that puts the whole of an array on `device`.

    >>> import xpr
    >>> from xpr.sharding import make_single_device_sharding
    >>> sharding = make_single_device_sharding(xpr.devices()[0])
    >>> sharding.device_set == {xpr.devices()[0]}
    True
    """
    return SingleDeviceSharding(device, memory_kind=memory_kind)
