"""The `rocm` runtime: AMD GPUs through HIP."""

from __future__ import annotations

from typing import ClassVar

from xpr.runtimes.hal_device import HalRuntime


class RocmRuntime(HalRuntime):
    """AMD GPUs with a ROCm driver."""

    name = "rocm"
    platform = "rocm"
    target = "rocm"
    driver: ClassVar[str] = "hip"
    priority = 30
