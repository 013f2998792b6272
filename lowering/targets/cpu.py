"""The CPU of this machine, compiled by LLVM."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys

from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import (
    COMMON_FLAGS,
    LLVM_CPU_FLAGS,
    FlagSet,
    llvm_cpu_flag_sets,
    suits_data_tiling,
)

_BASE_FLAGS: FlagSet = (
    *COMMON_FLAGS,
    *LLVM_CPU_FLAGS,
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
)


# The lines of Linux's /proc/cpuinfo that tell instruction sets apart, on x86, Arm and RISC-V.
_CPU_FIELDS = (
    *("vendor_id", "cpu family", "model", "model name", "flags"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features"),
    *("isa", "uarch", "mvendorid", "marchid"),
)


@functools.cache
def _host_cpu() -> str:
    """A text that differs between CPUs with different instruction sets.

    Modules are compiled for the host's instruction set, and a cache directory may be shared by
    several machines: running a module on a lesser CPU would end the process.
    """
    parts = [platform.machine()]
    if sys.platform == "win32":
        parts.append(os.environ.get("PROCESSOR_IDENTIFIER", ""))
    elif sys.platform == "darwin":
        parts.append(_sysctl("machdep.cpu.brand_string"))
    elif os.path.exists("/proc/cpuinfo"):
        # The first few kilobytes hold the whole record of the first processor.
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as cpuinfo:
            record = cpuinfo.read(8192).split("\n\n", 1)[0]
        parts += [
            line for line in record.splitlines() if line.partition(":")[0].strip() in _CPU_FIELDS
        ]
    return "\n".join(parts)


@functools.cache
def _has_bfloat16() -> bool:
    """Whether the processor rounds to bfloat16 by an instruction.

    For others the compiler makes one conversion of two, from integers by way of float32, for which
    LLVM calls a function that no library has.
    """
    return "avx512_bf16" in _host_cpu().split()


@functools.cache
def _has_fused_products() -> bool:
    """Whether the processor has fused products; without, they are calls of the C library's."""
    return platform.machine() in ("aarch64", "arm64") or "fma" in _host_cpu().split()


def _sysctl(name: str) -> str:
    """A text that the kernel of macOS tells about itself."""
    value, size = ctypes.create_string_buffer(256), ctypes.c_size_t(256)
    ctypes.CDLL(None).sysctlbyname(name.encode(), value, ctypes.byref(size), None, 0)
    return value.value.decode()


def cpu_target(target_cpu: str = "host", target_triple: str | None = None) -> Target:
    """The CPU target for LLVM's CPU ``target_cpu`` and ``target_triple``, for modules to export.

    ``generic`` gives a module that runs on any CPU of the architecture; one for the ``host`` may
    use instructions that other machines lack.
    """
    flags = (*_BASE_FLAGS, f"--iree-llvmcpu-target-cpu={target_cpu}")
    if target_triple is not None:
        flags += (f"--iree-llvmcpu-target-triple={target_triple}",)
    return Target(
        name="cpu",
        single_dispatch_loops=True,
        base_flags=flags,
        choose_flags=llvm_cpu_flag_sets,
        tiles_products=suits_data_tiling,
        host_calls=True,
        host_memory=True,
        # A module for other machines is to be the same whatever was compiled before.
        keeps_dispatches=target_cpu == "host" and target_triple is None,
        rounds_to_bfloat16=target_cpu == "host" and _has_bfloat16(),
        fuses_products=target_cpu == "host" and _has_fused_products(),
        machine=_host_cpu if target_cpu == "host" else None,
    )


cpu = cpu_target()
