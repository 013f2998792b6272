"""Arrays on several devices: one buffer for each device of this process that holds a part."""

from __future__ import annotations

import weakref
from typing import Any, NoReturn

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.trace import register_aval
from xpr.dispatch.array import ArrayImpl, freeze
from xpr.runtimes.base import Buffer, Device
from xpr.runtimes.host import aligned_empty
from xpr.sharding import Shard, Sharding
from xpr.sharding.base import replica_ids
from xpr.sharding.named import explicit_sharding


class ShardedArrayImpl(ArrayImpl):
    """A concrete array on several devices.

    `_buffers` are in the order of `sharding.local_assignment`. What reads the whole array on the
    host gathers the parts. The gathered values are kept for as long as somebody else holds them
    and no longer, so that an array never takes twice its memory because it was once printed.
    """

    __slots__ = ("_gathered",)

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

    # ---- place

    @property
    def device(self) -> Any:
        """The sharding, since there are several devices."""
        return self._sharding

    def devices(self) -> set[Device]:
        """All devices that hold a part, also those of other processes."""
        return self._sharding.device_set

    @property
    def addressable_shards(self) -> list[Shard]:
        """The parts that this process can reach, in the order of the sharding's devices.

        Their data is the array's own memory: to delete one of them deletes the array.
        """
        return [shard for shard in self.global_shards if shard.data is not None]

    @property
    def global_shards(self) -> list[Shard]:
        """All parts; those of other processes have None for their data."""
        self._check_alive()
        sharding = self._sharding
        mine = dict(zip(sharding.local_assignment, self._buffers, strict=True))
        copies = replica_ids(sharding, self.ndim)
        found = sharding.devices_indices_map(self.shape)
        return [
            Shard(device, index, copy, _part(mine.get(device), self.weak_type))
            for copy, (device, index) in zip(copies, found.items(), strict=True)
        ]

    # ---- values

    @property
    def _value(self) -> np.ndarray[Any, Any]:
        """The whole on the host, read-only; a view of one part where each device has it all.

        Raises RuntimeError when other processes hold a part that this one lacks.
        """
        self._check_alive()
        sharding = self._sharding
        if sharding.is_fully_replicated:
            return self._buffers[0].host_view()
        found = None if self._gathered is None else self._gathered()
        if found is None:
            found = self._gather()
            self._gathered = weakref.ref(found)
        return found

    def _gather(self) -> np.ndarray[Any, Any]:
        sharding = self._sharding
        if not sharding.is_fully_addressable:
            raise RuntimeError(
                "Fetching value for `xpr.Array` that spans non-addressable (non process local) "
                f"devices is not possible: {self.aval} with {sharding}. Read the parts of this "
                "process with `addressable_shards`, or gather the array first with "
                "`xpr.experimental.multihost_utils.process_allgather`."
            )
        indices = sharding.devices_indices_map(self.shape).values()
        whole = aligned_empty(self.shape, self.dtype)
        parts = [
            (buffer, index)
            for buffer, index, copy in zip(
                self._buffers, indices, replica_ids(sharding, self.ndim), strict=True
            )
            if copy == 0
        ]
        for buffer, _ in parts:
            buffer.copy_to_host_async()
        for buffer, index in parts:
            whole[index] = buffer.host_view()
        freeze(whole)
        return whole

    def on_device_size_in_bytes(self) -> int:
        """Bytes that the array takes on all its devices."""
        return self._buffers[0].nbytes * self._sharding.num_devices

    def unsafe_buffer_pointer(self) -> int:
        """Raises RuntimeError: there are several addresses."""
        raise RuntimeError(
            "unsafe_buffer_pointer() is supported only for unsharded arrays, got one with "
            f"{self._sharding}: use x.addressable_shards[i].data"
        )

    def __dlpack__(self, **options: Any) -> NoReturn:
        """Raises BufferError: DLPack has no arrays on several devices."""
        raise self._no_dlpack()

    def __dlpack_device__(self) -> NoReturn:
        raise self._no_dlpack()

    def _no_dlpack(self) -> BufferError:
        return BufferError(
            "__dlpack__ is only supported for arrays on one device, got one with a sharding over "
            f"{self._sharding.num_devices} devices: use x.addressable_shards[i].data"
        )

    def __repr__(self) -> str:
        if self._sharding.is_fully_addressable or self._sharding.is_fully_replicated:
            return super().__repr__()
        return f"Array(shape={self.shape}, dtype={self.dtype.name})"

    def __str__(self) -> str:
        if self._sharding.is_fully_addressable or self._sharding.is_fully_replicated:
            return super().__str__()
        return repr(self)

    def __deepcopy__(self, memo: Any) -> ShardedArrayImpl:
        # The values cannot change, yet a copy must survive the deletion of the original.
        copies = tuple(
            b.device.runtime.buffer_from_host(b.host_view(), b.device, copy=True)
            for b in self._buffers
        )
        return ShardedArrayImpl(self.aval, copies, self._committed, self._sharding)


register_aval(ShardedArrayImpl, lambda x: x.aval)


def _part(buffer: Buffer | None, weak_type: bool) -> ArrayImpl | None:
    """What one device holds, as an array of its own."""
    if buffer is None:
        return None
    return ArrayImpl(ShapedArray(buffer.shape, buffer.dtype, weak_type), (buffer,), True)


def from_buffers(aval: ShapedArray, buffers: tuple[Buffer, ...], sharding: Sharding) -> ArrayImpl:
    """The array of type `aval` spread as `sharding` says, with those parts.

    `buffers` has the part of each device of this process, in order; nothing is checked or copied.
    The type shows the sharding along Explicit mesh axes. On one device it is an ordinary array.
    """
    shown = explicit_sharding(sharding, len(aval.shape))
    if aval.sharding is not shown:
        aval = aval.update(sharding=shown)
    kind = ArrayImpl if sharding.num_devices == 1 else ShardedArrayImpl
    return kind(aval, buffers, True, sharding)
