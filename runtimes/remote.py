"""Devices of other processes: they can be named in meshes, and hold nothing that is read here."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from xpr.runtimes.base import Buffer, Device, Executable, ExecutableSignature, Runtime


class RemoteRuntime(Runtime):
    """The part of a runtime that is in other processes."""

    def __init__(
        self, local: Runtime, others: dict[int, tuple[int, list[tuple[int, str]]]]
    ) -> None:
        """`others`: of each other process its first id, and its devices' numbers and kinds."""
        # What the class of every other runtime says is known of one that stands for it.
        self.name = local.name  # pyright: ignore[reportAttributeAccessIssue]
        self.platform = local.platform  # pyright: ignore[reportAttributeAccessIssue]
        self.target = local.target  # pyright: ignore[reportAttributeAccessIssue]
        self.is_host = local.is_host  # pyright: ignore[reportAttributeAccessIssue]
        self.priority = local.priority
        self._devices = tuple(
            RemoteDevice(self, first + i, kind, process, number)
            for process, (first, found) in others.items()
            for i, (number, kind) in enumerate(found)
        )

    def devices(self) -> tuple[Device, ...]:
        return self._devices

    def buffer_from_host(
        self, array: np.ndarray[Any, Any], device: Device, *, copy: bool
    ) -> Buffer:
        del array, copy
        refuse(device, "hold an array of this process")

    def load(self, program: Any, signature: ExecutableSignature, device: Device) -> Executable:
        del program, signature
        refuse(device, "run a program of this process")


class RemoteDevice(Device):
    """A device of another process."""

    def __init__(
        self, runtime: RemoteRuntime, id: int, device_kind: str, process_index: int, number: int
    ) -> None:
        super().__init__(runtime, id, device_kind, process_index)
        self._number = number


def refuse(device: Device, what: str) -> NoReturn:
    """Raises ValueError for the use of a device that another process has."""
    raise ValueError(
        f"{device!r} belongs to process {device.process_index} and cannot {what}: use one of "
        "xpr.local_devices(), or a sharding over the devices of all processes"
    )
