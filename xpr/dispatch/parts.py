"""Moving arrays to shardings: each device gets its part from wherever its values lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.errors import shown
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.sharded_array import from_buffers
from xpr.runtimes import registry
from xpr.runtimes.base import Buffer, Device
from xpr.runtimes.host import HostBuffer, aligned_empty, host_copy, is_importable
from xpr.runtimes.memories import HOST_KINDS
from xpr.sharding import NamedSharding, Sharding
from xpr.sharding.mesh import Mesh
from xpr.sharding.spec import UNCONSTRAINED

Box = tuple[tuple[int, int], ...]
"""A part of an array: for each axis the first element and the one past the last."""

# Copying so little when a program needs it aligned costs nothing to speak of.
_SMALL_BYTES = 4096


def box_of(index: tuple[slice, ...], shape: tuple[int, ...]) -> Box:
    """The part of an array of that shape that slices without a step choose."""
    return tuple(s.indices(n)[:2] for s, n in zip(index, shape, strict=True))


def local_boxes(sharding: Sharding, shape: tuple[int, ...]) -> list[tuple[Device, Box]]:
    """The devices of this process and the part that each of them holds, in order."""
    mine = registry.this_process()
    return [
        (device, box_of(index, shape))
        for device, index in sharding.devices_indices_map(shape).items()
        if device.process_index == mine
    ]


def check_fits(name: str, sharding: Sharding, shape: tuple[int, ...]) -> None:
    """Raises ValueError when arrays of that shape cannot be spread as `sharding` says."""
    if isinstance(sharding, NamedSharding):
        if not isinstance(sharding.mesh, Mesh):
            raise ValueError(f"{name} takes a sharding over devices, got {sharding}")
        if UNCONSTRAINED in sharding.spec.partitions:
            raise ValueError(f"{name} must know every axis of the sharding, got {sharding.spec}")
        try:
            sharding.check_compatible_aval(shape)
        except ValueError as error:
            raise ValueError(
                f"One of {name} args is incompatible with its sharding annotation {sharding}: "
                f"{error}"
            ) from None
    sharding.shard_shape(shape)


class _Values:
    """The values of an array, in buffers of devices or in host memory."""

    def __init__(
        self,
        parts: Sequence[tuple[Box, Any]],
        dtype: np.dtype[Any],
        foreign: bool,
        sharding: Sharding,
    ) -> None:
        self.to_host = sharding.memory_kind in HOST_KINDS  # not to the devices' own memory
        self.parts = parts
        self.dtype = dtype
        self.foreign = foreign  # whether somebody else may write to the memory
        # Of parts that several devices have, the first: all of it is needed somewhere, so that
        # sharing its memory holds back none that could be freed.
        self.distinct: dict[Box, Any] = {}
        for box, values in parts:
            self.distinct.setdefault(box, values)
        self.made: dict[Box, HostBuffer] = {}

    def on(self, device: Device, box: Box) -> Buffer | None:
        """The buffer of `device` that holds just this part, if there is one."""
        for found, values in self.parts:
            if found != box or not isinstance(values, Buffer) or values.device is not device:
                continue
            if device.runtime.is_host or (type(values) is HostBuffer) == self.to_host:
                return values
        return None

    def moved(self, device: Device, box: Box) -> Buffer:
        """A buffer on `device` with this part. Host devices share one memory for it."""
        is_host = device.runtime.is_host or self.to_host
        known = self.made.get(box)
        if known is not None and is_host:
            return HostBuffer(known.host_view(), device)
        host, is_ours = self._read(box)
        if self.to_host and not device.runtime.is_host:
            buffer = HostBuffer(host if is_ours else host_copy(host), device)
        else:
            buffer = device.runtime.buffer_from_host(host, device, copy=not is_ours)
        if type(buffer) is HostBuffer:
            self.made[box] = buffer
        return buffer

    def _read(self, box: Box) -> tuple[np.ndarray[Any, Any], bool]:
        """The part on the host, and whether a buffer may use that memory as it is."""
        for found, values in self.distinct.items():
            if all(a <= c and d <= b for (a, b), (c, d) in zip(found, box, strict=True)):
                host = values.host_view() if isinstance(values, Buffer) else values
                inside = tuple(
                    slice(c - a, d - a) for (a, _), (c, d) in zip(found, box, strict=True)
                )
                part = host[inside] if inside else host
                if part.dtype != self.dtype:
                    return part.astype(self.dtype), True
                usable = part.flags.c_contiguous and (
                    part.nbytes <= _SMALL_BYTES or is_importable(part)
                )
                return part, usable and not self.foreign
        return self._put_together(box), True

    def _put_together(self, box: Box) -> np.ndarray[Any, Any]:
        whole = aligned_empty(tuple(b - a for a, b in box), self.dtype)
        count = 0
        for found, values in self.distinct.items():
            low = [max(a, c) for (a, _), (c, _) in zip(found, box, strict=True)]
            high = [min(b, d) for (_, b), (_, d) in zip(found, box, strict=True)]
            if any(lo >= hi for lo, hi in zip(low, high, strict=True)):
                continue
            spans = list(zip(low, high, strict=True))
            there = tuple(
                slice(lo - a, hi - a) for (lo, hi), (a, _) in zip(spans, found, strict=True)
            )
            here = tuple(slice(lo - a, hi - a) for (lo, hi), (a, _) in zip(spans, box, strict=True))
            host = values.host_view() if isinstance(values, Buffer) else values
            whole[here] = host[there]
            count += math.prod(hi - lo for lo, hi in spans)
        if count != whole.size:
            raise RuntimeError(
                f"the part {box} of an array is on devices of other processes, which this one "
                "cannot read"
            )
        return whole


def _spread(
    values: _Values, shape: tuple[int, ...], sharding: Sharding, donate: bool
) -> tuple[Buffer, ...]:
    wanted = local_boxes(sharding, shape)
    there = [values.on(device, box) for device, box in wanted]
    # What is given up goes last, when all others have read it.
    found = [
        values.moved(device, box) if buffer is None else None
        for (device, box), buffer in zip(wanted, there, strict=True)
    ]
    out: list[Buffer] = []
    for buffer, moved in zip(there, found, strict=True):
        if buffer is not None:
            out.append(buffer.taken() if donate else buffer.alias())
        elif moved is not None:
            out.append(moved)
    return tuple(out)


def put_array(x: ArrayImpl, sharding: Sharding, donate: bool = False) -> ArrayImpl:
    """`x` spread as `sharding` says: parts that lie there already stay, others are copied.

    To delete `x` leaves the result as it is, and the other way round.
    """
    x._check_alive()
    shape = x.shape
    here = [box for _, box in local_boxes(x.sharding, shape)]
    values = _Values(list(zip(here, x._buffers, strict=True)), x.dtype, False, sharding)
    return from_buffers(x.aval, _spread(values, shape, sharding, donate), sharding)


def put_host(
    host: np.ndarray[Any, Any], aval: ShapedArray, sharding: Sharding, foreign: bool
) -> ArrayImpl:
    """Host values as an array of type `aval`, spread as `sharding` says.

    They are converted part by part. `foreign` memory, to which its owner may write, is copied.
    """
    values = _Values([(tuple((0, n) for n in aval.shape), host)], aval.dtype, foreign, sharding)
    return from_buffers(aval, _spread(values, aval.shape, sharding, False), sharding)


def check_sharding(name: str, sharding: Any) -> None:
    """Raises TypeError for what is no sharding."""
    if not isinstance(sharding, Sharding):
        raise TypeError(
            f"sharding should be an instance of `jax.sharding`. Got {shown(sharding)} of type "
            f"{type(sharding)} ({name})"
        )
