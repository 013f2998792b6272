"""Which device work runs on: that of committed arrays; and moves between devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.dispatch.array import ArrayImpl, array_from_host
from xpr.dispatch.default_device import default_device
from xpr.runtimes.base import Device
from xpr.sharding import NamedSharding


def common_device(
    arrays: Sequence[Any], name: str = "the computation", labels: Sequence[str] | None = None
) -> tuple[Device, bool]:
    """The device that work on `arrays` runs on, and whether one of them committed it.

    Committed arrays decide. Raises ValueError, naming both arrays and devices, when two disagree;
    `name` is the function's for that message, `labels` are the arrays'.
    """
    first = -1
    chosen: Device | None = None
    for i, a in enumerate(arrays):
        if type(a) is ArrayImpl and a._committed:
            device = a._buffers[0].device
            if chosen is None:
                first, chosen = i, device
            elif chosen is not device:
                found = [_argument(arrays[k], labels[k] if labels else k, name) for k in (first, i)]
                raise incompatible(*found)
    return (default_device(), False) if chosen is None else (chosen, True)


def _argument(x: ArrayImpl, label: Any, name: str) -> str:
    shape = x.aval.strip_weak_type()
    return f"argument {label} of {name} with shape {shape} and {where(x.device)}"


def where(device: Device) -> str:
    """A device as messages about placement name it."""
    return f"with device ids [{device.id}] on platform {device.platform.upper()}"


def incompatible(first: str, second: str) -> ValueError:
    """The error for one computation that two devices would have to do."""
    return ValueError(
        f"Received incompatible devices for jitted computation. Got {first} and {second}. Move one "
        "of them with xpr.device_put(x, device)."
    )


def committed(x: Any) -> Any:
    """An array of xpr as one that belongs to its device; anything else as it is."""
    if type(x) is not ArrayImpl or x._committed:
        return x
    return ArrayImpl(x.aval, x._buffers, True, x._sharding)


def to_device(x: ArrayImpl, device: Device, committed: bool) -> ArrayImpl:
    """The whole of `x` on `device`: itself, or over the same memory, when it is there already."""
    plain = type(x._sharding) is not NamedSharding  # a mesh of one device is no device
    aval = x.aval if plain else x.aval.update(sharding=None)
    if type(x) is ArrayImpl and x._buffers[0].device is device:
        if plain and x._committed == committed:
            return x
        # To donate or delete one of the two leaves the other as it is.
        return ArrayImpl(aval, (x._buffers[0].alias(),), committed)
    return array_from_host(x._value, aval, device, committed)
