"""Arrays on several devices: one buffer for each device of this process that holds a part."""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.trace import register_aval
from xpr.dispatch.array import ArrayImpl, freeze
from xpr.runtimes.base import Buffer, Device
from xpr.runtimes.extension import native
from xpr.runtimes.host import HostBuffer, aligned_empty, host_copy
from xpr.runtimes.memories import HOST_KINDS
from xpr.sharding import Shard, Sharding, SingleDeviceSharding
from xpr.sharding.base import Index, replica_ids
from xpr.sharding.named import explicit_sharding, is_unreduced


class ShardedArrayImpl(ArrayImpl):
    """A concrete array on the devices of a mesh, or on devices of other processes.

    `_buffers` are in the order of `sharding.local_assignment`; a process that has none of the
    devices has none of the buffers either. What reads the whole array on the host gathers the
    parts. The gathered values are kept for as long as somebody else holds them and no longer, so
    that an array never takes twice its memory because it was once printed.
    """

    __slots__ = ("_deleted", "_gathered")

    _sharding: Sharding

    def __init__(
        self,
        aval: ShapedArray,
        buffers: tuple[Buffer, ...],
        committed: bool = True,
        sharding: Sharding | None = None,
    ) -> None:
        if sharding is None:
            raise TypeError("an array on several devices needs a sharding, got None")
        super().__init__(aval, buffers, committed, sharding)
        self._gathered: weakref.ref[np.ndarray[Any, Any]] | None = None
        self._deleted = False  # what buffers know themselves, where there are any

    # ---- place

    @property
    def device(self) -> Any:
        """The sharding, since there are several devices; a single one of another process."""
        sharding = self._sharding
        return sharding._device_assignment[0] if sharding.num_devices == 1 else sharding

    def devices(self) -> set[Device]:
        """All devices that hold a part, also those of other processes."""
        return self._sharding.device_set

    def platform(self) -> str:
        """The platform of the array's devices."""
        return self._sharding._device_assignment[0].platform

    @property
    def addressable_shards(self) -> list[Shard]:
        """The parts that this process can reach, in the order of the sharding's devices.

        Their data lie in the array's memory; to delete or donate one of them leaves the array.
        """
        return [shard for shard in self.global_shards if shard.data is not None]

    @property
    def global_shards(self) -> list[Shard]:
        """All parts; those of other processes have None for their data."""
        self._check_alive()
        sharding = self._sharding
        mine = dict(zip(sharding.local_assignment, self._buffers, strict=True))
        if is_unreduced(sharding):
            return [
                PartOfSum(device, sharding, _part(mine.get(device), self.weak_type))
                for device in sharding._device_assignment
            ]
        copies = replica_ids(sharding, self.ndim)
        found = sharding.devices_indices_map(self.shape)
        return [
            Shard(device, index, copy, _part(mine.get(device), self.weak_type))
            for copy, (device, index) in zip(copies, found.items(), strict=True)
        ]

    # ---- life time

    def delete(self) -> None:
        """Frees the memory at once, that of this process; the array cannot be used afterwards."""
        self._deleted = True
        super().delete()

    def is_deleted(self) -> bool:
        return self._deleted or super().is_deleted()

    # ---- values

    @property
    def _value(self) -> np.ndarray[Any, Any]:
        """The whole on the host, read-only; a view of one part where each device has it all.

        Raises RuntimeError when other processes hold a part that this one lacks, and
        NotImplementedError for an array that is unreduced: nobody has its values.
        """
        self._check_alive()
        sharding = self._sharding
        if is_unreduced(sharding):
            raise NotImplementedError(
                f"the values of an unreduced array are on no device, only parts of sums: {self!r}. "
                "Complete the sums with xpr.sharding.reshard, or read the parts with "
                "x.addressable_shards[i].data"
            )
        if sharding.is_fully_replicated and self._buffers:
            return self._buffers[0].host_view()
        found = None if self._gathered is None else self._gathered()
        if found is None:
            found = self._gather()
            self._gathered = weakref.ref(found)
        return found

    def _gather(self) -> np.ndarray[Any, Any]:
        parts = self._distinct_parts()
        if parts is None:
            raise _elsewhere("Fetching value for", self)
        whole = aligned_empty(self.shape, self.dtype)
        for buffer, _ in parts:
            buffer.copy_to_host_async()
        for buffer, index in parts:
            whole[index] = buffer.host_view()
        freeze(whole)
        return whole

    def _distinct_parts(self) -> list[tuple[Buffer, Index]] | None:
        """Each different part once, with its place; None if only other processes hold some."""
        sharding = self._sharding
        positions = sharding.shard_positions(self.ndim)
        indices = sharding.shard_indices(self.shape)
        mine = dict(zip(sharding.local_assignment, self._buffers, strict=True))
        found: dict[tuple[int, ...], tuple[Buffer, Index]] = {}
        for device, position, index in zip(
            sharding._device_assignment, positions, indices, strict=True
        ):
            buffer = mine.get(device)
            if buffer is not None:
                found.setdefault(position, (buffer, index))
        return list(found.values()) if len(found) == len(set(positions)) else None

    def on_device_size_in_bytes(self) -> int:
        """Bytes that the array takes on all its devices."""
        part = math.prod(self._sharding.shard_shape(self.shape))
        return part * self.dtype.itemsize * self._sharding.num_devices

    def _is_here_alone(self) -> bool:
        """Whether it is on one device, of this process."""
        return self._sharding.num_devices == 1 and bool(self._buffers)

    def unsafe_buffer_pointer(self) -> int:
        """The address on the one device; RuntimeError for several devices, which have several."""
        if self._is_here_alone():
            return super().unsafe_buffer_pointer()
        raise RuntimeError(
            "unsafe_buffer_pointer() is supported only for unsharded arrays, got one with "
            f"{self._sharding}: use x.addressable_shards[i].data"
        )

    def __dlpack__(self, **options: Any) -> Any:
        """Raises BufferError for several devices, of which DLPack has no arrays."""
        if self._is_here_alone():
            return super().__dlpack__(**options)
        raise self._no_dlpack()

    def __dlpack_device__(self) -> Any:
        if self._is_here_alone():
            return super().__dlpack_device__()
        raise self._no_dlpack()

    def _no_dlpack(self) -> BufferError:
        return BufferError(
            "__dlpack__ is only supported for arrays on one device, got one with a sharding over "
            f"{self._sharding.num_devices} devices: use x.addressable_shards[i].data"
        )

    def _is_shown(self) -> bool:
        """Whether this process has the values that a text would show."""
        sharding = self._sharding
        if is_unreduced(sharding):
            return False
        return sharding.is_fully_addressable or (
            sharding.is_fully_replicated and bool(self._buffers)
        )

    def __repr__(self) -> str:
        if is_unreduced(self._sharding):
            weak = ", weak_type=True" if self.weak_type else ""
            return (
                f"Array(shape={self.shape}, dtype={self.dtype.name}{weak}, "
                f"sharding={self._sharding})"
            )
        if self._is_shown() or self.is_deleted():
            return super().__repr__()
        return f"Array(shape={self.shape}, dtype={self.dtype.name})"

    def _repr_html_(self) -> str:
        from xpr.dispatch.html import array_html  # noqa: PLC0415  only notebooks ask for it

        if self.is_deleted():
            return array_html(repr(self), None)
        about = f"{self.aval.str_short()}, {self._sharding}"
        return array_html(about, self._value if self._is_shown() else None)

    def __str__(self) -> str:
        return super().__str__() if self._is_shown() else repr(self)

    def __format__(self, spec: str) -> str:
        return super().__format__(spec) if self._is_shown() else format(repr(self), spec)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._sharding.is_fully_addressable or self._distinct_parts() is not None:
            return super().__reduce__()
        raise _elsewhere("Pickling", self)

    def _copied(self) -> ShardedArrayImpl:
        copies = tuple(
            HostBuffer(host_copy(b.host_view()), b.device)
            if type(b) is HostBuffer
            else b.device.runtime.buffer_from_host(b.host_view(), b.device, copy=True)
            for b in self._buffers
        )
        return type(self)(self.aval, copies, self._committed, self._sharding)


class PartOfSum(Shard):
    """What one device holds of an array that is unreduced.

    `device` and `data` are there; it is no part of the whole, and so has no place in it.
    """

    def __init__(self, device: Device, sharding: Sharding, data: Any) -> None:
        self.device = device
        self.data = data
        self._sharding = sharding

    def __getattribute__(self, name: str) -> Any:
        if name in ("index", "replica_id"):
            raise NotImplementedError(
                f"{name}: no part of an unreduced array is a part of the whole: "
                f"{object.__getattribute__(self, '_sharding')}"
            )
        return object.__getattribute__(self, name)


class HostMemoryArray(ShardedArrayImpl):
    """An array on one device or several that lies in the host's memory beside theirs.

    On devices whose memory is the host's that is a name it carries; `memories.py` computes with it.
    """

    __slots__ = ()

    @property
    def device(self) -> Any:
        """The device if there is one, else the sharding."""
        return super().device if self._sharding.num_devices > 1 else self._buffers[0].device

    @property
    def global_shards(self) -> list[Shard]:
        """All parts; those of other processes have None for their data."""
        kind = self._sharding.memory_kind
        return [
            s
            if s.data is None or type(s) is not Shard
            else Shard(
                s.device,
                s.index,
                s.replica_id,
                from_buffers(s.data.aval, s.data._aliases(), _beside(s.device, kind)),
            )
            for s in super().global_shards
        ]


def _beside(device: Device, kind: str | None) -> Sharding:
    return SingleDeviceSharding(device, memory_kind=kind)


register_aval(HostMemoryArray, lambda x: x.aval)
register_aval(ShardedArrayImpl, lambda x: x.aval)
if native().module is not None:
    native().module.learn_sharded_arrays(ShardedArrayImpl)


def _elsewhere(what: str, x: ShardedArrayImpl) -> RuntimeError:
    sharding = x._sharding
    others = sorted({d.process_index for d in sharding._device_assignment})
    return RuntimeError(
        f"{what} `xpr.Array` that spans non-addressable (non process local) devices is not "
        f"possible: {x.aval} with {sharding} is on devices of the processes {others}. Read the "
        "parts of this process with `addressable_shards`, or gather the array first with "
        "`xpr.experimental.multihost_utils.process_allgather`."
    )


def _part(buffer: Buffer | None, weak_type: bool) -> ArrayImpl | None:
    """What one device holds, as an array of its own."""
    if buffer is None:
        return None
    return ArrayImpl(ShapedArray(buffer.shape, buffer.dtype, weak_type), (buffer.alias(),), True)


def from_buffers(aval: ShapedArray, buffers: tuple[Buffer, ...], sharding: Sharding) -> ArrayImpl:
    """The array of type `aval` spread as `sharding` says, with those parts.

    `buffers` has the part of each device of this process, in order; nothing is checked or copied.
    The type shows the sharding along Explicit mesh axes. On one device without a mesh it is an
    ordinary array, unless it is a device of another process.
    """
    shown = explicit_sharding(sharding, len(aval.shape))
    if aval.sharding is not shown:
        aval = aval.update(sharding=shown)
    if sharding.memory_kind in HOST_KINDS:
        space = "host" if sharding.memory_kind == "pinned_host" else "device"
        aval = aval.update(memory_space=space)
        return HostMemoryArray(aval, buffers, True, sharding)
    if aval.memory_space != "device":
        aval = aval.update(memory_space="device")
    kind = ArrayImpl if isinstance(sharding, SingleDeviceSharding) and buffers else ShardedArrayImpl
    return kind(aval, buffers, True, sharding)
