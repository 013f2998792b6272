"""GPUs that IREE knows by the names of their architectures: CUDA, ROCm and Metal."""

from __future__ import annotations

from dataclasses import replace

from xpr.lowering.targets._spirv import SPIRV
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import COMMON_FLAGS, FlagSet


def _flags(device: str, *flags: str) -> FlagSet:
    return (*COMMON_FLAGS, f"--iree-hal-target-device={device}", *flags)


def cuda_target(architecture: str = "sm_80") -> Target:
    """NVIDIA GPUs from `architecture` on."""
    flags = _flags("cuda", f"--iree-cuda-target={architecture}")
    return Target(name="cuda", base_flags=flags, host_calls=True, donation=False)


def rocm_target(architecture: str = "gfx942") -> Target:
    """AMD GPUs of one `architecture`."""
    flags = _flags("hip", f"--iree-rocm-target={architecture}")
    return Target(name="rocm", base_flags=flags, host_calls=True, donation=False)


cuda = cuda_target()
rocm = rocm_target()
metal = replace(
    SPIRV,
    name="metal",
    base_flags=_flags("metal"),
    missing_types=frozenset({"float64", "complex128"}),
)
