"""The `metal` runtime: Apple's GPUs."""

from __future__ import annotations

from typing import ClassVar

from xpr.runtimes.hal_device import HalRuntime


class MetalRuntime(HalRuntime):
    """Apple's GPUs; IREE's Python packages for other systems have no driver for them."""

    name = "metal"
    platform = "metal"
    target = "metal"
    driver: ClassVar[str] = "metal"
    priority = 20
