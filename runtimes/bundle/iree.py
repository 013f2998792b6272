"""The process's IREE: its instance, its drivers and devices, and its names for dtypes."""

from __future__ import annotations

import ctypes
import functools
import importlib
import sys
from typing import Any

import numpy as np

VULKAN_FLAGS = (
    "--vulkan_cached_bda_replay_instances=0",
    "--vulkan_retained_cached_bda_replay_instances=0",
)
"""For IREE's driver. What it records of a program, to submit it again with other buffers, it
submits with the earlier ones: loops that update an array in place lose updates."""


DRIVERS = {"vulkan": "vulkan", "cuda": "cuda", "rocm": "hip", "metal": "metal"}


# The integers that carry types which NumPy and IREE have no common name for.
_CARRIED = {
    "bfloat16": ("uint16", "BFLOAT_16"),
    "float8_e4m3fn": ("uint8", "FLOAT_8_E4M3_FN"),
    "float8_e4m3fnuz": ("uint8", "FLOAT_8_E4M3_FNUZ"),
    "float8_e5m2": ("uint8", "FLOAT_8_E5M2"),
    "float8_e5m2fnuz": ("uint8", "FLOAT_8_E5M2_FNUZ"),
    "float8_e8m0fnu": ("uint8", "FLOAT_8_E8M0_FNU"),
    "float4_e2m1fn": ("uint8", "UINT_8"),
    "float8_e3m4": ("uint8", "UINT_8"),
    "float8_e4m3": ("uint8", "UINT_8"),
    "float8_e4m3b11fnuz": ("uint8", "UINT_8"),
    "int2": ("int8", "SINT_8"),
    "int4": ("int8", "SINT_8"),
    "uint2": ("uint8", "UINT_8"),
    "uint4": ("uint8", "UINT_8"),
}
_KINDS = {"b": "BOOL", "i": "SINT", "u": "UINT", "f": "FLOAT", "c": "COMPLEX"}


def iree_version() -> str:
    """The version of the IREE runtime that is installed."""
    version = importlib.import_module("iree.runtime.version")
    return str(getattr(version, "VERSION", None) or getattr(version, "PACKAGE_VERSION", ""))


class _Iree:
    """The process's IREE instance and its devices, which live until the process ends."""

    def __init__(self) -> None:
        self.rt: Any = importlib.import_module("iree.runtime")
        binding: Any = importlib.import_module("iree.runtime._binding")
        shared = sys.modules.get("xpr.runtimes.hal")
        # A second instance in one process would end it: in a process of xpr's, use its own.
        if shared is not None:
            self.instance = shared.start().instance
        else:
            binding.disable_leak_checker()
            self.instance = self.rt.VmInstance()
        self.create_driver = binding.create_hal_driver
        self.pack = binding.ArgumentPacker(binding._invoke_statics, None).pack
        self.InvokeContext = binding.InvokeContext
        self._drivers: dict[str, Any] = {}
        self._devices: dict[str, tuple[Any, Any]] = {}
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def driver(self, name: str) -> Any:
        """One of IREE's drivers; RuntimeError or ValueError if it does not work here."""
        found = self._drivers.get(name)
        if found is None:
            if name == "vulkan":
                self.rt.flags.parse_flags(*VULKAN_FLAGS)
            found = self._drivers[name] = self.create_driver(name)
        return found

    def first_device(self, name: str) -> Any:
        """The number by which a driver knows its first device; RuntimeError if it has none."""
        devices = self.driver(name).query_available_devices()
        if not devices:
            raise RuntimeError(f"the driver {name} finds no device")
        return devices[0]["device_id"]

    def device(self, name: str) -> tuple[Any, Any]:
        """The first device of a driver, and the module bound to it."""
        found = self._devices.get(name)
        if found is None:
            found = self._devices[name] = self._shared_device(name) or self._open_device(name)
        return found

    def _shared_device(self, name: str) -> tuple[Any, Any] | None:
        """In a process of xpr's, the GPU that it has opened, or opens now, with this driver."""
        registry = sys.modules.get("xpr.runtimes.registry")
        runtime = next((r for r, driver in DRIVERS.items() if driver == name), None)
        if registry is None or runtime is None:
            return None
        try:
            return registry.devices(runtime)[0].hal_device()
        except RuntimeError:
            return None  # xpr is not to use it here; the loader may

    def _open_device(self, name: str) -> tuple[Any, Any]:
        made = self.driver(name)
        device = (
            made.create_default_device()
            if name.startswith("local")
            else made.create_device(self.first_device(name))
        )
        return device, self.rt.create_hal_module(self.instance, device)

    @functools.cache  # noqa: B019  there is one such object
    def element_type(self, dtype: np.dtype[Any]) -> tuple[int, str | None]:
        """IREE's number for a dtype, and the type that carries it where NumPy has no name."""
        carried = _CARRIED.get(dtype.name)
        name = carried[1] if carried else f"{_KINDS[dtype.kind]}_{8 * dtype.itemsize}"
        return int(getattr(self.rt.HalElementType, name)), carried[0] if carried else None


iree = functools.cache(_Iree)


def tell_of_gpu(runtime: str) -> str:
    """What IREE tells about the GPU that this process uses for a runtime."""
    found, name = iree(), DRIVERS[runtime]
    return str(found.driver(name).dump_device_info(found.first_device(name)))
