"""The `cuda` runtime: NVIDIA GPUs through CUDA."""

from __future__ import annotations

from typing import ClassVar

from xpr.runtimes.hal_device import HalRuntime


class CudaRuntime(HalRuntime):
    """NVIDIA GPUs with a CUDA driver."""

    name = "cuda"
    platform = "cuda"
    target = "cuda"
    driver: ClassVar[str] = "cuda"
    priority = 30
