"""Global arrays made of the arrays of single devices, of a function, or of a process's own data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import tree_util
from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.core.errors import shown
from xpr.core.trace import is_valid_value
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.transfer import device_put
from xpr.runtimes.base import Device
from xpr.sharding import Sharding


def _single_device(function: str, sharding: Any) -> Device:
    if not isinstance(sharding, Sharding):
        raise TypeError(f"{function} takes a Sharding, got {shown(sharding)} of {type(sharding)}")
    devices = sharding.device_set
    if len(devices) != 1:
        raise NotImplementedError(f"{function} takes a sharding of one device, got {sharding}")
    return next(iter(devices))


def _check_dtype(function: str, dtype: Any, found: np.dtype[Any]) -> None:
    if dtype is not None and dtypes.canonicalize(dtype) != found:
        raise ValueError(
            f"{function}: dtype must be that of the parts, got {dtypes.canonicalize(dtype).name} "
            f"for parts of {found.name}"
        )


def _check_shape(function: str, shape: tuple[int, ...], found: tuple[int, ...]) -> None:
    if shape != found:
        raise ValueError(f"{function}: expected a part of shape {shape}, got {found}")


def make_array_from_single_device_arrays(
    shape: Sequence[int],
    sharding: Sharding,
    arrays: Sequence[Any],
    *,
    dtype: Any = None,
) -> ArrayImpl:
    """The array of that `shape` whose parts are `arrays`, one for each device of `sharding`.

    No values are copied. Raises TypeError for parts that are no arrays, ValueError for parts that
    are too many or too few, on other devices, or of another shape or dtype.

    >>> import xpr, xpr.numpy as jnp
    >>> x = jnp.arange(3)
    >>> xpr.make_array_from_single_device_arrays((3,), x.sharding, [x])
    Array([0, 1, 2], dtype=int32)
    """
    name = "make_array_from_single_device_arrays"
    device = _single_device(name, sharding)
    for part in arrays:
        if not isinstance(part, ArrayImpl):
            raise TypeError(f"{name} takes arrays of xpr, got {type(part)}")
    if len(arrays) != 1:
        raise ValueError(f"{name}: expected 1 array, for {device!r}, got {len(arrays)}")
    (part,) = arrays
    if part.device is not device:
        raise ValueError(f"{name}: expected an array on {device!r}, got one on {part.device!r}")
    _check_shape(name, tuple(shape), part.shape)
    _check_dtype(name, dtype, part.dtype)
    part._check_alive()
    aval = ShapedArray(part.shape, part.dtype)
    return ArrayImpl(aval, part._buffers, True, sharding)


def make_array_from_callback(
    shape: Sequence[int],
    sharding: Sharding,
    data_callback: Callable[[tuple[slice, ...]], Any],
    dtype: Any = None,
) -> ArrayImpl:
    """The array of that `shape` whose part at the index `i` is `data_callback(i)`.

    The callback gets a tuple of slices, one for each axis, for each device of `sharding`. Raises
    ValueError for parts of another shape, or of another dtype than that given.

    >>> import numpy as np, xpr
    >>> place = xpr.sharding.SingleDeviceSharding(xpr.devices("cpu")[0])
    >>> xpr.make_array_from_callback((3,), place, lambda i: np.arange(3)[i])
    Array([0, 1, 2], dtype=int32)
    """
    name = "make_array_from_callback"
    device = _single_device(name, sharding)
    shape = tuple(shape)
    part = data_callback((slice(None),) * len(shape))
    if not is_valid_value(part):
        raise TypeError(f"{name}: data_callback must return an array, got {type(part)}")
    out = device_put(part, device)
    _check_shape(name, shape, out.shape)
    _check_dtype(name, dtype, out.dtype)
    return ArrayImpl(ShapedArray(shape, out.dtype), out._buffers, True, sharding)


def make_array_from_process_local_data(
    sharding: Sharding, local_data: Any, global_shape: Any = None
) -> Any:
    """The array, or the pytree of arrays, whose part in this process is `local_data`.

    There is one process, so that the part is the whole: ValueError for another `global_shape`.

    >>> import numpy as np, xpr
    >>> place = xpr.sharding.SingleDeviceSharding(xpr.devices("cpu")[0])
    >>> xpr.make_array_from_process_local_data(place, np.arange(3))
    Array([0, 1, 2], dtype=int32)
    """
    name = "make_array_from_process_local_data"
    leaves, tree = tree_util.tree_flatten(local_data)
    shapes: list[Any] = [None] * len(leaves)
    if global_shape is not None:
        shapes = tree_util.broadcast_prefix(
            global_shape, local_data, is_leaf=lambda s: s is None or isinstance(s, tuple)
        )
    out = []
    for leaf, shape in zip(leaves, shapes, strict=True):
        if shape is not None and tuple(shape) != np.shape(leaf):
            raise ValueError(
                f"{name}: in a single process global_shape must be None or the shape of the data, "
                f"got {tuple(shape)} for data of shape {np.shape(leaf)}"
            )
        out.append(make_array_from_callback(np.shape(leaf), sharding, lambda _, x=leaf: x))
    return tree_util.tree_unflatten(tree, out)
