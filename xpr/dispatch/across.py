"""Arrays that are put on devices of several processes, and that move between these.

What is put there must be the same in all processes: each of them keeps the parts of its own
devices, and nothing is sent. To change how an array is spread is a program of all of them.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.host_values import host_value
from xpr.dispatch.parts import put_array
from xpr.dispatch.resharding import reshard_program
from xpr.runtimes import processes
from xpr.runtimes.base import Device
from xpr.sharding import NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding


def check(x: Any, target: Device | Sharding) -> None:
    """Raises what speaks against `device_put` of `x` to that place.

    ValueError for arrays that would have to be sent by a process on its own, AssertionError when
    the processes of a sharding were given different values.
    """
    place = SingleDeviceSharding(target) if isinstance(target, Device) else target
    if isinstance(x, ArrayImpl):
        if x._committed and x.sharding.is_equivalent_to(place, x.ndim):
            return
        if not x.is_fully_addressable:
            _check_spread(x, target)
            return
    if place.is_fully_addressable:
        return
    if isinstance(x, ArrayImpl) and x._committed:
        raise ValueError(
            "device_put's second argument must be a Device or a Sharding which represents "
            f"addressable devices, but got {target!r}: the array is committed to devices of this "
            f"process, {x.sharding}. Use xpr.make_array_from_process_local_data or "
            "xpr.make_array_from_single_device_arrays to make an array of all processes' data."
        )
    together = processes.current
    assert together is not None
    if len({d.process_index for d in place._device_assignment}) == together.count:
        check_same(
            x,
            f"{type(x)} passed to device_put is not the same on each process. Make sure you are "
            f"passing the same value of {type(x)} on each process.",
            "device_put",
        )


def _check_spread(x: ArrayImpl, target: Device | Sharding) -> None:
    """Raises ValueError unless an array of several processes can go where it shall."""
    if isinstance(target, Device):
        raise ValueError(
            "When the second argument to `device_put` is a Device, the first argument must be a "
            "fully addressable array or a non-addressable array with a single device sharding. "
            f"Got value with devices {x.devices()} for {target!r}"
        )
    if not target.is_fully_addressable and target.device_set != x.sharding.device_set:
        raise ValueError(
            "For a cross-host reshard in multi-controller xpr, input and target sharding should "
            f"have the same set of devices. Got input's device set ids: {_ids(x.sharding)} and "
            f"target sharding's device set ids: {_ids(target)}."
        )


def _ids(sharding: Sharding) -> list[int]:
    return [d.id for d in sharding._device_assignment]


def check_same(x: Any, message: str, what: str) -> None:
    """Raises AssertionError with that message unless all processes call this with equal values."""
    together = processes.current
    if together is None:
        return
    aval, host = host_value(x)
    digest = hashlib.sha256(f"{aval.dtype.name}{aval.shape}".encode())
    digest.update(np.ascontiguousarray(host).reshape(-1).view(np.uint8).data)
    kind = aval.strip_weak_type().str_short()
    found = together.gather(digest.digest() + kind.encode(), what=what)
    if len(set(found)) > 1:
        mine = found[together.index]
        other = next(i for i, told in enumerate(found) if told != mine)
        theirs = found[other][digest.digest_size :].decode()
        raise AssertionError(
            f"{message} Process {together.index} has {kind}, process {other} "
            + (theirs if theirs != kind else "other values")
        )


def moved(x: ArrayImpl, target: Sharding, donate: bool) -> ArrayImpl:
    """An array of several processes spread in another way, which all of them have to ask for."""
    if target.is_fully_addressable:
        out = put_array(x, target, donate)
    else:
        out = _respread(x, target)
    if donate:
        x.delete()
    return out


def _respread(x: ArrayImpl, target: Sharding) -> ArrayImpl:
    x._check_alive()
    source = x.sharding
    if source.with_memory_kind(str(target.memory_kind)).is_equivalent_to(target, x.ndim):
        return put_array(x, target)
    if not isinstance(source, NamedSharding) or not isinstance(target, NamedSharding):
        raise ValueError(f"device_put cannot spread an array of {source} as {target}")
    source = source.with_memory_kind("device")
    aval = x.aval.update(sharding=None, memory_space="device")
    program = None
    if source._device_assignment == target._device_assignment:
        try:
            program = reshard_program(aval, source, target.with_memory_kind("device"))
        except ValueError:
            pass  # the axes of their meshes do not nest
    if program is None:
        program = reshard_program(aval, source, NamedSharding(source.mesh, PartitionSpec()))
    (out,) = program([put_array(x, source)])
    return put_array(out, target)


def gathered(x: ArrayImpl) -> np.ndarray[Any, Any]:
    """The whole of an array of several processes, all of which have to ask for it."""
    sharding = x.sharding
    if x.is_fully_replicated and x._buffers:
        return x._value
    if isinstance(sharding, NamedSharding):
        return moved(x, NamedSharding(sharding.mesh, PartitionSpec()), donate=False)._value
    raise ValueError(f"{x.aval.str_short()} with {sharding} is in another process alone")
