"""A table of all devices, and of the runtimes that do not work here with the reason why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, overload

from xpr.runtimes import registry
from xpr.runtimes.base import Device

# IREE's errors begin with the place in its own source.
_IREE_PREFIX = re.compile(r"Error creating driver: \S+: ")
_UNITS = ("B", "kB", "MB", "GB", "TB")


@overload
def print_devices(return_string: Literal[False] = False) -> None: ...
@overload
def print_devices(return_string: Literal[True]) -> str: ...
def print_devices(return_string: bool = False) -> str | None:
    """Prints, or returns, a table of the devices of every runtime: kind, memory and features.

    It starts each runtime. One that does not work on this machine has a line with the reason. The
    star marks the device that work goes to when nothing else is said. Devices of other processes
    have a line for each process.

    >>> import xpr
    >>> "cpu:0" in xpr.print_devices(return_string=True)
    True
    """
    text = _aligned([("device", "kind", "memory", "features"), *rows()])
    if return_string:
        return text
    print(text)
    return None


def rows() -> list[tuple[str, str, str, str]]:
    """The lines of the table: device, kind, memory in use, and features or the reason."""
    default = registry.first_device()
    working = registry.backends()
    reasons = registry.failures()
    found = []
    for name in registry.known():
        if name in working:
            for device in working[name].devices():
                star = "*" if device is default else ""
                found.append(
                    (f"{device}{star}", device.device_kind, _memory(device), device.features())
                )
            found += _elsewhere(name)
        else:
            reason = _IREE_PREFIX.sub("", reasons[name].splitlines()[0])
            found.append((name, "-", "-", f"unusable: {reason}"))
    return found


def _elsewhere(name: str) -> list[tuple[str, str, str, str]]:
    """A line for each other process that has devices of the runtime."""
    others: dict[int, list[Device]] = {}
    for device in registry.devices(name):
        if device.process_index != registry.this_process():
            others.setdefault(device.process_index, []).append(device)
    found = []
    for process, devices in others.items():
        last = f"-{devices[-1].id}" if len(devices) > 1 else ""
        kinds = ", ".join(dict.fromkeys(d.device_kind for d in devices))
        found.append((f"{devices[0]}{last}", kinds, "-", f"in process {process}"))
    return found


def _memory(device: Device) -> str:
    stats = device.memory_stats() or {}
    parts = []
    if "bytes_in_use" in stats:
        parts.append(f"{_bytes(stats['bytes_in_use'])} used")
    if "bytes_limit" in stats:
        parts.append(f"of {_bytes(stats['bytes_limit'])}")
    return " ".join(parts) or "unknown"


def _bytes(count: float) -> str:
    """A number of bytes with three digits, in the units of the SI."""
    for unit in _UNITS[:-1]:
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} {_UNITS[-1]}"


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
