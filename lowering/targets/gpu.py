"""GPUs that IREE knows by the names of their architectures: CUDA, ROCm and Metal."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

from xpr.lowering.targets._spirv import SPIRV
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import COMMON_FLAGS, FlagSet
from xpr.lowering.targets.forms import WITHOUT_UNITS, matrix_units


def _flags(device: str, *flags: str) -> FlagSet:
    return (*COMMON_FLAGS, f"--iree-hal-target-device={device}", *flags)


# IREE multiplies matrices of float16 for sm_75 by an instruction that sm_80 is the first to have,
# and ends the process.
_MATRIX_UNITS = 80


@functools.cache
def cuda_target(architecture: str = "sm_80") -> Target:
    """NVIDIA GPUs from `architecture` on, which is one that `_cuda_features.ARCHITECTURES` has."""
    flags = _flags("cuda", f"--iree-cuda-target={architecture}")
    has_units = int(architecture.removeprefix("sm_")) >= _MATRIX_UNITS
    return Target(
        name="cuda",
        base_flags=flags,
        forms=matrix_units("float16", "bfloat16") if has_units else WITHOUT_UNITS,
        host_calls=True,
        donation=False,
        complex_transposes=False,
        for_device=_of_device,
    )


def _of_device(device: Any) -> Target:
    return cuda_target(device.capabilities.compiled_for)


def rocm_target(architecture: str = "gfx942") -> Target:
    """AMD GPUs of one `architecture`."""
    flags = _flags("hip", f"--iree-rocm-target={architecture}")
    forms = matrix_units("float16", "bfloat16")
    return Target(
        name="rocm",
        base_flags=flags,
        forms=forms,
        host_calls=True,
        donation=False,
        complex_transposes=False,
    )


cuda = cuda_target()
rocm = rocm_target()
metal = replace(
    SPIRV,
    name="metal",
    base_flags=_flags("metal"),
    missing_types=frozenset({"float64", "complex128"}),
)
