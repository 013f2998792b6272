"""IREE's runtime, loaded on first use: the one instance and device that make host buffers.

Everything here lives until the process ends. IREE crashes when a device goes before a context
that uses it, or when a second instance is made, so nothing is ever torn down.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from xpr.runtimes import shutdown
from xpr.runtimes.cores import cores

if TYPE_CHECKING:
    from types import ModuleType

# By these IREE tells that MPI's launcher started the process. It then wants MPI's library for
# collectives of its own, which no program of ours has, and makes no device without it.
_LAUNCHER = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


@contextmanager
def without_launcher() -> Iterator[None]:
    """A context in which IREE makes devices without looking for MPI's library."""
    hidden = {name: os.environ.pop(name) for name in _LAUNCHER if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)


# Types for which NumPy and IREE have a name in common: the fields of HalElementType.
_NAMED: dict[Any, str] = {
    np.bool_: "BOOL_8",
    np.int8: "SINT_8",
    np.int16: "SINT_16",
    np.int32: "SINT_32",
    np.int64: "SINT_64",
    np.uint8: "UINT_8",
    np.uint16: "UINT_16",
    np.uint32: "UINT_32",
    np.uint64: "UINT_64",
    np.float16: "FLOAT_16",
    np.float32: "FLOAT_32",
    np.float64: "FLOAT_64",
    np.complex64: "COMPLEX_64",
    np.complex128: "COMPLEX_128",
}

# Types of ml_dtypes: NumPy cannot hand them to others by name, so they travel as the integers of
# their size. IREE has no name for the second group: their values are bytes to it, and a program
# takes and returns them as i8 or ui8.
_CARRIED: dict[Any, tuple[Any, str]] = {
    ml_dtypes.bfloat16: (np.uint16, "BFLOAT_16"),
    ml_dtypes.float8_e4m3fn: (np.uint8, "FLOAT_8_E4M3_FN"),
    ml_dtypes.float8_e4m3fnuz: (np.uint8, "FLOAT_8_E4M3_FNUZ"),
    ml_dtypes.float8_e5m2: (np.uint8, "FLOAT_8_E5M2"),
    ml_dtypes.float8_e5m2fnuz: (np.uint8, "FLOAT_8_E5M2_FNUZ"),
    ml_dtypes.float8_e8m0fnu: (np.uint8, "FLOAT_8_E8M0_FNU"),
    #
    ml_dtypes.float4_e2m1fn: (np.uint8, "UINT_8"),
    ml_dtypes.float8_e3m4: (np.uint8, "UINT_8"),
    ml_dtypes.float8_e4m3: (np.uint8, "UINT_8"),
    ml_dtypes.float8_e4m3b11fnuz: (np.uint8, "UINT_8"),
    ml_dtypes.int2: (np.int8, "SINT_8"),
    ml_dtypes.int4: (np.int8, "SINT_8"),
    ml_dtypes.uint2: (np.uint8, "UINT_8"),
    ml_dtypes.uint4: (np.uint8, "UINT_8"),
}
_CARRIERS = {np.dtype(t): np.dtype(stored) for t, (stored, _) in _CARRIED.items()}


def carrier(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """The integer type that carries `dtype` where NumPy cannot name it; None if it can."""
    return _CARRIERS.get(dtype)


def is_mapping(owner: object) -> bool:
    """Whether `owner`, the base of an array, is a mapping of IREE's own memory."""
    hal = _hal
    if isinstance(owner, memoryview):
        owner = owner.obj
    return hal is not None and isinstance(owner, hal.Mapping)


_PLACE = r"\(at offset (\d+) into (\d+)\)"


def place(view: Any) -> tuple[int, int] | None:
    """Where a buffer view begins in the allocation that holds it, and that one's size, in bytes.

    IREE's Python bindings tell it in words only; None where they do not.
    """
    found = re.search(_PLACE, repr(view))
    return None if found is None else (int(found[1]), int(found[2]))


Shape = tuple[int, ...]
DevicePair = tuple[Any, Any]
"""An IREE device and the HAL module bound to it."""


class Hal:
    """The process's IREE instance, and the device whose allocator makes all host buffers."""

    def __init__(self) -> None:
        # The one place that loads IREE's runtime: a program that never compiles does not need it.
        import iree.runtime as rt  # noqa: PLC0415
        from iree.runtime import _binding  # noqa: PLC0415

        # IREE counts what is left at exit as leaks; here it is left on purpose.
        _binding.disable_leak_checker()
        self.rt: ModuleType = rt
        self.InvokeContext = _binding.InvokeContext
        self.BufferView = rt.HalBufferView
        self.Mapping = rt.MappedMemory
        self.instance = rt.VmInstance()
        # Packs buffer views into IREE's list of arguments, all in one call.
        self.pack = _binding.ArgumentPacker(_binding._invoke_statics, None).pack
        self._create_driver = vars(_binding)["create_hal_driver"]  # missing from the type stubs
        self._drivers: list[Any] = []
        self._lock = threading.Lock()
        self._sync: dict[int, DevicePair] = {}
        self._task: DevicePair | None = None
        self.device = self.sync_device(0)[0]
        self.allocator = self.device.allocator
        self._memory = int(rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE)
        self._usage = int(rt.BufferUsage.DEFAULT | rt.BufferUsage.MAPPING)
        self.element_types = _element_types(rt.HalElementType)

    # ---- devices

    def create_driver(self, name: str) -> Any:
        """A driver of IREE's by its name; RuntimeError where it cannot be loaded."""
        # A driver of its own: it owns the threads, and IREE's cache would give a forked child
        # the driver whose threads stayed with the parent.
        made = self._create_driver(name)
        self._drivers.append(made)
        return made

    def _create(self, driver: str) -> DevicePair:
        with without_launcher():
            device = self.create_driver(driver).create_default_device()
        return device, self.rt.create_hal_module(self.instance, device)

    def sync_device(self, index: int) -> DevicePair:
        """The `local-sync` device of that number, which runs programs in the calling thread."""
        with self._lock:
            pair = self._sync.get(index)
            if pair is None:
                pair = self._sync[index] = self._create("local-sync")
            return pair

    def task(self) -> DevicePair:
        """The one `local-task` device, which runs programs on a pool of threads."""
        with self._lock:
            if self._task is None:
                self.rt.flags.parse_flags(f"--task_topology_max_group_count={cores()}")
                self._task = self._create("local-task")
            return self._task

    def forget_threads(self) -> None:
        """In a forked child: gives up the device whose threads the child does not have."""
        self._lock = threading.Lock()  # another thread may have held it at the fork
        if self._task is not None:
            keep_forever(self._task)
            self._task = None

    def statistics(self) -> list[dict[str, int]]:
        """What the allocators of all devices tell."""
        with self._lock:
            pairs = [*self._sync.values(), *([] if self._task is None else [self._task])]
        return [device.allocator.statistics for device, _ in pairs]

    # ---- buffers

    def element_type(self, dtype: np.dtype[Any]) -> int:
        """IREE's number for a dtype; TypeError for one that it cannot store."""
        try:
            return self.element_types[dtype]
        except KeyError:
            raise TypeError(f"IREE buffers cannot hold elements of dtype {dtype}") from None

    @shutdown.enters_iree
    def copied(self, array: np.ndarray[Any, Any]) -> Any:
        """A buffer view with a copy of `array` in memory of IREE's own."""
        if shutdown.is_near:
            shutdown.stop_other_threads()
        element = self.element_type(array.dtype)
        if not array.flags.c_contiguous:
            array = array.copy(order="C")
        stored = _CARRIERS.get(array.dtype)
        if stored is not None:
            array = array.view(stored)
        return self.allocator.allocate_buffer_copy(
            self._memory, self._usage, self.device, array, element
        )

    @shutdown.enters_iree
    def allocated(self, shape: Shape, dtype: np.dtype[Any]) -> Any:
        """A buffer view of memory of IREE's own, without values; it must not be empty."""
        if shutdown.is_near:
            shutdown.stop_other_threads()
        element = self.element_type(dtype)
        nbytes = math.prod(shape) * dtype.itemsize
        buffer = self.allocator.allocate_buffer(self._memory, self._usage, nbytes)
        return self.BufferView(buffer, shape, element)

    def imported(self, array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> Any:
        """A buffer view over the memory of `array`, with elements of type `dtype`.

        `array` must be writable, contiguous, aligned and not empty, and have the carrier of
        `dtype` if there is one. The import goes by DLPack because only then IREE's buffer itself
        holds the array. With `import_host_allocation` the Python wrapper does, and a view that
        outlives the wrapper reads memory that has been freed.
        """
        view = self.device.from_dlpack_capsule(array.__dlpack__())
        if array.dtype == dtype:
            return view
        return self.BufferView(view.get_buffer(), array.shape, self.element_type(dtype))


def _element_types(kinds: Any) -> dict[np.dtype[Any], int]:
    names = _NAMED | {t: name for t, (_, name) in _CARRIED.items()}
    return {np.dtype(t): int(getattr(kinds, name)) for t, name in names.items()}


_hal: Hal | None = None
_lock = threading.Lock()


def start() -> Hal:
    """The process's IREE runtime, started by the first call."""
    global _hal
    hal = _hal
    if hal is None:
        with _lock:
            hal = _hal
            if hal is None:
                hal = Hal()
                keep_forever(hal)
                _hal = hal
    return hal


def keep_forever(thing: object) -> None:
    """Keeps an object alive beyond the end of the interpreter.

    Python clears module variables at exit in no order that IREE could live with.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def forget_threads() -> None:
    """In a forked child: see `Hal.forget_threads`."""
    global _lock
    _lock = threading.Lock()
    if _hal is not None:
        _hal.forget_threads()


def statistics() -> list[dict[str, int]]:
    """What the allocators tell; nothing before IREE has been started."""
    return [] if _hal is None else _hal.statistics()
