"""The error of a device without enough memory: how much was asked for, and what holds the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xpr.core.errors import OutOfMemoryError
from xpr.core.jaxpr import Jaxpr
from xpr.runtimes import exhausted
from xpr.runtimes.base import Device

_SHOWN = 3
_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def error_of(shortage: exhausted.Shortage) -> BaseException:
    """The error, as JAX words it, and what helps to make room."""
    device, program = shortage.device, shortage.executable
    lines = ["RESOURCE_EXHAUSTED: Out of memory"]
    if shortage.nbytes is not None:
        lines[0] += f" allocating {shortage.nbytes} bytes"
    lines[0] += "."
    where = "" if device is None else f" on {device.platform}:{device.id}"
    if program is not None:
        lines.append(f"The program {program.name} asked for memory{where}.")
        if program.values is not None and (values := program.values()):
            lines.append(f"Its largest arrays: {'; '.join(values)}.")
    elif device is not None:
        lines.append(f"It was asked for{where}.")
    if device is not None:
        lines += [*_in_use(device), *_live(device)]
    if shortage.nbytes is None:
        lines.append(f"The device says: {shortage.said.splitlines()[0]}")
    return OutOfMemoryError("\n".join(lines))


def _in_use(device: Device) -> Iterator[str]:
    stats = device.memory_stats() or {}
    if "bytes_in_use" in stats:
        limit = f" of {amount(stats['bytes_limit'])}" if stats.get("bytes_limit") else ""
        yield f"Arrays hold {amount(stats['bytes_in_use'])}{limit}."


def _live(device: Device) -> Iterator[str]:
    """The largest arrays that the process holds on the device."""
    # It asks the garbage collector for all objects, which only an error is worth.
    from xpr.dispatch.inspection import live_arrays  # noqa: PLC0415

    held = [a for a in live_arrays(device.runtime.name) if _is_on(a, device)]
    largest = sorted(held, key=lambda a: -a.nbytes)[:_SHOWN]
    if largest:
        shown = "; ".join(f"{a.aval.str_short()} ({amount(a.nbytes)})" for a in largest)
        yield f"The largest of the {len(held)} arrays that the process holds there: {shown}."


def _is_on(array: Any, device: Device) -> bool:
    return any(buffer.device is device for buffer in array._buffers)


def amount(nbytes: float) -> str:
    """A number of bytes with three digits.

    >>> amount(360_000_000_000), amount(12)
    ('360 GB', '12 bytes')
    """
    for unit in _UNITS[:-1]:
        if nbytes < 1000:
            return f"{nbytes:.3g} {unit}"
        nbytes /= 1000
    return f"{nbytes:.3g} {_UNITS[-1]}"


def largest_values(jaxpr: Jaxpr) -> list[str]:
    """The largest arrays that a program names, with the lines of those that it computes.

    A compiled program does not make all of them: operations that are fused leave none behind.
    """
    found = {v: "an argument" for v in (*jaxpr.constvars, *jaxpr.invars)}
    for eqn in jaxpr.eqns:
        found |= dict.fromkeys(eqn.outvars, f"{eqn.primitive.name} at {eqn.source_info}")
    largest = sorted(found, key=lambda v: -v.aval.nbytes)[:_SHOWN]
    return [f"{v.aval.str_short()} ({amount(v.aval.nbytes)}, {found[v]})" for v in largest]
