"""Moving pytrees of arrays between host and devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import tree_util
from xpr.core.errors import shown
from xpr.core.guards import check_transfer
from xpr.core.trace import Tracer, get_aval, is_valid_value
from xpr.dispatch import placement
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.eager import host_value
from xpr.runtimes import registry
from xpr.runtimes.base import Device
from xpr.runtimes.queue import barrier
from xpr.sharding import Sharding


def _as_device(place: Any) -> Device:
    if isinstance(place, Device):
        return place
    if isinstance(place, Sharding):
        devices = place.device_set
        if len(devices) == 1:
            return next(iter(devices))
        raise NotImplementedError(f"device_put to several devices is not supported yet: {place}")
    if isinstance(place, str):
        return registry.devices(place)[0]
    raise ValueError(
        f"device_put: the place must be a Device, a Sharding or None, got {shown(place)} of type "
        f"{type(place)}"
    )


def device_put(
    x: Any,
    device: Any = None,
    *,
    src: Any = None,
    donate: bool = False,
    may_alias: bool | None = None,
) -> Any:
    """The pytree `x` with its leaves as arrays on `device`.

    With a device the arrays are *committed*: work on them stays there. Without one they are
    uncommitted on the default device, and arrays stay where they are. `device` may be a tree of
    places that is a prefix of `x`. Raises TypeError for leaves that are no arrays or numbers.

    >>> import xpr
    >>> xpr.device_put(1.5, xpr.devices()[0]).committed
    True
    """
    del src, may_alias  # hints; copies are avoided wherever nobody can see it
    leaves, tree = tree_util.tree_flatten(x)
    if device is None or isinstance(device, (Device, Sharding, str)):
        places = [device] * len(leaves)
    else:
        places = tree_util.broadcast_prefix(
            device, x, is_leaf=lambda p: p is None or isinstance(p, (Device, Sharding, str))
        )
    return tree_util.tree_unflatten(
        tree, [_put(v, p, donate) for v, p in zip(leaves, places, strict=True)]
    )


def _put(x: Any, place: Any, donate: bool) -> Any:
    if isinstance(x, Tracer):
        # Inside a trace placement is the program's: the value itself is passed on.
        return x
    if not is_valid_value(x):
        raise TypeError(f"device_put takes arrays and numbers, got {shown(x)} of type {type(x)}")
    if isinstance(x, ArrayImpl):
        if place is None:
            return x
        out = placement.to_device(x, _as_device(place), True)
        if out.device is not x.device:
            moved = f"{x.aval} from {x.device!r} to {out.device!r}"
            check_transfer("device_to_device", True, moved)
        if donate and out._buffers[0] is not x._buffers[0]:
            x.delete()
        return out
    aval, host = host_value(x)
    check_transfer("host_to_device", True, str(aval))
    device = placement.default_device() if place is None else _as_device(place)
    # NumPy arrays belong to the caller, who may write to them later.
    foreign = isinstance(x, np.ndarray)
    buffer = device.runtime.buffer_from_host(host, device, copy=foreign)
    return ArrayImpl(aval, (buffer,), place is not None)


def device_get(x: Any) -> Any:
    """The pytree `x` with its arrays as NumPy arrays (read-only views where that needs no copy).

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.device_get({"a": jnp.arange(3)})
    {'a': array([0, 1, 2], dtype=int32)}
    """
    return tree_util.tree_map(_get, x)


def _get(x: Any) -> Any:
    if type(x) is ArrayImpl:
        if not x.device.runtime.is_host:
            check_transfer("device_to_host", True, f"{x.aval} from {x.device!r}")
        return x._value
    return np.asarray(x) if isinstance(x, Tracer) else x


def block_until_ready(x: Any) -> Any:
    """Waits for every array in the pytree `x`, and returns `x`.

    Raises what a program raised that should have computed one of them.
    """
    for leaf in tree_util.tree_leaves(x):
        if isinstance(leaf, ArrayImpl):
            leaf.block_until_ready()
    return x


def effects_barrier() -> None:
    """Waits until every program that was called so far has run, on all devices.

    Raises what a program without results raised meanwhile; others raise when a result is read.
    """
    barrier()


def copy_to_host_async(x: Any) -> Any:
    """Starts copying every array in the pytree `x` to the host, and returns `x`.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.copy_to_host_async({"a": jnp.ones(2)})["a"]
    Array([1., 1.], dtype=float32)
    """
    for leaf in tree_util.tree_leaves(x):
        if isinstance(leaf, ArrayImpl):
            leaf.copy_to_host_async()
    return x


def typeof(x: Any) -> Any:
    """The aval of `x`: its shape, dtype and weak type."""
    return get_aval(x)
