"""Global arrays made of the arrays of single devices, of a function, or of a process's own data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import tree_util
from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.core.errors import UnexpectedTracerError, shown
from xpr.core.trace import Tracer, get_aval, is_valid_value
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.host_values import host_value
from xpr.dispatch.parts import Box, box_of, check_sharding, local_boxes
from xpr.dispatch.sharded_array import ShardedArrayImpl, from_buffers
from xpr.primitives._index_dims import canonicalize_shape
from xpr.runtimes.base import Buffer, Device
from xpr.runtimes.host import HostBuffer
from xpr.sharding import PartitionSpec, Sharding, SingleDeviceSharding
from xpr.sharding.context import over_mesh_in_use
from xpr.sharding.layouts import Format, concrete_sharding


def _check_dtype(function: str, dtype: Any, found: np.dtype[Any]) -> None:
    if dtype is not None and dtypes.canonicalize(dtype) != found:
        raise ValueError(
            f"{function}: dtype must be that of the parts, got {dtypes.canonicalize(dtype).name} "
            f"for parts of {found.name}"
        )


def _check_part(
    part: tuple[tuple[int, ...], np.dtype[Any]], shape: tuple[int, ...], sharding: Sharding,
    dtype: np.dtype[Any],
) -> None:  # fmt: skip
    """Raises ValueError for a part of another shape or dtype than it should have."""
    expected = sharding.shard_shape(shape)
    if part[0] != expected:
        raise ValueError(
            f"Expected shard shape {expected} doesn't match the single device array shape "
            f"{part[0]}. Shape of Array is {ShapedArray(shape, dtype)} with sharding {sharding}"
        )
    if part[1] != dtype:
        raise ValueError(
            f"Input buffers to `Array` must have matching dtypes. Got {part[1].name}, expected "
            f"{dtype.name}"
        )


def make_array_from_single_device_arrays(
    shape: Sequence[int],
    sharding: Sharding,
    arrays: Sequence[Any],
    *,
    dtype: Any = None,
) -> ArrayImpl:
    """The array of that `shape` whose parts are `arrays`, one for each device of `sharding`.

    They may come in any order; each belongs to its device. No values are copied: to delete a part
    deletes the array. In a program of several processes each gives the parts of its own devices,
    and `dtype` where it has none. Raises TypeError for parts that are no arrays, ValueError for
    parts that are too many or too few, on other devices, or of another shape or dtype.

    >>> import xpr, xpr.numpy as jnp
    >>> x = jnp.arange(3)
    >>> xpr.make_array_from_single_device_arrays((3,), x.sharding, [x])
    Array([0, 1, 2], dtype=int32)
    """
    name = "make_array_from_single_device_arrays"
    whole = canonicalize_shape(name, shape)
    check_sharding(name, sharding)
    if not isinstance(arrays, (list, tuple)):
        raise TypeError(f"{name}: `arrays` must be a list or tuple, got {type(arrays)}")
    sharding.shard_shape(whole)
    parts: dict[Device, ArrayImpl] = {}
    for part in arrays:
        if not isinstance(part, ArrayImpl):
            raise TypeError(f"{name} takes arrays of xpr, got {type(part)}")
        if isinstance(part, ShardedArrayImpl) and part.sharding.num_devices > 1:
            raise ValueError(
                f"{name}: the arrays must have one shard each, got one with "
                f"{len(part._buffers)} shards"
            )
        part._check_alive()
        parts[part._buffers[0].device] = part
    devices = sharding.local_assignment
    if len(arrays) != len(devices):
        raise ValueError(
            f"{name}: expected {len(devices)} arrays (this is how many devices of the sharding "
            f"belong to this process), got {len(arrays)}"
        )
    if len(parts) != len(arrays):
        ids = [part.device.id for part in arrays]
        raise ValueError(f"{name}: the arrays must be on distinct devices, got device ids {ids}")
    for device in devices:
        if device not in parts:
            found = ", ".join(map(repr, parts))
            raise ValueError(f"{name}: expected an array on {device!r}, got arrays on {found}")
    if arrays:
        kind = next(iter(parts.values())).dtype
        _check_dtype(name, dtype, kind)
    elif dtype is None:
        raise ValueError(f"{name}: dtype must be given where a process has no part of the array")
    else:
        kind = dtypes.canonicalize(dtype)
    for part in parts.values():
        _check_part((part.shape, part.dtype), whole, sharding, kind)
        if part.sharding.memory_kind != sharding.memory_kind:
            raise ValueError(
                f"{name}: memory kind mismatch. Got sharding with memory kind "
                f"'{sharding.memory_kind}' and an array with memory kind "
                f"'{part.sharding.memory_kind}'"
            )
    buffers = tuple(parts[device]._buffers[0].alias() for device in devices)
    return from_buffers(ShapedArray(whole, kind), buffers, sharding)


def make_array_from_callback(
    shape: Sequence[int],
    sharding: Sharding | Format,
    data_callback: Callable[[tuple[slice, ...]], Any],
    dtype: Any = None,
) -> ArrayImpl:
    """The array of that `shape` whose part at the index `i` is `data_callback(i)`.

    The callback gets a tuple of slices, one for each axis, and is called once for each different
    part that devices of this process hold. Nothing but the parts is kept, so that the whole never
    takes memory in one place. Raises ValueError for parts of another shape, or of another dtype
    than that given.

    >>> import numpy as np, xpr
    >>> place = xpr.sharding.SingleDeviceSharding(xpr.devices("cpu")[0])
    >>> xpr.make_array_from_callback((3,), place, lambda i: np.arange(3)[i])
    Array([0, 1, 2], dtype=int32)
    """
    name = "make_array_from_callback"
    if not isinstance(sharding, Format):
        check_sharding(name, sharding)
    whole = tuple(shape)
    place: Any = concrete_sharding(sharding, whole, name)
    check_sharding(name, place)
    place.shard_shape(whole)
    kind = None if dtype is None else dtypes.canonicalize(dtype)
    indices = place.devices_indices_map(whole)
    made: dict[Box, list[Buffer]] = {}
    buffers: list[Buffer] = []
    for device in place.local_assignment:
        known = made.setdefault(box_of(indices[device], whole), [])
        if known:
            buffers.append(_copy_for(device, known))
            continue
        buffer = _buffer_from(data_callback, indices[device], device)
        if kind is None:
            kind = buffer.dtype
        _check_dtype(name, dtype, buffer.dtype)
        _check_part((buffer.shape, buffer.dtype), whole, place, kind)
        known.append(buffer)
        buffers.append(buffer)
    if kind is None:
        raise ValueError(f"{name}: dtype must be given where a process has no part of the array")
    return from_buffers(ShapedArray(whole, kind), tuple(buffers), place)


def _buffer_from(
    data_callback: Callable[[tuple[slice, ...]], Any], index: tuple[slice, ...], device: Device
) -> Buffer:
    """A buffer on `device` with what the callback returns, which lives no longer than this call."""
    part = data_callback(index)
    if isinstance(part, Tracer):
        raise UnexpectedTracerError(
            "make_array_from_callback cannot be called within a traced context: data_callback "
            f"returned {shown(part)} of type {type(part).__name__}, which has no value yet. Call "
            "it outside of jit and of other transformations"
        )
    if not is_valid_value(part):
        raise TypeError(
            "make_array_from_callback: data_callback must return an array, got "
            f"{shown(part)} of {type(part)}"
        )
    if type(part) is ArrayImpl and part._buffers[0].device is device:
        return part._buffers[0].alias()
    _, host = host_value(part)
    # The owner of a NumPy array may write to it later.
    foreign = isinstance(part, np.ndarray) and np.may_share_memory(host, part)
    return device.runtime.buffer_from_host(host, device, copy=foreign)


def _copy_for(device: Device, known: list[Buffer]) -> Buffer:
    """Another buffer with the values of those known; host devices share one memory."""
    first = known[0]
    host = first.host_view()
    if device.runtime.is_host and type(first) is HostBuffer:
        return HostBuffer(host, device)
    return device.runtime.buffer_from_host(host, device, copy=True)


def make_array_from_process_local_data(
    sharding: Sharding | PartitionSpec | Device, local_data: Any, global_shape: Any = None
) -> Any:
    """The array, or the pytree of arrays, whose part in this process is `local_data`.

    Along each axis the data is the whole, or what this process's devices hold of it together; in
    a program of one process that is the same. Without `global_shape` the latter is assumed. A
    `PartitionSpec` means the mesh of `xpr.set_mesh`.
    Raises ValueError for data of another shape.

    >>> import numpy as np, xpr
    >>> place = xpr.sharding.SingleDeviceSharding(xpr.devices("cpu")[0])
    >>> xpr.make_array_from_process_local_data(place, np.arange(3))
    Array([0, 1, 2], dtype=int32)
    """
    name = "make_array_from_process_local_data"
    if isinstance(sharding, PartitionSpec):
        found = over_mesh_in_use(sharding)
        if found is None:
            raise ValueError(
                f"Please set a mesh via `xpr.set_mesh` if a PartitionSpec is passed to {name}"
            )
        sharding = found
    if isinstance(sharding, Device):
        sharding = SingleDeviceSharding(sharding)
    check_sharding(name, sharding)
    leaves, tree = tree_util.tree_flatten(local_data)
    shapes: list[Any] = [None] * len(leaves)
    if global_shape is not None:
        shapes = tree_util.broadcast_prefix(
            global_shape, local_data, is_leaf=lambda s: s is None or isinstance(s, tuple)
        )
    out = [_from_local(sharding, leaf, s) for leaf, s in zip(leaves, shapes, strict=True)]
    return tree_util.tree_unflatten(tree, out)


def _from_local(sharding: Sharding, data: Any, global_shape: Any) -> ArrayImpl:
    name = "make_array_from_process_local_data"
    local = np.shape(data)
    counts, numbers = _local_parts(sharding, len(local))
    if global_shape is None:
        if not all(numbers):
            raise ValueError(
                f"{name}: global_shape must be given to a process without a device of {sharding}"
            )
        for axis, (size, held) in enumerate(zip(local, numbers, strict=True)):
            if size % len(held):
                raise ValueError(
                    f"{name}: axis {axis} of the data has size {size}, which the {len(held)} "
                    f"parts of this process do not divide: data of shape {local} for {sharding}"
                )
        shape = tuple(
            size // len(held) * count
            for size, held, count in zip(local, numbers, counts, strict=True)
        )
    else:
        shape = tuple(global_shape)
    if len(shape) != len(local):
        raise ValueError(f"{name}: global_shape {shape} has another rank than the data, {local}")
    part = sharding.shard_shape(shape)
    # Where each part of each axis begins in the data.
    starts: list[dict[int, int]] = []
    for axis, (size, held) in enumerate(zip(local, numbers, strict=True)):
        if size == shape[axis]:
            starts.append({i * part[axis]: i * part[axis] for i in held})
        elif size == part[axis] * len(held):
            starts.append({i * part[axis]: k * part[axis] for k, i in enumerate(held)})
        else:
            raise ValueError(
                f"{name}: along axis {axis} the data must be the whole, {shape[axis]}, or what "
                f"this process holds, {part[axis]} times {len(held)} (parts {held}); got "
                f"{tuple(shape)} for data of shape {local} in a sharding {sharding}"
            )

    def of(index: tuple[slice, ...]) -> Any:
        box = box_of(index, shape)
        return data[tuple(slice(s[a], s[a] + b - a) for (a, b), s in zip(box, starts, strict=True))]

    kind = get_aval(data).dtype
    return make_array_from_callback(shape, sharding, of if shape else lambda _: data, kind)


def _local_parts(sharding: Sharding, ndim: int) -> tuple[tuple[int, ...], list[list[int]]]:
    """Into how many parts each axis is cut, and the numbers of those that this process holds."""
    counts = sharding.shard_counts(ndim)
    unit = local_boxes(sharding, counts)  # with one element in each part
    numbers = [sorted({box[axis][0] for _, box in unit}) for axis in range(ndim)]
    return counts, [
        list(range(n)) if n == 1 else held for n, held in zip(counts, numbers, strict=True)
    ]
