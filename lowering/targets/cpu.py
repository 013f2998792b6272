"""The CPU of this machine, compiled by LLVM."""

from __future__ import annotations

import functools
import platform
from collections.abc import Collection

from xpr.lowering import prebuilt
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import (
    COMMON_FLAGS,
    LLVM_CPU_FLAGS,
    FlagSet,
    llvm_cpu_flag_sets,
    suits_data_tiling,
)
from xpr.runtimes import processor

_BASE_FLAGS: FlagSet = (
    *COMMON_FLAGS,
    *LLVM_CPU_FLAGS,
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
)


@functools.cache
def _has_fused_products() -> bool:
    """Whether the processor has fused products; without, they are calls of the C library's."""
    return platform.machine() in ("aarch64", "arm64") or "fma" in processor.description().split()


# The kinds of processor that there are kernels for, best first, and what each needs: what compilers
# take for granted at the levels x86-64-v4 and x86-64-v3.
_V3 = frozenset({"avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"})
_KERNELS = {
    "products_avx512": _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    "products_avx2": _V3,
}


def product_kernels(features: Collection[str]) -> str | None:
    """The object with kernels for such processors, if xpr was installed with one.

    `features` are instruction sets, by the names of Linux.
    """
    for name, needed in _KERNELS.items():
        if needed.issubset(features) and prebuilt.content(name) is not None:
            return name
    return None


# The same for numbers in low precision: products of int8 by AVX-512's instructions for them, or by
# those of AVX2.
_BLOCK_KERNELS = {
    "vnni": _KERNELS["products_avx512"] | {"avx512_vnni"},
    "int8": _V3,
}


def block_kernels(features: Collection[str]) -> str | None:
    """The kind of kernels for blocks in low precision, as in `product_kernels`."""
    for kind, needed in _BLOCK_KERNELS.items():
        if needed.issubset(features) and prebuilt.content(f"products_{kind}") is not None:
            return kind
    return None


@functools.cache
def _host_block_kernels() -> str | None:
    return block_kernels(processor.description().split())


@functools.cache
def _host_kernels() -> str | None:
    return product_kernels(processor.description().split())


def cpu_target(target_cpu: str = "host", target_triple: str | None = None) -> Target:
    """The CPU target for LLVM's CPU ``target_cpu`` and ``target_triple``, for modules to export.

    ``generic`` gives a module that runs on any CPU of the architecture; one for the ``host`` may
    use instructions that other machines lack.
    """
    flags = (*_BASE_FLAGS, f"--iree-llvmcpu-target-cpu={target_cpu}")
    if target_triple is not None:
        flags += (f"--iree-llvmcpu-target-triple={target_triple}",)
    here = target_cpu == "host" and target_triple is None
    return Target(
        name="cpu",
        single_dispatch_loops=True,
        base_flags=flags,
        choose_flags=llvm_cpu_flag_sets,
        tiles_products=suits_data_tiling,
        host_calls=True,
        host_memory=True,
        # A module for other machines is to be the same whatever was compiled before.
        keeps_dispatches=here,
        fuses_products=target_cpu == "host" and _has_fused_products(),
        product_kernels=_host_kernels if here else None,
        block_kernels=_host_block_kernels if here else None,
        machine=processor.description if target_cpu == "host" else None,
    )


cpu = cpu_target()
