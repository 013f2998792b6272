"""The `vmvx` runtime: IREE's portable interpreter, on any processor and without native code."""

from __future__ import annotations

from xpr.runtimes.cpu import CpuRuntime


class VmvxRuntime(CpuRuntime):
    """The processor of this machine, interpreting programs: slow, and the same everywhere."""

    name = "vmvx"
    platform = "vmvx"
    target = "vmvx"
    priority = -1
