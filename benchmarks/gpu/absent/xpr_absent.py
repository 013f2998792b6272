"""A runtime for a device that is not here: programs are compiled for it, and return zeros.

It fills a compile cache with what the device will ask for. `XPR_ABSENT` says which device that is:
`cuda:sm_90`, `vulkan:nvidia` (a desktop GPU of that maker), or `vulkan:device` (the first Vulkan
device of this machine). The folder of this file, on the path, makes the runtime known.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.runtimes._cuda_features import CudaCapabilities, compiled_for
from xpr.runtimes._vulkan_features import VulkanCapabilities, query
from xpr.runtimes.base import Device, Executable, ExecutableSignature, Runtime
from xpr.runtimes.host import HostBuffer

DEFAULT = "cuda:sm_90"

NVIDIA = VulkanCapabilities(
    types=frozenset({"float64", "float16", "int64", "int16", "int8"}),
    subgroup_size=32,
    shared_memory=49152,
    max_invocations=1024,
    max_sizes=(1024, 1024, 64),
    max_counts=(2147483647, 65535, 65535),
)
"""GPUs of NVIDIA since 2016, as vulkan.gpuinfo.org lists them."""


class AbsentDevice(Device):
    """A device that is described and not there."""

    def __init__(self, runtime: AbsentRuntime, text: str) -> None:
        super().__init__(runtime, 0, f"absent {text}")
        self.capabilities: Any = _capabilities(text)

    def features(self) -> str:
        return "its programs return zeros"


def _capabilities(text: str) -> CudaCapabilities | VulkanCapabilities:
    if found := re.fullmatch(r"cuda:sm_(\d+)", text):
        return CudaCapabilities(compiled_for(int(found[1])))
    if text == "vulkan:nvidia":
        return NVIDIA
    if text == "vulkan:device":
        return next(iter(query().values()))
    raise ValueError(
        f"XPR_ABSENT must be cuda:sm_<number>, vulkan:nvidia or vulkan:device, got {text!r}"
    )


class AbsentExecutable(Executable):
    """A compiled program that is not run."""

    def __init__(self, signature: ExecutableSignature, device: Device) -> None:
        self.signature = signature
        self.device = device

    def __call__(self, buffers: Sequence[Any]) -> list[Any]:
        for index, _ in self.signature.donations:
            buffers[index].delete()
        return [HostBuffer(np.zeros(*kind), self.device) for kind in self.signature.outputs]


class AbsentRuntime(Runtime):
    """One device that is not there; used only when it is asked for."""

    name = "absent"
    platform = "absent"
    target = "cuda"
    priority = -1

    def __init__(self) -> None:
        text = os.environ.get("XPR_ABSENT", DEFAULT)
        self._devices = (AbsentDevice(self, text),)
        # Programs for it have the keys of those for the device itself.
        self.target = text.split(":")[0]  # type: ignore[misc]
        self.platform = self.target  # type: ignore[misc]

    def devices(self) -> tuple[Device, ...]:
        return self._devices

    def buffer_from_host(
        self, array: np.ndarray[Any, Any], device: Device, *, copy: bool
    ) -> HostBuffer:
        return HostBuffer(array.copy() if copy else array, device)

    def load(
        self, program: bytes, signature: ExecutableSignature, device: Device
    ) -> AbsentExecutable:
        """Takes a compiled program and forgets it."""
        assert program
        return AbsentExecutable(signature, device)
