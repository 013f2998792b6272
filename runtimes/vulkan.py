"""The `vulkan` runtime: any GPU with a Vulkan 1.3 driver, and software devices."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from xpr.runtimes import _vulkan_features, hal
from xpr.runtimes._spinning_threads import giving_way
from xpr.runtimes.bundle.iree import VULKAN_FLAGS
from xpr.runtimes.hal_device import HalDevice, HalRuntime


class VulkanDevice(HalDevice):
    """A Vulkan device, and what it says that it can do."""

    def __init__(self, runtime: VulkanRuntime, id: int, info: dict[str, Any]) -> None:
        super().__init__(runtime, id, info)
        text = runtime.describe(info)
        self.is_software = bool(re.search(r"^type: cpu", text, re.MULTILINE))
        uuid = str(info.get("path", "")).removeprefix("GPU-")
        heaps = re.findall(r"^  \[\d+\] size=(\d+) flags=0x([0-9a-f]+)$", text, re.MULTILINE)
        self.memory_limit = sum(int(size) for size, flags in heaps if int(flags, 16) & 1)
        self.capabilities = runtime.capabilities.get(uuid, _vulkan_features.MINIMUM)

    def _open(self) -> hal.DevicePair:
        if not self.is_software:
            return super()._open()
        with giving_way():
            return super()._open()

    def features(self) -> str:
        found = self.capabilities
        kind = "software, " if self.is_software else ""
        types = " ".join(sorted(found.types)) or "32-bit types only"
        return f"{kind}{types}, subgroups of {found.subgroup_size}"


class VulkanRuntime(HalRuntime):
    """Vulkan devices. A machine whose only one is software does not choose it by default."""

    name = "vulkan"
    platform = "vulkan"
    target = "vulkan"
    driver: ClassVar[str] = "vulkan"
    priority = 10

    def __init__(self) -> None:
        hal.start().rt.flags.parse_flags(*VULKAN_FLAGS)
        self.capabilities = _vulkan_features.query()
        """What each device can do, by its UUID."""
        super().__init__()
        if all(isinstance(d, VulkanDevice) and d.is_software for d in self._devices):
            self.priority = -1

    def make_device(self, id: int, info: dict[str, Any]) -> VulkanDevice:
        return VulkanDevice(self, id, info)
