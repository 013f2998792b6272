"""GPUs through Vulkan: SPIR-V for a device of stated capabilities."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

from xpr.lowering.targets._spirv import SPIRV
from xpr.lowering.targets.base import Target
from xpr.runtimes._vulkan_features import VulkanCapabilities

# Mesa's software device leaves a loop after 65535 rounds, and says nothing. On a GPU so long a loop
# of one invocation would be slow.
_LONGEST_LOOP = 1 << 15

# The types that a device may lack, and the names for them in IREE's description of a GPU.
_COMPUTE = {
    "float64": "fp64",
    "float16": "fp16",
    "int64": "int64",
    "int16": "int16",
    "int8": "int8",
}
_STORAGE = {"int64": "b64", "int16": "b16", "int8": "b8"}
# What goes with them: types of the same storage, which IREE computes in 32 bits.
_IMPLIED = {
    "float64": ("complex128",),
    "int64": ("uint64",),
    "int16": ("uint16", "bfloat16"),
    "int8": (
        *("bool", "uint8", "int4", "uint4", "int2", "uint2"),
        *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn"),
        *("float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    ),
}


def _description(able: VulkanCapabilities) -> str:
    """The device as IREE's `#hal.device.target`."""
    compute = "|".join(["fp32", "int32", *(c for t, c in _COMPUTE.items() if t in able.types)])
    storage = "|".join(["b32", *(b for t, b in _STORAGE.items() if t in able.types)])
    workgroup = ", ".join(
        (
            f"compute = {compute}",
            f"storage = {storage}",
            "subgroup = none",
            f"subgroup_size_choices = [{able.subgroup_size}]",
            f"max_workgroup_sizes = {list(able.max_sizes)}",
            f"max_thread_count_per_workgroup = {able.max_invocations}",
            f"max_workgroup_memory_bytes = {able.shared_memory}",
            f"max_workgroup_counts = {list(able.max_counts)}",
        )
    )
    gpu = f'#iree_gpu.target<arch = "xpr", features = "spirv:v1.3,cap:Shader", wgp = <{workgroup}>>'
    executable = (
        '#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb", '
        f"{{iree_codegen.target_info = {gpu}}}>"
    )
    return f'hal.device.targets = [#hal.device.target<"vulkan", [{executable}]> : !hal.device]'


@functools.cache
def vulkan_target(able: VulkanCapabilities) -> Target:
    """The target for devices of these capabilities."""
    missing = {t for t in _COMPUTE if t not in able.types}
    missing |= {implied for t in tuple(missing) for implied in _IMPLIED.get(t, ())}
    return replace(
        SPIRV,
        name="vulkan",
        shaders=True,
        longest_loop=_LONGEST_LOOP,
        missing_types=frozenset(missing),
        module_attributes=_description(able),
        for_device=_of_device,
    )


def _of_device(device: Any) -> Target:
    return vulkan_target(device.capabilities)


DESKTOP = VulkanCapabilities(
    types=frozenset(_COMPUTE),
    subgroup_size=32,
    shared_memory=32768,
    max_invocations=256,
    max_sizes=(256, 256, 64),
    max_counts=(65535, 65535, 65535),
)
"""What the desktop GPUs of the last ten years can do: for modules compiled ahead of time."""

vulkan = vulkan_target(DESKTOP)
