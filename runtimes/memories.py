"""Kinds of memory that a device can reach, under JAX's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

HOST_KINDS = ("pinned_host", "unpinned_host")
"""Memory of the host beside that of the device; on the CPU a name that arrays carry."""


def kinds_of(platform: str) -> tuple[str, ...]:
    """The kinds of memory of devices of that platform; the default comes first.

    >>> kinds_of("cpu")
    ('device', 'pinned_host', 'unpinned_host')
    """
    return ("device", *(HOST_KINDS if platform == "cpu" else HOST_KINDS[:1]))


def unknown_kind(kind: object, platform: str) -> str:
    """What to say of a kind of memory that the devices lack."""
    return (
        f"Could not find memory addressable by device {platform}. Device {platform} can "
        f"address the following memory kinds: {', '.join(kinds_of(platform))}. Got memory kind: "
        f"{kind}"
    )


class Memory:
    """A memory that a device reaches; compared by identity of the device, and by kind."""

    __slots__ = ("_device", "kind")

    def __init__(self, device: Any, kind: str) -> None:
        self._device = device
        self.kind = kind

    @property
    def platform(self) -> str:
        return self._device.platform

    @property
    def process_index(self) -> int:
        return self._device.process_index

    def addressable_by_devices(self) -> list[Any]:
        """The devices that reach it."""
        return [self._device]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Memory) and other._device is self._device and other.kind == self.kind
        )

    def __hash__(self) -> int:
        return hash((self._device, self.kind))

    def __repr__(self) -> str:
        kinds: Sequence[str] = kinds_of(self.platform)
        number = self._device.id * len(kinds) + kinds.index(self.kind)
        place = f"{self.platform}_DEVICE" if self.kind == "device" else self.kind
        return f"{place.upper()}_{number}"
