"""What NVIDIA GPUs are, asked of their driver, and the code that is compiled for them.

The functions and constants are those of the CUDA driver API, chapters "Device Management" and
"Version Management".
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import byref, c_char, c_int, c_size_t
from dataclasses import dataclass
from typing import Any

_LIBRARIES = {"win32": "nvcuda.dll"}

_ATTRIBUTE_MAJOR, _ATTRIBUTE_MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*

ARCHITECTURES = {60: 11_060, 75: 11_060, 80: 11_060, 86: 11_060, 89: 12_040}
"""The architectures that IREE 3.13 has a description of (80 is sm_80), and the version of CUDA, as
`cuDriverGetVersion` gives it, from which on a driver reads the PTX that IREE writes for them: 7.6,
and 8.4 for sm_89. A driver translates PTX for any later architecture as well."""


def compiled_for(architecture: int, driver: int | None = None) -> str:
    """The newest architecture that IREE knows and that such a GPU and driver run.

    Without `driver` any is taken for new enough. Raises ValueError where there is none.

    >>> compiled_for(90), compiled_for(90, 12_000), compiled_for(75)
    ('sm_89', 'sm_86', 'sm_75')
    """
    known = [n for n in ARCHITECTURES if n <= architecture]
    if not known:
        raise ValueError(
            f"CUDA programs are compiled for GPUs from sm_{min(ARCHITECTURES)} on, and this one is "
            f"sm_{architecture}"
        )
    read = [n for n in known if driver is None or driver >= ARCHITECTURES[n]]
    if not read:
        least = _version(ARCHITECTURES[known[0]])
        raise ValueError(
            f"the driver is one of CUDA {_version(driver or 0)}, and compiled programs need one of "
            f"CUDA {least} or later"
        )
    return f"sm_{read[-1]}"


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


@dataclass(frozen=True)
class CudaCapabilities:
    """What programs for a device go by: two devices that agree in it run the same modules."""

    compiled_for: str


@dataclass(frozen=True)
class CudaFeatures:
    """One device, as the driver describes it."""

    architecture: int
    """The compute capability: 90 is sm_90."""

    memory: int
    """Bytes of the device's memory; 0 where the driver did not tell."""

    driver: int | None
    """The newest version of CUDA that the driver knows: 12040 is 12.4."""

    @property
    def capabilities(self) -> CudaCapabilities:
        """What programs go by. Raises ValueError for a device that no program is compiled for."""
        return CudaCapabilities(compiled_for(self.architecture, self.driver))

    def words(self) -> str:
        """The architecture, and the one that programs are compiled for where that is another."""
        here, there = f"sm_{self.architecture}", self.capabilities.compiled_for
        if here == there:
            return here
        known = f"sm_{max(n for n in ARCHITECTURES if n <= self.architecture)}"
        if there == known:
            return f"{here}, programs are compiled for {there}, the newest that the compiler knows"
        return (
            f"{here}, programs are compiled for {there}, the newest that a driver of CUDA "
            f"{_version(self.driver or 0)} reads"
        )


def query(driver: Any = None) -> dict[str, CudaFeatures]:
    """The devices by their UUIDs (32 hexadecimal digits); RuntimeError where the driver fails."""
    if driver is None:
        name = _LIBRARIES.get(sys.platform, "libcuda.so.1")
        try:
            driver = ctypes.CDLL(name)
        except OSError as error:
            raise RuntimeError(f"the CUDA driver {name} cannot be loaded: {error}") from error
    _check("cuInit", driver.cuInit(0))
    version, count = c_int(), c_int()
    _check("cuDriverGetVersion", driver.cuDriverGetVersion(byref(version)))
    _check("cuDeviceGetCount", driver.cuDeviceGetCount(byref(count)))
    found = {}
    for index in range(count.value):
        device, major, minor, memory = c_int(), c_int(), c_int(), c_size_t()
        uuid = (c_char * 16)()
        _check("cuDeviceGet", driver.cuDeviceGet(byref(device), index))
        for value, attribute in ((major, _ATTRIBUTE_MAJOR), (minor, _ATTRIBUTE_MINOR)):
            ask = driver.cuDeviceGetAttribute
            _check("cuDeviceGetAttribute", ask(byref(value), attribute, device))
        _check("cuDeviceTotalMem", driver.cuDeviceTotalMem_v2(byref(memory), device))
        _check("cuDeviceGetUuid", driver.cuDeviceGetUuid(byref(uuid), device))
        architecture = 10 * major.value + minor.value
        found[bytes(uuid).hex()] = CudaFeatures(architecture, memory.value, version.value)
    return found


def _check(call: str, result: int) -> None:
    if result != 0:
        raise RuntimeError(f"{call} failed with CUresult {result}")
