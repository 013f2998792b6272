"""GPUs that IREE knows by the names of their architectures: CUDA, ROCm and Metal."""

from __future__ import annotations

from dataclasses import replace

from xpr.lowering.flags import COMMON_FLAGS
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.vulkan import OVERRIDES


def _target(
    name: str,
    device: str,
    *flags: str,
    missing: frozenset[str] = frozenset(),
    exact_sums: bool = True,
) -> Target:
    return Target(
        name=name,
        exact_sums=exact_sums,
        base_flags=(
            *COMMON_FLAGS,
            f"--iree-hal-target-device={device}",
            *flags,
        ),
        donation=False,
        missing_types=missing,
    )


def cuda_target(architecture: str = "sm_80") -> Target:
    """NVIDIA GPUs from `architecture` on."""
    return _target("cuda", "cuda", f"--iree-cuda-target={architecture}")


def rocm_target(architecture: str = "gfx942") -> Target:
    """AMD GPUs of one `architecture`."""
    return _target("rocm", "hip", f"--iree-rocm-target={architecture}")


cuda = cuda_target()
rocm = rocm_target()
# Metal's compiler rearranges sums unless it is told not to. Its programs are shaders that IREE's
# generator for Vulkan writes, with the same faults, and translates.
metal = replace(
    _target("metal", "metal", missing=frozenset({"float64", "complex128"}), exact_sums=False),
    complex_select=False,
    rounds_to_bfloat16=False,
    grouped_convolutions=False,
    repeats_conversions=True,
    overrides=OVERRIDES,
)
