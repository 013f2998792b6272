"""What this machine is, and which of a bundle's modules it can run."""

from __future__ import annotations

import ctypes
import functools
import platform as host_platform
import re
import sys
from collections.abc import Callable
from typing import Any

from xpr.runtimes.bundle.errors import BundleTargetError, BundleVersionError
from xpr.runtimes.bundle.iree import DRIVERS, iree_version, tell_of_gpu

_ARCHITECTURES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}


def host_architecture() -> str:
    """The architecture of this machine, as the first word of a target triple."""
    name = host_platform.machine().lower()
    return _ARCHITECTURES.get(name, name)


@functools.cache
def host_features() -> frozenset[str] | None:
    """The instruction sets of this CPU as Linux names them; None where nothing tells them."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() in ("flags", "Features"):
                    return frozenset(value.split())
                if key.strip() == "isa":
                    return frozenset(value.strip().lower().split("_"))
    except OSError:
        pass
    return None


def _major(version: str) -> str:
    return str(version).partition(".")[0]


def _why_cpu_unfit(entry: dict[str, Any]) -> str | None:
    """Why this machine's CPU cannot run a module; None if nothing speaks against it."""
    here, wanted = host_architecture(), entry["architecture"]
    if here != wanted:
        return f"it is for the architecture {wanted}, and this machine is {here}"
    features = set(entry["features"])
    if not features:
        return None
    known = host_features()
    if known is None:
        return (
            f"it needs the CPU features {', '.join(sorted(features))}, and this system does not "
            "tell which ones there are (check_machine=False skips this check)"
        )
    missing = sorted(features - known)
    return f"it needs CPU features that are missing here: {', '.join(missing)}" if missing else None


# What modules for Vulkan may need of a device: under which name IREE tells of it, and, where it
# does not, the place of the flag in Vulkan's own list, VkPhysicalDeviceFeatures.
_VULKAN_TOLD = {
    "float16": "shaderFloat16",
    "int8": "shaderInt8",
    "storage16": "storageBuffer16BitAccess",
    "storage8": "storageBuffer8BitAccess",
}
_VULKAN_ASKED = {"float64": 39, "int64": 40, "int16": 41}
_VULKAN_LIBRARIES = {"win32": "vulkan-1.dll", "darwin": "libvulkan.1.dylib"}


def gpu_abilities(runtime: str, told: str) -> frozenset[str] | None:
    """What a module may need of a GPU, from the text that IREE's driver tells about it.

    That is the architecture for CUDA and ROCm, the types for Vulkan; None if nothing is known.
    """
    if runtime == "cuda":
        found = re.search(r"gpu-compute-capability: (\d+)\.(\d+)", told)
        return frozenset({f"sm_{found[1]}{found[2]}"}) if found else None
    if runtime == "rocm":
        found = re.search(r"gpu-arch-name: (\w+)", told)  # settings may follow behind a colon
        return frozenset({found[1]}) if found else None
    name = re.search(r"^name: (.*)$", told, re.MULTILINE)
    asked = _asked_of_vulkan(name[1]) if runtime == "vulkan" and name else None
    if asked is None:
        return None
    return asked | {key for key, flag in _VULKAN_TOLD.items() if f" {flag}=yes" in told}


def _asked_of_vulkan(device_name: str) -> frozenset[str] | None:
    """The types of 64 and 16 bits that a device computes with; None if Vulkan does not tell.

    The structures are those of Vulkan 1.0, as rows of 32-bit words.
    """
    try:
        vulkan: Any = ctypes.CDLL(_VULKAN_LIBRARIES.get(sys.platform, "libvulkan.so.1"))
    except OSError:
        return None
    instance, count = ctypes.c_void_p(), ctypes.c_uint32()
    info = (ctypes.c_uint32 * 16)(1)  # VkInstanceCreateInfo: its type, and nothing asked for
    if vulkan.vkCreateInstance(info, None, ctypes.byref(instance)) != 0:
        return None
    try:
        vulkan.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None)
        devices = (ctypes.c_void_p * count.value)()
        vulkan.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), devices)
        for device in map(ctypes.c_void_p, devices):
            properties, flags = ctypes.create_string_buffer(2048), (ctypes.c_uint32 * 64)()
            vulkan.vkGetPhysicalDeviceProperties(device, properties)
            if properties.raw[20:276].split(b"\0")[0].decode("utf-8", "replace") == device_name:
                vulkan.vkGetPhysicalDeviceFeatures(device, flags)
                return frozenset(key for key, place in _VULKAN_ASKED.items() if flags[place])
        return None
    finally:
        vulkan.vkDestroyInstance(instance, None)


def why_gpu_unfit(entry: dict[str, Any], abilities: frozenset[str] | None) -> str | None:
    """Why a GPU of these abilities cannot run a module; None if nothing speaks against it."""
    if abilities is None:
        return None
    if entry["runtime"] == "vulkan":
        missing = sorted(set(entry.get("needs", ())) - abilities)
        return f"it needs what this device lacks: {', '.join(missing)}" if missing else None
    (here,) = abilities
    if entry["runtime"] == "rocm":
        wanted = entry["architecture"]
        return None if here == wanted else f"it is for {wanted}, and this GPU is {here}"
    wanted = entry["compiled_for"]
    if int(here.removeprefix("sm_")) >= int(wanted.removeprefix("sm_")):
        return None
    return f"it is for GPUs from {wanted} on, and this one is {here}"


def _why_unfit(entry: dict[str, Any], tell: Callable[[str], str]) -> str | None:
    runtime = entry["runtime"]
    if runtime == "cpu":
        return _why_cpu_unfit(entry)
    if runtime not in DRIVERS:
        return None
    try:
        told = tell(runtime)
    except (RuntimeError, ValueError) as error:
        return f"{runtime} does not work here: {' '.join(str(error).split())}"
    return why_gpu_unfit(entry, gpu_abilities(runtime, told))


def choose_platform(
    manifest: dict[str, Any],
    platform: str | None,
    *,
    check_machine: bool = True,
    tell: Callable[[str], str] | None = None,
) -> str:
    """The key, in the manifest's table of platforms, of the module to run here.

    Without a name: the first module that fits this machine, those for CPUs before others.
    `tell` gives what IREE tells about the GPU of a runtime. Raises BundleTargetError with the
    reason for each module that does not fit.
    """
    table: dict[str, Any] = manifest["platforms"]
    names = [n for n, e in table.items() if platform in (None, n, e["runtime"])]
    if not names:
        raise BundleTargetError(
            f"the bundle has no module for the platform {platform!r}, only for {', '.join(table)}"
        )
    reasons = {}
    for name in sorted(names, key=lambda n: table[n]["runtime"] != "cpu"):
        reason = _why_unfit(table[name], tell or tell_of_gpu) if check_machine else None
        if reason is None:
            return name
        reasons[name] = reason
    said = "; ".join(f"the module {n!r}: {r}" for n, r in reasons.items())
    raise BundleTargetError(f"the bundle cannot run on this machine: {said}")


def check_versions(manifest: dict[str, Any]) -> None:
    """Raises BundleVersionError for a bundle of another major version of IREE."""
    made, here = manifest["iree"], iree_version()
    if _major(made) != _major(here):
        raise BundleVersionError(
            f"the bundle was compiled by IREE {made}, and the installed runtime is {here}: they "
            "must agree in the major version"
        )
