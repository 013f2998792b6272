"""One module on one device."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.runtimes.bundle.archive import MANIFEST
from xpr.runtimes.bundle.errors import BundleError, BundleTargetError, CorruptBundleError
from xpr.runtimes.bundle.iree import DRIVERS, iree, iree_version
from xpr.runtimes.bundle.tensors import Array

PARALLEL_COST = 4e6
COPIED_BYTES = 4096
_ALIGNMENT = 64


def is_parallel(cost: float) -> bool:
    """Whether a program is worth several threads, and the process has them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return cost >= PARALLEL_COST and (cores or 1) > 1


class Runner:
    """One module on one device: flat arrays in, flat arrays out."""

    def __init__(self, vmfb: bytes, runtime: str, cost: float, inputs: int) -> None:
        shared = iree()
        rt = shared.rt
        local = "local-task" if is_parallel(cost) else "local-sync"
        self.is_host = runtime not in DRIVERS
        try:
            self.device, hal_module = shared.device(DRIVERS.get(runtime, local))
        except (RuntimeError, ValueError) as error:
            raise BundleTargetError(f"{runtime} does not work here: {error}") from error
        try:
            module = rt.VmModule.copy_buffer(shared.instance, vmfb)
            self._context = rt.VmContext(shared.instance, [hal_module, module])
        except Exception as error:
            raise BundleTargetError(
                f"IREE {iree_version()} cannot load the module for {runtime}: {error}"
            ) from error
        self._function = module.lookup_function("main")
        if self._function is None:
            raise CorruptBundleError("the module has no function 'main'")
        declared = str(self._function.reflection.get("iree.abi.declaration", ""))
        taken = len(re.findall(r"%input\d+: ", declared))
        if declared and taken != inputs:
            raise CorruptBundleError(
                f"the module takes {taken} arrays, {MANIFEST} lists {inputs} weights and inputs"
            )
        self._pack_context = shared.InvokeContext(self.device)
        memory, usage = rt.MemoryType, rt.BufferUsage
        if self.is_host:
            self._memory = int(memory.HOST_LOCAL | memory.DEVICE_VISIBLE)
            self._usage = int(usage.DEFAULT | usage.MAPPING)
        else:
            self._memory, self._usage = int(memory.DEVICE_LOCAL), int(usage.DEFAULT)
        self._allocator = self.device.allocator
        self._element_type = shared.element_type
        self._pack = shared.pack
        self._results = rt.VmVariantList
        self._view = rt.HalBufferView

    def to_device(self, array: Array) -> Any:
        """A buffer view of an array's values, over its own memory where that can be."""
        element, carrier = self._element_type(array.dtype)
        if carrier is not None:
            array = array.view(carrier)
        size, contiguous = array.nbytes, array.flags.c_contiguous
        if size > COPIED_BYTES and self.is_host and array.flags.writeable and contiguous:
            address = array.__array_interface__["data"][0]
            if address % _ALIGNMENT == 0:
                view = self.device.from_dlpack_capsule(array.__dlpack__())
                if carrier is None:
                    return view
                return self._view(view.get_buffer(), array.shape, element)
        if size == 0:
            buffer = self._allocator.allocate_buffer(self._memory, self._usage, 1)
            return self._view(buffer, list(array.shape), element)
        if not contiguous:
            array = np.ascontiguousarray(array).reshape(array.shape)
        return self._allocator.allocate_buffer_copy(
            self._memory, self._usage, self.device, array, element
        )

    def _to_host(self, view: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        count = math.prod(shape) * dtype.itemsize
        if count == 0:
            return np.empty(shape, dtype)
        if self.is_host:
            raw = np.asarray(memoryview(view.map()).toreadonly())
            return raw[:count].view(dtype).reshape(shape)
        rt = iree().rt
        memory, usage = rt.MemoryType, rt.BufferUsage
        staging = self.device.allocator.allocate_buffer(
            int(memory.HOST_LOCAL | memory.DEVICE_VISIBLE),
            int(usage.DEFAULT | usage.MAPPING),
            count,
        )
        done = rt.HalFence.create_at(self.device.create_semaphore(0), 1)
        self.device.queue_copy(view.get_buffer(), staging, rt.HalFence(0), done)
        done.wait()
        return np.frombuffer(staging.map(), np.uint8, count).copy().view(dtype).reshape(shape)

    def span(self, view: Any) -> tuple[int, int]:
        """The addresses that a buffer view covers."""
        size = view.byte_length
        if size == 0:
            return 0, 0
        low = np.ndarray(size, np.uint8, view.map()).__array_interface__["data"][0]
        return low, low + size

    def shared_results(self, views: Sequence[Any], results: Sequence[Array]) -> frozenset[int]:
        """The results that lie in the memory of an operand or of an earlier result."""
        if not self.is_host:
            return frozenset()
        taken = [self.span(v) for v in views]
        found = set()
        for i, array in enumerate(results):
            low = array.__array_interface__["data"][0]
            high = low + array.nbytes
            if any(low < end and start < high for start, end in taken):
                found.add(i)
            taken.append((low, high))
        return frozenset(found)

    def __call__(
        self, views: list[Any], results: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]
    ) -> list[Array]:
        """The results, each over the memory that the module gave it."""
        out = self._results(len(results))
        self._context.invoke(self._function, self._pack(self._pack_context, views, {}), out)
        arrays = []
        for i, (shape, dtype) in enumerate(results):
            view = out.get_as_object(i, self._view)
            if tuple(view.shape) != shape:
                raise BundleError(
                    f"the manifest promises shape {shape} as result {i}, the module returns "
                    f"{tuple(view.shape)}"
                )
            arrays.append(self._to_host(view, shape, dtype))
        return arrays


def aligned(array: Array) -> Array:
    """A writable copy in memory that compiled code can use as it is."""
    raw = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    start = -raw.__array_interface__["data"][0] % _ALIGNMENT
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
