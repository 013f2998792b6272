"""The device, or the mesh, of work that no array commits to another."""

from __future__ import annotations

from typing import Any

from xpr.core.config import on_update, state
from xpr.runtimes import registry
from xpr.runtimes.base import Device
from xpr.runtimes.remote import refuse

_default: Device | None = None


def default_device() -> Device:
    """The device of uncommitted work: `config.default_device`, else the first device."""
    global _default
    chosen = state.default_device
    if chosen is None:
        if _default is None:
            _default = registry.first_device()
        return _default
    if isinstance(chosen, str):
        return registry.first_device(chosen)
    if chosen.process_index != registry.this_process():
        refuse(chosen, "be the default device of this process")
    return chosen


def mesh_of_work() -> Any:
    """The mesh of `set_mesh`, on which work outside of programs is done; None without any."""
    meshes = state.meshes
    return None if meshes is None else meshes.concrete


def forget_default_device() -> None:
    """Makes the next call of `default_device` ask the registry again."""
    global _default
    _default = None


def _set_num_cpu_devices(n: int) -> None:
    registry.set_num_cpu_devices(n)
    forget_default_device()


on_update("num_cpu_devices", _set_num_cpu_devices)
