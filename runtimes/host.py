"""Buffers in host memory: NumPy arrays, IREE buffer views, blocks of the native part."""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

# NumPy would load it on first use, which may be when Python is ending.
from numpy.lib.array_utils import byte_bounds

from xpr.runtimes import hal, shutdown
from xpr.runtimes.base import ArrayType, Buffer, Device, Shape, deleted_error
from xpr.runtimes.extension import native

ALIGNMENT = 64
"""Compiled code reads and writes memory with instructions that need this alignment."""

_SMALL_BYTES = 4096
"""Copying up to this many bytes is cheaper than finding out whether they are aligned."""


def aligned_empty(shape: Shape, dtype: Any) -> np.ndarray[Any, Any]:
    """A C-contiguous array without values whose memory starts at a multiple of 64 bytes."""
    dtype = np.dtype(dtype)
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes == 0:
        return np.empty(shape, dtype)
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -_address(raw) % ALIGNMENT
    return raw[start : start + nbytes].view(dtype).reshape(shape)


def aligned_copy(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A C-contiguous copy of `array` in memory that starts at a multiple of 64 bytes."""
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def is_importable(array: np.ndarray[Any, Any]) -> bool:
    """Whether compiled code can use the array's memory as it is."""
    return array.flags.c_contiguous and _address(array) % ALIGNMENT == 0


def host_copy(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A C-contiguous copy of `array`, aligned where that saves another copy later on."""
    if array.nbytes <= _SMALL_BYTES:
        return np.array(array, order="C", subok=False)
    return aligned_copy(array)


def memory_of_the_host() -> dict[str, int]:
    """The `bytes_limit` of devices that use this machine's memory, where the system tells it."""
    if not hasattr(os, "sysconf"):
        return {}
    return {"bytes_limit": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")}


class HostBuffer(Buffer):
    """A buffer in the memory of this process.

    It starts as a NumPy array (`host`), as an IREE buffer view (`view`) or as a block of the native
    part (`block`); the others are made when they are first asked for. When an array and another one
    lie over the same memory, `_memory` is the array whose references tell who else can see it;
    otherwise `_memory` is None.

    Neither making one nor reading `host` back costs more than a fraction of a microsecond: an
    operation outside `jit` makes one of these for each result.
    """

    __slots__ = ("_frozen", "_memory", "_span", "_type", "block", "device", "host", "view")

    host: np.ndarray[Any, Any] | None
    view: Any
    block: Any

    def __init__(
        self,
        host: np.ndarray[Any, Any] | None,
        device: Device,
        view: Any = None,
        kind: ArrayType | None = None,
        block: Any = None,
    ) -> None:
        """A buffer over `host`, or over an IREE `view` or a `block` whose type is `kind`.

        The caller promises that nobody writes to the memory any more.
        """
        self.host = host
        self.device = device
        self.view = view
        self.block = block
        self._type = kind
        self._memory: np.ndarray[Any, Any] | None = None
        self._frozen = False
        self._span: tuple[int, int] | None = None

    # ---- what it is

    @property
    def kind(self) -> ArrayType:
        """The shape and dtype, also after deletion."""
        kind = self._type
        if kind is None:
            host = self.host
            if host is None:  # deleted by another thread just now, which has set the type
                return self.kind
            kind = self._type = (host.shape, host.dtype)
        return kind

    @property
    def shape(self) -> Shape:
        return self.kind[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.kind[1]

    def __repr__(self) -> str:
        state = "NumPy" if self.host is not None else "IREE" if self.view is not None else "native"
        if self.is_deleted():
            state = "deleted"
        shape, dtype = self.kind
        return f"HostBuffer({dtype.name}{list(shape)}, {self.device!r}, {state})"

    # ---- the two faces

    def host_view(self) -> np.ndarray[Any, Any]:
        host = self.host
        if host is None:
            return self._map()
        if not self._frozen:
            # A view, because `host` itself may be the user's own array, which must stay writable.
            host = host.view(np.ndarray)
            host.setflags(write=False)
            self.host = host
            self._frozen = True
        return host

    def _map(self) -> np.ndarray[Any, Any]:
        view = self.view
        shape, dtype = self.kind
        if view is None:
            block = self.block
            if block is None:
                raise deleted_error(self.kind)
            host = self._memory = self.host = np.ndarray(shape, dtype, block)
            self._frozen = True  # blocks lend their memory for reading only
            return host
        # The mapping holds IREE's memory for as long as the array lives. It is seen through a
        # read-only memoryview, or a user could ask NumPy to make the array writable.
        raw = np.asarray(memoryview(view.map()).toreadonly())
        host = raw[: self.nbytes].view(dtype).reshape(shape)
        self._frozen = True
        self._memory = host
        self.host = host
        return host

    def hal_view(self) -> Any:
        """The IREE buffer view, made on first use.

        Small, unaligned and strided arrays are copied into memory of IREE's own. Others are
        imported: IREE's buffer holds a reference to the array until its last user is gone.
        """
        view = self.view
        if view is not None:
            return view
        host = self.host if self.block is None else self.host_view()
        if host is None:
            raise deleted_error(self.kind)
        if host.nbytes <= _SMALL_BYTES:
            view = self.view = hal.start().copied(host)
        elif is_importable(host):
            exported = _exportable(host)
            view = hal.start().imported(exported, host.dtype)
            self._memory = exported
            self.view = view
        else:
            _ = self.kind
            view = self.view = hal.start().copied(host)
            self.host = None  # a view of the copy replaces it, so that the values are there once
        return view

    def native_block(self) -> Any:
        """The block of the native part, made on first use over the same memory where that can be.

        Small, unaligned and strided arrays are copied. The native part has to be there.
        """
        block = self.block
        if block is not None:
            return block
        host = self.host_view()
        if host.nbytes > _SMALL_BYTES and is_importable(host):
            exported = _exportable(host)
            block = block_over(exported)
            if self.view is None:
                self._memory = exported
            self.block = block
        else:
            _ = self.kind
            block = self.block = block_copied(host)
            if host.nbytes > _SMALL_BYTES and self.view is None:
                self.host = None  # the values are there once
        return block

    def prepare(self) -> None:
        """Brings the values to where programs can use them, for several that will."""
        if native().executor is None:
            self.hal_view()
        else:
            self.native_block()

    def alias(self) -> HostBuffer:
        return HostBuffer(self.host_view(), self.device)

    def seen_from(self, device: Device) -> HostBuffer:
        other = HostBuffer(self.host_view(), device)
        if self._memory is not None:  # whose references tell each of the two about the other
            other.view, other.block, other._type = self.view, self.block, self._type
            other._memory, other._frozen = self._memory, True
        return other

    def retained(self) -> HostBuffer:
        if self.view is None and native().executor is not None:
            return HostBuffer(None, self.device, None, self.kind, self.native_block())
        return HostBuffer(None, self.device, self.hal_view(), self.kind)

    def taken(self) -> HostBuffer:
        if self.is_deleted():
            raise deleted_error(self.kind)
        moved = HostBuffer(self.host, self.device, self.view, self.kind, self.block)
        moved._memory, moved._frozen = self._memory, self._frozen
        self.delete()
        return moved

    # ---- who else sees the memory

    def is_shared(self) -> bool:
        """Whether somebody else may see the memory that compiled code would write to.

        Counts the references to the arrays over that memory. The answer may be True without
        need (memory that comes from another library, say), never False when it matters.
        """
        if self.view is not None or self.block is not None:
            array = self._memory
            if array is None:
                return False  # memory of a runtime's own, and no array was ever made over it
        else:
            array = self.host
            if array is None:
                raise deleted_error(self.kind)
        arrays = _chain(array, self.host)
        foreign = arrays[-1].base
        del array
        if foreign is not None and not _is_mapping(foreign):
            return True
        for i in range(len(arrays)):
            # The list, the argument of getrefcount, this buffer's fields, IREE's import, and
            # the arrays of the chain that are views of this one.
            a = arrays[i]
            known = 3 + (a is self.host) + (a is self._memory)
            if a is self._memory and foreign is None:
                known += 1
            known += sum(b.base is a for b in arrays)
            if sys.getrefcount(a) > known:
                return True
        return False

    def _is_imported(self) -> bool:
        return self._memory is not None and not _is_mapping(_chain(self._memory)[-1].base)

    def private_view(self) -> Any:
        """An IREE view of the values that compiled code may overwrite.

        The buffer's own view if it lies in IREE's memory and nobody else sees it; otherwise one
        over a copy. Imported arrays are always copied: IREE refuses some kinds of writing to them.
        """
        view = self.view
        if view is not None and not self._is_imported() and not self.is_shared():
            return view
        return self.copied_view()

    def private_block(self) -> Any:
        """A block of the native part with the values, that compiled code may overwrite.

        The buffer's own memory if nobody else sees it: that of a runtime, or of a NumPy array that
        only this buffer knows; otherwise a copy.
        """
        if not self.is_shared():
            if self.block is not None:
                return self.block
            host = self.host
            if self.view is None and host is not None and host.nbytes > _SMALL_BYTES:
                if is_importable(host):
                    return self.native_block()
        return self.copied_block()

    def copied_block(self) -> Any:
        """A block of the native part with a copy of the values."""
        return block_copied(self.host_view())

    def copied_view(self) -> Any:
        """A view of a copy of the values in memory of IREE's own."""
        return hal.start().copied(self.host_view())

    def detached(self) -> HostBuffer:
        """A buffer with a copy of the values in memory of its own."""
        shape, dtype = kind = self.kind
        if self.nbytes <= _SMALL_BYTES:
            copy = np.empty(shape, dtype)
            if copy.size:
                copy[...] = np.ndarray(shape, dtype, self.hal_view().map())
            return HostBuffer(copy, self.device, None, kind)
        return HostBuffer(None, self.device, self.copied_view(), self.kind)

    def allocation(self) -> tuple[int, int] | None:
        """Address and bytes of the allocation of IREE's that the memory is a part of.

        None where it is an allocation of its own, or none of IREE's.
        """
        place = None if self.view is None else hal.place(self.view)
        if place is None or place[1] <= self.nbytes:
            return None
        return self.memory_span()[0] - place[0], place[1]

    def memory_span(self) -> tuple[int, int]:
        span = self._span
        if span is None:
            view = self.view
            if view is None and self.block is not None:
                low = self.block.address
                span = self._span = (low, low + self.block.nbytes)
                return span
            if view is None:
                low, high = byte_bounds(self.host_view())
                return (low, high) if self.nbytes else (low, low)
            mapped = np.ndarray(view.byte_length, np.uint8, view.map())
            # `mapped.ctypes` would load a module, too.
            low = mapped.__array_interface__["data"][0]
            span = self._span = (low, low + view.byte_length)
        return span

    # ---- life and death

    def is_deleted(self) -> bool:
        return self.host is None and self.view is None and self.block is None

    def delete(self) -> None:
        if not self.is_deleted():
            _ = self.kind  # the message that names the type outlives the array
            self.host = self.view = self.block = self._memory = None

    def block_until_ready(self) -> None:
        if self.is_deleted():
            raise deleted_error(self.kind)


def _is_mapping(owner: object) -> bool:
    """Whether `owner`, the base of an array, is memory of IREE's or of the native part."""
    if isinstance(owner, memoryview):
        owner = owner.obj
    module = native().executor
    return hal.is_mapping(owner) or (module is not None and isinstance(owner, module.Block))


@shutdown.enters_iree
def block_copied(array: np.ndarray[Any, Any]) -> Any:
    """A block of the native part with a copy of the values."""
    if shutdown.is_near:
        shutdown.stop_other_threads()
    return native().executor.Block.copied(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


@shutdown.enters_iree
def block_over(array: np.ndarray[Any, Any]) -> Any:
    """A block of the native part over the memory of a contiguous array, or over a copy of it."""
    if shutdown.is_near:
        shutdown.stop_other_threads()
    return native().executor.Block.over(array, _SMALL_BYTES)


class _Owner:
    """Lets NumPy make a writable array over read-only memory, which it holds meanwhile."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        # Not from the array's own: each time that is asked for, Python's table of strings grows
        # by the names in it, until it is made anew, twice as large for the moment.
        self.__array_interface__ = {
            "version": 3,
            "shape": array.shape,
            "typestr": array.dtype.str,
            "strides": array.strides,
            "data": (array.ctypes.data, False),
        }


def _exportable(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """`array`, or an array over the same memory that NumPy is willing to export to IREE.

    NumPy exports no read-only array this way, and none of a type that is not its own. The
    lowering makes sure that compiled code writes to no argument that was not donated.
    """
    carrier = hal.carrier(array.dtype)
    if carrier is not None:
        array = array.view(carrier)
    elif array.flags.writeable:
        return array
    else:
        array = array.view(np.ndarray)
    try:
        array.setflags(write=True)
    except ValueError:  # the memory itself is read-only: a file mapped for reading, say
        return writable(array)
    return array


class HostMemory:
    """The host's memory, as programs see it that call functions of this process."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def to_host(self, view: Any, kind: ArrayType) -> np.ndarray[Any, Any]:
        """The values of a buffer view, in its own memory."""
        return HostBuffer(None, self._device, view, kind).host_view()

    def from_host(self, array: np.ndarray[Any, Any]) -> Any:
        """A buffer view with a copy of `array` in memory of IREE's own."""
        return hal.start().copied(array)

    def changed(
        self, view: Any, kind: ArrayType, function: Callable[[np.ndarray[Any, Any]], Any]
    ) -> Any:
        """A buffer view with a copy of the values that the function has changed in place."""
        copy = self.from_host(self.to_host(view, kind))
        shape, dtype = kind
        raw = writable(np.asarray(copy.map()))
        function(raw[: math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape))
        return copy

    def filled(
        self,
        kinds: Sequence[ArrayType],
        function: Callable[[list[np.ndarray[Any, Any]]], Any],
    ) -> list[Any]:
        """Buffer views, in memory of IREE's own, with what the function has written there."""
        shared = hal.start()
        views: list[Any] = []
        arrays: list[np.ndarray[Any, Any]] = []
        for shape, dtype in kinds:
            nbytes = math.prod(shape) * dtype.itemsize
            if nbytes <= _SMALL_BYTES:  # copying takes less time than mapping
                views.append(None)
                arrays.append(np.empty(shape, dtype))
            else:
                view = shared.allocated(shape, dtype)
                raw = writable(np.asarray(view.map()))
                views.append(view)
                arrays.append(raw[:nbytes].view(dtype).reshape(shape))
        function(arrays)
        return [
            shared.copied(a) if view is None else view
            for view, a in zip(views, arrays, strict=True)
        ]


class BlockMemory:
    """The host's memory, as programs see it that the native part runs."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def to_host(self, view: Any, kind: ArrayType) -> np.ndarray[Any, Any]:
        """The values of a block, in its own memory."""
        return HostBuffer(None, self._device, None, kind, view).host_view()

    def from_host(self, array: np.ndarray[Any, Any]) -> Any:
        """A block with a copy of `array`."""
        return block_copied(array)

    def changed(
        self, view: Any, kind: ArrayType, function: Callable[[np.ndarray[Any, Any]], Any]
    ) -> Any:
        """A block with a copy of the values that the function has changed in place."""
        copy = native().executor.Block.copied(view)
        function(_over(copy, kind))
        return copy

    def filled(
        self,
        kinds: Sequence[ArrayType],
        function: Callable[[list[np.ndarray[Any, Any]]], Any],
    ) -> list[Any]:
        """Blocks with what the function has written there."""
        empty = native().executor.Block.empty
        blocks = [empty(math.prod(shape) * dtype.itemsize) for shape, dtype in kinds]
        function([_over(b, kind) for b, kind in zip(blocks, kinds, strict=True)])
        return blocks


def _over(block: Any, kind: ArrayType) -> np.ndarray[Any, Any]:
    """A writable array over a block that nobody else has yet."""
    shape, dtype = kind
    if block.nbytes == 0:
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, block.unfinished())


def writable(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A writable array over the memory of a read-only one."""
    return np.asarray(_Owner(array))


def _chain(*starts: np.ndarray[Any, Any] | None) -> list[np.ndarray[Any, Any]]:
    """The distinct arrays among `starts` and their bases, the owner of the memory last."""
    found: list[np.ndarray[Any, Any]] = []
    for array in starts:
        while isinstance(array, np.ndarray):
            if any(array is f for f in found):
                break
            found.append(array)
            array = array.base
    found.sort(key=lambda a: isinstance(a.base, np.ndarray), reverse=True)
    return found


def _address(array: np.ndarray[Any, Any]) -> int:
    if array.flags.writeable and array.flags.c_contiguous and array.dtype.isbuiltin == 1:
        return ctypes.addressof(ctypes.c_char.from_buffer(array.data))
    return array.__array_interface__["data"][0]
