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


CUDA_ARCHITECTURES = (60, 75, 80, 86, 89)
"""The compute capabilities that IREE 3.13 has a description of, as numbers: 80 is sm_80. Modules
hold PTX, which the driver translates for any later architecture as well."""

# IREE multiplies matrices of float16 for sm_75 by an instruction that sm_80 is the first to have,
# and ends the process.
_MATRIX_UNITS = 80


def known_architecture(capability: int) -> str:
    """The newest architecture that IREE knows and that GPUs of a compute capability run.

    Raises ValueError for a GPU that is older than all of them.
    """
    known = [n for n in CUDA_ARCHITECTURES if n <= capability]
    if not known:
        raise ValueError(
            f"CUDA programs are compiled for GPUs from sm_{CUDA_ARCHITECTURES[0]} on, and this "
            f"one is sm_{capability}"
        )
    return f"sm_{known[-1]}"


@functools.cache
def cuda_target(architecture: str = "sm_80") -> Target:
    """NVIDIA GPUs from `architecture` on, which is one of `CUDA_ARCHITECTURES`."""
    flags = _flags("cuda", f"--iree-cuda-target={architecture}")
    has_units = int(architecture.removeprefix("sm_")) >= _MATRIX_UNITS
    return Target(
        name="cuda",
        base_flags=flags,
        forms=matrix_units("float16", "bfloat16") if has_units else WITHOUT_UNITS,
        host_calls=True,
        donation=False,
        for_device=_of_device,
    )


def _of_device(device: Any) -> Target:
    """The target of a device that tells its compute capability."""
    return cuda_target(known_architecture(device.compute_capability))


def rocm_target(architecture: str = "gfx942") -> Target:
    """AMD GPUs of one `architecture`."""
    flags = _flags("hip", f"--iree-rocm-target={architecture}")
    forms = matrix_units("float16", "bfloat16")
    return Target(name="rocm", base_flags=flags, forms=forms, host_calls=True, donation=False)


cuda = cuda_target()
rocm = rocm_target()
metal = replace(
    SPIRV,
    name="metal",
    base_flags=_flags("metal"),
    missing_types=frozenset({"float64", "complex128"}),
)
