"""The `cuda` runtime: NVIDIA GPUs through CUDA."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from xpr.runtimes import _cuda_features
from xpr.runtimes.hal_device import HalDevice, HalRuntime


class CudaDevice(HalDevice):
    """An NVIDIA GPU, and what its driver says of it."""

    def __init__(self, runtime: CudaRuntime, id: int, info: dict[str, Any]) -> None:
        super().__init__(runtime, id, info)
        uuid = str(info.get("path", "")).removeprefix("GPU-").replace("-", "").lower()
        found = runtime.features.get(uuid)
        if found is None:
            found = _told(runtime.describe(info))
        self._features = found
        self.memory_limit = found.memory
        self.capabilities = found.capabilities

    @property
    def compute_capability(self) -> str:
        """The architecture, as "9.0"."""
        return f"{self._features.architecture // 10}.{self._features.architecture % 10}"

    def features(self) -> str:
        return self._features.words()


def _told(text: str) -> _cuda_features.CudaFeatures:
    """What IREE tells of a device, where the driver's own list does not have it."""
    found = re.search(r"gpu-compute-capability: (\d+)\.(\d+)", text)
    if found is None:
        raise RuntimeError("the CUDA driver does not tell the compute capability of its device")
    return _cuda_features.CudaFeatures(10 * int(found[1]) + int(found[2]), 0, None)


class CudaRuntime(HalRuntime):
    """NVIDIA GPUs with a CUDA driver."""

    name = "cuda"
    platform = "cuda"
    target = "cuda"
    driver: ClassVar[str] = "cuda"
    priority = 30

    def __init__(self) -> None:
        self.features = _cuda_features.query()
        """What each device is, by its UUID."""
        super().__init__()

    def make_device(self, id: int, info: dict[str, Any]) -> CudaDevice:
        return CudaDevice(self, id, info)
