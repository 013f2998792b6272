"""Which device work runs on: the default device, committed arrays, and moves between devices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xpr.core.config import on_update, state
from xpr.dispatch.array import ArrayImpl, array_from_host
from xpr.runtimes import registry
from xpr.runtimes.base import Device

_default: Device | None = None


def default_device() -> Device:
    """The device of uncommitted work: `config.default_device`, else the first device."""
    global _default
    chosen = state.default_device
    if chosen is None:
        if _default is None:
            _default = registry.devices()[0]
        return _default
    return registry.devices(chosen)[0] if isinstance(chosen, str) else chosen


def forget_default_device() -> None:
    """Makes the next call of `default_device` ask the registry again."""
    global _default
    _default = None


def common_device(arrays: Iterable[Any]) -> tuple[Device, bool]:
    """The device that work on `arrays` runs on, and whether one of them committed it.

    Committed arrays decide. Raises ValueError, naming both devices, when two disagree.
    """
    chosen: Device | None = None
    for a in arrays:
        if type(a) is ArrayImpl and a._committed:
            device = a._buffers[0].device
            if chosen is None:
                chosen = device
            elif chosen is not device:
                raise ValueError(
                    "Received incompatible devices for one computation: got committed arrays on "
                    f"{chosen!r} and {device!r}. Move one of them with xpr.device_put(x, device)."
                )
    return (default_device(), False) if chosen is None else (chosen, True)


def to_device(x: ArrayImpl, device: Device, committed: bool) -> ArrayImpl:
    """`x` on `device`: itself when it is there already."""
    if x._buffers[0].device is device:
        return x if x._committed == committed else ArrayImpl(x.aval, x._buffers, committed)
    return array_from_host(x._value, x.aval, device, committed)


def _set_num_cpu_devices(n: int) -> None:
    registry.set_num_cpu_devices(n)
    forget_default_device()


on_update("num_cpu_devices", _set_num_cpu_devices)
