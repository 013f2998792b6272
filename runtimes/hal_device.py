"""Devices with memory of their own, driven by IREE: what `vulkan`, `cuda` and `rocm` share.

Buffers live in the device's memory. Values come to the host through a staging buffer, because a
device's own buffers cannot always be mapped; the copy on the host is made once and kept.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from xpr.runtimes import exhausted, hal, shutdown
from xpr.runtimes.base import (
    ArrayType,
    Buffer,
    Device,
    Executable,
    ExecutableSignature,
    Runtime,
    Shape,
    deleted_error,
    type_str,
)
from xpr.runtimes.loading import load_module
from xpr.runtimes.memory_count import Allocation, MemoryCount
from xpr.runtimes.queue import queue_of


class DeviceBuffer(Buffer):
    """An IREE buffer view in a device's memory."""

    __slots__ = ("_allocation", "_host", "_kind", "device", "view")

    def __init__(
        self, view: Any, kind: ArrayType, device: HalDevice, allocation: Allocation | None = None
    ) -> None:
        self.view = view
        self._kind = kind
        self.device: Device = device
        if allocation is None:
            allocation = Allocation(device.memory_count, self.nbytes)
        self._allocation: Allocation | None = allocation
        self._host: np.ndarray[Any, Any] | None = None

    @property
    def shape(self) -> Shape:
        return self._kind[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._kind[1]

    def __repr__(self) -> str:
        state = ", deleted" if self.is_deleted() else ""
        return f"DeviceBuffer({type_str(self._kind)}, {self.device!r}{state})"

    def host_view(self) -> np.ndarray[Any, Any]:
        host = self._host
        if host is None:
            device = self.device
            assert isinstance(device, HalDevice)
            host = device.to_host(self.hal_view(), self._kind)
            host.setflags(write=False)
            self._host = host
        return host

    def hal_view(self) -> Any:
        """The IREE buffer view. Raises RuntimeError when the buffer has been deleted."""
        view = self.view
        if view is None:
            raise deleted_error(self._kind)
        return view

    def alias(self) -> DeviceBuffer:
        device = self.device
        assert isinstance(device, HalDevice)
        return DeviceBuffer(self.hal_view(), self._kind, device, self._allocation)

    def is_deleted(self) -> bool:
        return self.view is None

    def delete(self) -> None:
        self.view = self._host = self._allocation = None

    def block_until_ready(self) -> None:
        self.hal_view()  # a program's results are made when it has finished

    def copy_to_host_async(self) -> None:
        self.hal_view()
        if self._host is None:
            queue_of(self.device).call(self._fetch)

    def _fetch(self) -> tuple[()]:
        if not self.is_deleted():
            self.host_view()
        return ()

    def memory_span(self) -> tuple[int, int]:
        raise NotImplementedError(f"{self.device!r} does not tell the addresses of its memory")


class HalDevice(Device):
    """One device of an IREE driver, opened on first use, so that no memory is taken before."""

    memory_limit: int = 0
    """Bytes of the device's memory; 0 where the driver does not tell."""

    def __init__(self, runtime: HalRuntime, id: int, info: dict[str, Any]) -> None:
        super().__init__(runtime, id, str(info.get("name") or runtime.platform))
        self._info = info
        self._lock = threading.Lock()
        self._pair: hal.DevicePair | None = None
        self.memory_count = MemoryCount()

    def hal_device(self) -> hal.DevicePair:
        """The IREE device and the HAL module bound to it."""
        pair = self._pair
        if pair is None:
            with self._lock:
                if self._pair is None:
                    self._pair = self._open()
                pair = self._pair
        return pair

    def _open(self) -> hal.DevicePair:
        runtime = self.runtime
        assert isinstance(runtime, HalRuntime)
        device = runtime.open(self._info)
        shared = hal.start()
        pair = device, shared.rt.create_hal_module(shared.instance, device)
        hal.keep_forever(pair)
        return pair

    def told(self) -> str:
        """What the driver tells about the device, as lines of text."""
        runtime = self.runtime
        assert isinstance(runtime, HalRuntime)
        return runtime.describe(self._info)

    @shutdown.enters_iree
    def from_host(self, array: np.ndarray[Any, Any]) -> Any:
        """A buffer view with a copy of `array` in the device's memory."""
        if shutdown.is_near:
            shutdown.stop_other_threads()
        shared = hal.start()
        rt: Any = shared.rt
        device = self.hal_device()[0]
        element = shared.element_type(array.dtype)
        if array.nbytes == 0:
            # IREE copies nothing from an empty array, and drivers refuse empty buffers.
            buffer = device.allocator.allocate_buffer(
                int(rt.MemoryType.DEVICE_LOCAL), int(rt.BufferUsage.DEFAULT), 1
            )
            return shared.BufferView(buffer, list(array.shape), element)
        array = np.ascontiguousarray(array).reshape(array.shape)
        stored = hal.carrier(array.dtype)
        try:
            return device.allocator.allocate_buffer_copy(
                int(rt.MemoryType.DEVICE_LOCAL),
                int(rt.BufferUsage.DEFAULT),
                device,
                array if stored is None else array.view(stored),
                element,
            )
        except RuntimeError as error:
            exhausted.reraise(error, self, array.nbytes)
            raise

    @shutdown.enters_iree
    def to_host(self, view: Any, kind: ArrayType) -> np.ndarray[Any, Any]:
        """The values of a buffer view, in memory of the host's own."""
        if shutdown.is_near:
            shutdown.stop_other_threads()
        shape, dtype = kind
        count = math.prod(shape)
        if count == 0:
            return np.empty(shape, dtype)
        rt: Any = hal.start().rt
        device = self.hal_device()[0]
        staging = device.allocator.allocate_buffer(
            int(rt.MemoryType.HOST_LOCAL) | int(rt.MemoryType.DEVICE_VISIBLE),
            int(rt.BufferUsage.DEFAULT) | int(rt.BufferUsage.MAPPING),
            count * dtype.itemsize,
        )
        done = rt.HalFence.create_at(device.create_semaphore(0), 1)
        device.queue_copy(view.get_buffer(), staging, rt.HalFence(0), done)
        done.wait()
        raw = np.frombuffer(staging.map(), np.uint8, count * dtype.itemsize)
        return raw.copy().view(dtype).reshape(shape)

    def changed(
        self, view: Any, kind: ArrayType, function: Callable[[np.ndarray[Any, Any]], Any]
    ) -> Any:
        """A buffer view with a copy of the values that the function has changed on the host."""
        array = self.to_host(view, kind)
        function(array)
        return self.from_host(array)

    def filled(
        self,
        kinds: Sequence[ArrayType],
        function: Callable[[list[np.ndarray[Any, Any]]], Any],
    ) -> list[Any]:
        """Buffer views with the values that the function has written on the host."""
        arrays = [np.empty(shape, dtype) for shape, dtype in kinds]
        function(arrays)
        return [self.from_host(a) for a in arrays]

    def memory_stats(self) -> dict[str, int] | None:
        """Bytes of the arrays on the device, and the greatest number so far.

        Counted here, without what a program takes while it runs: IREE's allocator for Vulkan
        never counts what is freed.
        """
        used, peak = self.memory_count.read()
        limit = {"bytes_limit": self.memory_limit} if self.memory_limit else {}
        return {"bytes_in_use": used, "peak_bytes_in_use": peak, **limit}


class HalExecutable(Executable):
    """A compiled module loaded on one device."""

    def __init__(self, vmfb: bytes, signature: ExecutableSignature, device: HalDevice) -> None:
        self.signature = signature
        self.device: Device = device
        self._hal_device = device
        shared = hal.start()
        hal_device, hal_module = device.hal_device()
        self._context, self._function, self._raised = load_module(
            vmfb, signature, hal_module, device
        )
        self._pack_context = shared.InvokeContext(hal_device)

    def __call__(self, buffers: Sequence[DeviceBuffer]) -> list[DeviceBuffer]:
        raised = self._raised
        return self._run(buffers) if raised is None else raised.call(self._run, buffers)

    @shutdown.enters_iree
    def _run(self, buffers: Sequence[DeviceBuffer]) -> list[DeviceBuffer]:
        if shutdown.is_near:
            shutdown.stop_other_threads()
        shared = hal.start()
        expected = len(self.signature.inputs)
        if len(buffers) != expected:
            raise TypeError(f"the program takes {expected} arguments, got {len(buffers)}")
        views = [b.hal_view() for b in buffers]
        out = shared.rt.VmVariantList(len(self.signature.outputs))
        try:
            self._context.invoke(self._function, shared.pack(self._pack_context, views, {}), out)
        except RuntimeError as error:
            exhausted.reraise(error, self.device, executable=self)
            raise
        results = []
        for i, kind in enumerate(self.signature.outputs):
            view = out.get_as_object(i, shared.BufferView)
            if tuple(view.shape) != kind[0]:
                raise TypeError(
                    f"the signature promises {type_str(kind)} as result {i}, the module returns "
                    f"shape {tuple(view.shape)}"
                )
            results.append(DeviceBuffer(view, kind, self._hal_device))
        return results


class HalRuntime(Runtime):
    """The devices of one of IREE's drivers.

    A program for such a device never writes to its operands, and results may share memory with
    operands: whoever donates an array only gives it up.
    """

    driver: ClassVar[str]

    def __init__(self) -> None:
        shared = hal.start()
        self._driver = shared.create_driver(self.driver)
        self._devices = tuple(
            self.make_device(i, info)
            for i, info in enumerate(self._driver.query_available_devices())
        )
        if not self._devices:
            raise RuntimeError(f"the {self.driver} driver finds no device on this machine")

    def make_device(self, id: int, info: dict[str, Any]) -> HalDevice:
        """The device that the driver describes by `info`."""
        return HalDevice(self, id, info)

    def open(self, info: dict[str, Any]) -> Any:
        """IREE's device for what `query_available_devices` described."""
        with hal.without_launcher():
            return self._driver.create_device(info["device_id"])

    def devices(self) -> tuple[HalDevice, ...]:
        return self._devices

    def describe(self, info: dict[str, Any]) -> str:
        """What the driver tells about a device, as lines of text."""
        return str(self._driver.dump_device_info(info["device_id"]))

    def buffer_from_host(
        self, array: np.ndarray[Any, Any], device: Device, *, copy: bool
    ) -> DeviceBuffer:
        own = self._own(device)
        return DeviceBuffer(own.from_host(array), (array.shape, array.dtype), own)

    def load(self, program: bytes, signature: ExecutableSignature, device: Device) -> HalExecutable:
        """Loads a `.vmfb` that was compiled for such a device."""
        return HalExecutable(program, signature, self._own(device))

    def _own(self, device: Device) -> HalDevice:
        if not isinstance(device, HalDevice) or device.runtime is not self:
            raise TypeError(f"the {self.name} runtime needs one of its own devices, got {device!r}")
        return device
