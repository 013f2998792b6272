"""What programs can be compiled for, by texts such as `aarch64-linux` or `cuda:sm_90`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

from xpr.lowering.targets import get_target
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.cpu import cpu_target, product_kernels
from xpr.lowering.targets.gpu import cuda_target, rocm_target
from xpr.lowering.targets.vulkan import DESKTOP, vulkan_target
from xpr.runtimes import registry
from xpr.runtimes._cuda_features import ARCHITECTURES, compiled_for
from xpr.runtimes._vulkan_features import MINIMUM, VulkanCapabilities
from xpr.runtimes.bundle.machine import host_architecture, host_features

# What the levels of x86-64 add, by the names that Linux gives the features. Source: the System V
# ABI for AMD64, section "Micro-Architecture Levels".
_X86_LEVELS: dict[str, tuple[str, ...]] = {
    "v2": ("cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"),
    "v3": ("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"),
    "v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}
# Of the features that a processor has, those that LLVM may use of its own accord.
_X86_CODE = re.compile(
    r"(pni|ssse3|sse4\w+|popcnt|cx16|lahf_lm|avx\w*|bmi[12]|f16c|fma|abm|movbe|xsave\w*|gfni|vaes"
    r"|aes|vpclmulqdq|pclmulqdq|sha_ni|adx|amx\w*|rdrand|rdseed|fsgsbase|sse4a|xop|tbm|fma4"
    r"|3dnowprefetch|serialize|movdiri|movdir64b)\Z"
)


@dataclasses.dataclass(frozen=True)
class ExportTarget:
    """One target of an export: how to compile for it, and what a manifest says of it."""

    name: str
    target: Target
    description: dict[str, Any]

    @property
    def runtime(self) -> str:
        """The name of the runtime that runs such modules."""
        return self.description["runtime"]


def _portable(target: Target) -> Target:
    """The target without what ties a module to this process."""
    return dataclasses.replace(target, host_calls=False)


def _of_cpu(name: str, architecture: str, cpu: str, features: tuple[str, ...]) -> ExportTarget:
    triple = f"{architecture}-linux-gnu"
    extra: tuple[str, ...] = ()
    if architecture == "riscv64":
        extra = (
            "--iree-llvmcpu-target-abi=lp64d",
            "--iree-llvmcpu-target-cpu-features=+m,+a,+f,+d,+c",
        )
    # LLVM knows the host's features only when it is left to find the triple as well.
    target = cpu_target(cpu, None if cpu == "host" else triple)
    target = dataclasses.replace(
        target,
        base_flags=(*target.base_flags, *extra),
        product_kernels=lambda: product_kernels(features) if architecture == "x86_64" else None,
    )
    description = {
        "runtime": "cpu",
        "architecture": architecture,
        "triple": triple,
        "cpu": cpu,
        "features": sorted(features),
    }
    return ExportTarget(name, _portable(target), description)


def _host_cpu(name: str) -> ExportTarget:
    architecture, known = host_architecture(), host_features()
    if known is None:
        # Unless the features of this machine are known, the module might not run on it.
        return _of_cpu(name, architecture, "generic", ())
    if architecture == "x86_64":
        known = frozenset(f for f in known if _X86_CODE.match(f))
    return _of_cpu(name, architecture, "host", tuple(known))


_BASELINES = {"x86_64": "x86_64-v3"}


def baseline() -> str:
    """The name of the portable target for this machine's architecture, for modules to send around.

    For x86-64 that is level 3 (AVX2, fused products): every x86-64 server and desktop processor
    since 2015 has it, vectors are twice as wide as at level 2, and without fused products each
    `x * y + z` that is to be rounded once is a call. Other architectures: their first version.
    """
    here = host_architecture()
    name = _BASELINES.get(here, here)
    return name if _CPU.match(name) else "cpu"


def _x86(name: str, level: str | None) -> ExportTarget:
    if level is None or level == "v1":
        return _of_cpu(name, "x86_64", "x86-64", ())
    features: list[str] = []
    for key, added in _X86_LEVELS.items():
        features += added
        if key == level:
            return _of_cpu(name, "x86_64", f"x86-64-{level}", tuple(features))
    raise ValueError(f"target {name!r}: the levels of x86_64 are v1 to v4, got {level}")


def _capabilities(wish: str) -> VulkanCapabilities:
    if wish in ("", "desktop"):
        return DESKTOP
    if wish == "minimum":
        return MINIMUM
    if wish == "device":
        device: Any = registry.devices("vulkan")[0]
        return device.capabilities
    raise ValueError(f"target 'vulkan:{wish}': expected vulkan:desktop, :minimum or :device")


def _vulkan(name: str, wish: str) -> ExportTarget:
    able = _capabilities(wish)
    described = dataclasses.asdict(able) | {"types": sorted(able.types)}
    description = {"runtime": "vulkan", "capabilities": described}
    return ExportTarget(name, vulkan_target(able), description)


def _cuda(name: str, wish: str) -> ExportTarget:
    match = re.fullmatch(r"sm_(\d+)", wish or "sm_80")
    first = min(ARCHITECTURES)
    if match is None or int(match[1]) < first:
        raise ValueError(f"target {name!r}: expected cuda:sm_<number>, from sm_{first} on")
    compiled = compiled_for(int(match[1]))
    description = {"runtime": "cuda", "architecture": match[0], "compiled_for": compiled}
    return ExportTarget(name, cuda_target(compiled), description)


def _rocm(name: str, wish: str) -> ExportTarget:
    architecture = wish or "gfx942"
    if re.fullmatch(r"gfx[0-9a-f]{3,4}", architecture) is None:
        raise ValueError(f"target {name!r}: expected rocm:gfx<number>, such as rocm:gfx942")
    description = {"runtime": "rocm", "architecture": architecture}
    return ExportTarget(name, rocm_target(architecture), description)


def _plain(name: str, wish: str) -> ExportTarget:
    if wish:
        raise ValueError(f"target {name!r}: nothing can follow {name.partition(':')[0]!r}")
    return ExportTarget(name, _portable(get_target(name)), {"runtime": name})


_FAMILIES: dict[str, Callable[[str, str], ExportTarget]] = {
    "vulkan": _vulkan,
    "cuda": _cuda,
    "rocm": _rocm,
    "metal": _plain,
    "vmvx": _plain,
}
_CPU = re.compile(r"(x86_64|aarch64|riscv64)(?:-(v[0-9]))?(?:-linux)?\Z")


def export_target(name: str) -> ExportTarget:
    """The target of that name.

    `cpu` or `host` is the processor of this machine with all it can do, for modules that run here
    as fast as under `jit`; `baseline` is any processor of its architecture since about 2015
    (`baseline()`). Others, for any processor of a kind: `x86_64` (also `x86_64-v2` to `-v4`),
    `aarch64`, `riscv64`, each with `-linux` behind it or without, for a CPU module does not depend
    on the operating system. GPUs: `vulkan` (`vulkan:desktop`, `vulkan:minimum`, `vulkan:device`),
    `cuda:sm_90`, `rocm:gfx942`, `metal`. And `vmvx`, bytecode that IREE interprets.

    Raises ValueError for any other name.

    >>> export_target("aarch64-linux").description["triple"]
    'aarch64-linux-gnu'
    """
    if name in ("cpu", "host"):
        return _host_cpu(name)
    if name == "baseline":
        name = baseline()
    family, _, wish = name.partition(":")
    if family in _FAMILIES:
        return _FAMILIES[family](name, wish)
    match = _CPU.match(name)
    if match is None or (match[2] and match[1] != "x86_64"):
        others = ", ".join(f"{family}[:...]" for family in _FAMILIES)
        raise ValueError(
            f"unknown target {name!r}; expected cpu, host, baseline, x86_64[-v2|-v3|-v4], aarch64, "
            f"riscv64 (each with -linux behind it or without), {others}"
        )
    if match[1] == "x86_64":
        return _x86(name, match[2])
    generic = "generic-rv64" if match[1] == "riscv64" else "generic"
    return _of_cpu(name, match[1], generic, ())


def portable_target() -> Target:
    """For StableHLO that any compiler of IREE's can take: nothing of one device or process."""
    return dataclasses.replace(
        cpu_target("generic"), host_calls=False, single_dispatch_loops=False, donation=False
    )
