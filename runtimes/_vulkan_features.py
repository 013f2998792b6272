"""What Vulkan devices can do, asked of the Vulkan loader itself: IREE tells only a part of it.

The structures are those of the Vulkan 1.3 specification, of which the fields that matter are
named and the others are passed over.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, byref, c_char_p, c_uint8, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

_LIBRARIES = {"win32": "vulkan-1.dll", "darwin": "libvulkan.1.dylib"}
_VERSION_1_1 = (1 << 22) | (1 << 12)


@dataclass(frozen=True)
class VulkanCapabilities:
    """The types that a device computes with, and the limits of its workgroups."""

    types: frozenset[str]
    """Of float64, float16, int64, int16 and int8, those that shaders may use and store."""

    subgroup_size: int
    shared_memory: int
    """Bytes of memory that a workgroup shares."""

    max_invocations: int
    max_sizes: tuple[int, int, int]
    max_counts: tuple[int, int, int]


MINIMUM = VulkanCapabilities(frozenset(), 64, 16384, 128, (128, 128, 64), (65535, 65535, 65535))
"""What the specification guarantees of every device."""


class _ApplicationInfo(ctypes.Structure):
    _fields_ = (
        ("type", c_uint32),
        ("next", c_void_p),
        ("application", c_char_p),
        ("application_version", c_uint32),
        ("engine", c_char_p),
        ("engine_version", c_uint32),
        ("api_version", c_uint32),
    )


class _InstanceCreateInfo(ctypes.Structure):
    _fields_ = (
        ("type", c_uint32),
        ("next", c_void_p),
        ("flags", c_uint32),
        ("application", POINTER(_ApplicationInfo)),
        ("layer_count", c_uint32),
        ("layers", c_void_p),
        ("extension_count", c_uint32),
        ("extensions", c_void_p),
    )


class _Limits(ctypes.Structure):
    _fields_ = (
        ("images", c_uint32 * 11),
        ("granularity", c_uint64 * 2),
        ("descriptors_and_stages", c_uint32 * 38),
        ("shared_memory", c_uint32),
        ("counts", c_uint32 * 3),
        ("invocations", c_uint32),
        ("sizes", c_uint32 * 3),
        ("rest", c_uint8 * 256),
    )


class _Properties2(ctypes.Structure):
    _fields_ = (
        ("type", c_uint32),
        ("next", c_void_p),
        ("numbers", c_uint32 * 5),
        ("name", c_uint8 * 256),
        ("cache_uuid", c_uint8 * 16),
        ("limits", _Limits),
        ("sparse", c_uint32 * 5),
        ("spare", c_uint8 * 64),
    )


class _IDProperties(ctypes.Structure):
    _fields_ = (
        ("type", c_uint32),
        ("next", c_void_p),
        ("device_uuid", c_uint8 * 16),
        ("driver_uuid", c_uint8 * 16),
        ("luid", c_uint8 * 8),
        ("node_mask", c_uint32),
        ("luid_valid", c_uint32),
    )


class _SubgroupProperties(ctypes.Structure):
    _fields_ = (
        ("type", c_uint32),
        ("next", c_void_p),
        ("size", c_uint32),
        ("rest", c_uint32 * 3),
    )


class _Features2(ctypes.Structure):
    _fields_ = (
        ("type", c_uint32),
        ("next", c_void_p),
        ("before", c_uint32 * 39),
        ("float64", c_uint32),
        ("int64", c_uint32),
        ("int16", c_uint32),
        ("after", c_uint32 * 13),
    )


class _Flags(ctypes.Structure):
    """A structure of up to four features of an extension."""

    _fields_ = (("type", c_uint32), ("next", c_void_p), ("flags", c_uint32 * 4))


# The values of VkStructureType.
_TYPE_INSTANCE = 1
_TYPE_PROPERTIES2 = 1000059001
_TYPE_FEATURES2 = 1000059000
_TYPE_ID = 1000071004
_TYPE_SUBGROUP = 1000094000
_TYPE_FLOAT16_INT8 = 1000082000
_TYPE_STORAGE_8 = 1000177000
_TYPE_STORAGE_16 = 1000083000


def query() -> dict[str, VulkanCapabilities]:
    """The devices' capabilities by their UUIDs (32 hexadecimal digits); RuntimeError on failure."""
    name = _LIBRARIES.get(sys.platform, "libvulkan.so.1")
    try:
        vulkan = ctypes.CDLL(name)
    except OSError as error:
        raise RuntimeError(f"the Vulkan loader {name} cannot be loaded: {error}") from error
    application = _ApplicationInfo(type=0, application=b"xpr", api_version=_VERSION_1_1)
    info = _InstanceCreateInfo(type=_TYPE_INSTANCE, application=ctypes.pointer(application))
    instance = c_void_p()
    _check("vkCreateInstance", vulkan.vkCreateInstance(byref(info), None, byref(instance)))
    try:
        count = c_uint32()
        enumerate_devices = vulkan.vkEnumeratePhysicalDevices
        _check("vkEnumeratePhysicalDevices", enumerate_devices(instance, byref(count), None))
        devices = (c_void_p * count.value)()
        _check("vkEnumeratePhysicalDevices", enumerate_devices(instance, byref(count), devices))
        return dict(_capabilities(vulkan, c_void_p(device)) for device in devices)
    finally:
        vulkan.vkDestroyInstance(instance, None)


def _check(call: str, result: int) -> None:
    if result != 0:
        raise RuntimeError(f"{call} failed with VkResult {result}")


def _capabilities(vulkan: Any, device: c_void_p) -> tuple[str, VulkanCapabilities]:
    subgroup = _SubgroupProperties(type=_TYPE_SUBGROUP)
    ids = _IDProperties(type=_TYPE_ID, next=_address(subgroup))
    properties = _Properties2(type=_TYPE_PROPERTIES2, next=_address(ids))
    vulkan.vkGetPhysicalDeviceProperties2(device, byref(properties))
    small = _Flags(type=_TYPE_FLOAT16_INT8)
    storage8 = _Flags(type=_TYPE_STORAGE_8, next=_address(small))
    storage16 = _Flags(type=_TYPE_STORAGE_16, next=_address(storage8))
    features = _Features2(type=_TYPE_FEATURES2, next=_address(storage16))
    vulkan.vkGetPhysicalDeviceFeatures2(device, byref(features))
    holds16, holds8 = storage16.flags[0], storage8.flags[0]
    able = {
        "float64": features.float64,
        "int64": features.int64,
        "int16": features.int16 and holds16,
        "float16": small.flags[0] and holds16,
        "int8": small.flags[1] and holds8,
    }
    limits = properties.limits
    found = VulkanCapabilities(
        types=frozenset(name for name, yes in able.items() if yes),
        subgroup_size=subgroup.size,
        shared_memory=limits.shared_memory,
        max_invocations=limits.invocations,
        max_sizes=tuple(limits.sizes),
        max_counts=tuple(limits.counts),
    )
    return bytes(ids.device_uuid).hex(), found


def _address(structure: ctypes.Structure) -> int:
    return ctypes.addressof(structure)
