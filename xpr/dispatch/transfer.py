"""Moving pytrees of arrays between host and devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import tree_util
from xpr.core.array import install_device_put
from xpr.core.errors import shown
from xpr.core.extended_array import ExtendedArray, base_of, mapped
from xpr.core.guards import check_transfer
from xpr.core.memory_spaces import MemorySpace, install_place
from xpr.core.primitive import invalid_argument
from xpr.core.trace import Tracer, context, get_aval, is_valid_value
from xpr.dispatch import memories, placement
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.default_device import default_device
from xpr.dispatch.host_values import host_value
from xpr.dispatch.parts import check_fits, put_array, put_host
from xpr.dispatch.sharded_array import from_buffers
from xpr.primitives.convert import device_put_p
from xpr.primitives.sharding import place as place_traced
from xpr.primitives.sharding import reshard_p, sharding_constraint_p
from xpr.runtimes import processes, registry
from xpr.runtimes.base import Device
from xpr.runtimes.queue import barrier
from xpr.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding
from xpr.sharding.context import over_mesh_in_use
from xpr.sharding.layouts import Format, sharding_of
from xpr.sharding.named import explicit_sharding, is_unreduced


def _is_place(place: Any) -> bool:
    return place is None or isinstance(
        place, (Device, Sharding, PartitionSpec, str, MemorySpace, Format)
    )


def _resolved(place: Any) -> Device | Sharding:
    """A device, or the sharding over a mesh that is meant."""
    if isinstance(place, Device):
        return place
    if isinstance(place, SingleDeviceSharding):
        return place._device if place.memory_kind == "device" else place
    if isinstance(place, Sharding):
        return place
    if isinstance(place, str):
        return registry.first_device(place)
    if isinstance(place, PartitionSpec):
        found = over_mesh_in_use(place)
        if found is None:
            raise ValueError(
                "Please set a mesh via `xpr.set_mesh` if a PartitionSpec is passed to device_put"
            )
        return found
    raise ValueError(
        f"device_put: the place must be a Device, a Sharding, a PartitionSpec or None, got "
        f"{shown(place)} of type {type(place)}"
    )


def device_put(
    x: Any,
    device: Any = None,
    *,
    src: Any = None,
    donate: bool = False,
    may_alias: bool | None = None,
) -> Any:
    """The pytree `x` with its leaves as arrays on `device`, or spread as a sharding says.

    With a device or a sharding the arrays are *committed*: work on them stays there. Without one
    they are uncommitted on the default device, and arrays stay where they are. A `PartitionSpec`
    means the mesh of `xpr.set_mesh`, `xpr.memory.Space.Host` the host's memory beside the array's
    devices. `device` may be a tree of places that is a prefix of `x`.
    An array that is moved from one sharding to another goes part by part, and parts that lie where
    they should stay there; `donate` gives the old array up. The result may share the memory of an
    array, which nobody can see: to delete or donate one of the two leaves the other. It has memory
    of its own when `may_alias` is false. NumPy arrays are always copied. Under `grad` cotangents go
    back to where the value was, or to `src`. Raises TypeError for leaves that are no arrays or
    numbers, ValueError for shapes that a sharding does not divide evenly.

    >>> import xpr
    >>> xpr.device_put(1.5, xpr.devices()[0]).committed
    True
    """
    leaves, tree = tree_util.tree_flatten(x)
    if _is_place(device):
        places = [device] * len(leaves)
    else:
        places = _places_of("device", device, x)
    sources = [src] * len(leaves) if _is_place(src) else _places_of("src", src, x)
    found: list[Any] = []
    for leaf, place, source in zip(leaves, places, sources, strict=True):
        try:
            out = _put(leaf, place, donate, source)
            found.append(_apart(leaf, out) if may_alias is False else out)
        except ValueError as error:
            if len(leaves) > 1:
                path = tree_util.tree_flatten_with_path(x)[0][len(found)][0]
                error.add_note(f"for the leaf {tree_util.keystr(path)} that device_put was given")
            raise
    return tree_util.tree_unflatten(tree, found)


def _apart(x: Any, out: Any) -> Any:
    """`out`, which was made of `x`, in memory of its own."""
    if type(out) is ExtendedArray:
        return mapped(out, lambda base: _apart(base_of(x), base))
    if not isinstance(x, ArrayImpl) or not isinstance(out, ArrayImpl):
        return out  # traced values have no memory, and others are copied
    return out if x is not out and x.is_deleted() else out._copied()


def _places_of(name: str, places: Any, x: Any) -> list[Any]:
    """A place for each leaf of `x`, from a tree of places; ValueError where it is no prefix."""
    errors = tree_util.prefix_errors(places, x, is_leaf=_is_place)
    if errors:
        details = "\n".join(str(found(f"device_put {name}")) for found in errors)
        raise ValueError(
            f"device_put {name} specification must be a tree prefix of the value, got "
            f"specification {shown(places)} for value tree {tree_util.tree_structure(x)}.\n"
            f"Mismatch details ({len(errors)} found):\n{details}"
        )
    return tree_util.broadcast_prefix(places, x, is_leaf=_is_place)


def _put(x: Any, place: Any, donate: bool, src: Any) -> Any:
    if not is_valid_value(x):
        raise invalid_argument(x, "device_put")
    if isinstance(place, Format):
        place = sharding_of(place, get_aval(x))
    if isinstance(x, Tracer):
        return _put_traced(x, place, src)
    if type(x) is ExtendedArray:
        if isinstance(place, Sharding):
            check_fits("device_put", place, x.shape)
        return mapped(x, lambda base: _put(base, place, donate, src))
    if isinstance(place, MemorySpace):
        own = x.sharding if isinstance(x, ArrayImpl) else None
        own = SingleDeviceSharding(default_device()) if own is None else own
        place = own.with_memory_kind(memories.kind_of(place))
    target = None if place is None else _resolved(place)
    if isinstance(target, Sharding):
        check_fits("device_put", target, np.shape(x))
    if processes.current is not None and target is not None:
        from xpr.dispatch import across  # noqa: PLC0415  few programs have several processes

        across.check(x, target)
    return placed(x, target, donate)


def placed(x: Any, target: Device | Sharding | None, donate: bool = False) -> Any:
    """An array or a number where it belongs, or on the default device.

    In a program of several processes each of them has to call this with the same values.
    """
    if isinstance(x, ArrayImpl):
        return x if target is None else _moved(x, target, donate)
    # NumPy arrays belong to the caller, who may write to them later.
    foreign = isinstance(x, np.ndarray)
    if isinstance(target, Sharding):
        aval, host = (get_aval(x), x) if foreign else host_value(x)
        check_transfer("host_to_device", True, str(aval))
        return put_host(host, aval, target, foreign)
    aval, host = host_value(x)
    check_transfer("host_to_device", True, str(aval))
    device = default_device() if target is None else target
    if processes.current is not None and device.process_index != processes.current.index:
        return from_buffers(aval, (), SingleDeviceSharding(device))
    buffer = device.runtime.buffer_from_host(host, device, copy=foreign)
    return ArrayImpl(aval, (buffer,), target is not None)


def _put_traced(x: Tracer, where: Any, src: Any) -> Any:
    """A traced value on other devices.

    Where no program is compiled around it is moved when the function is evaluated. In a program the
    partitioner spreads it so; which single device a program runs on is its caller's to say.
    """
    if where is None:
        return x
    if isinstance(where, MemorySpace):
        memories.kind_of(where)  # raises where it is open
        return _in_space(x, where.value)
    target = _resolved(where)
    kind = target.memory_kind if isinstance(target, Sharding) else "device"
    if context.trace.runs_eagerly():
        there = target if isinstance(target, Sharding) else SingleDeviceSharding(target)
        check_fits("device_put", there, x.shape)
        x = place_traced(
            x, there if kind is None else there.with_memory_kind("device"), _source(src)
        )
    elif isinstance(target, NamedSharding):
        x = _constrained(x, target if kind is None else target.with_memory_kind("device"))
    return _in_space(x, "host" if kind == "pinned_host" else "device")


def _source(src: Any) -> Sharding | None:
    """The sharding to which cotangents go back, if the caller named it."""
    if src is None or isinstance(src, Sharding):
        return src
    found = _resolved(src)
    return found if isinstance(found, Sharding) else SingleDeviceSharding(found)


def _in_space(x: Tracer, space: str) -> Any:
    return x if x.aval.memory_space == space else device_put_p.bind(x, memory_space=space)


def _constrained(x: Tracer, target: NamedSharding) -> Any:
    target.shard_shape(x.shape)  # raises where it does not fit
    shown = explicit_sharding(target, len(x.shape))
    if shown is not None:
        x = reshard_p.bind(x, sharding=shown)
        if not isinstance(target.mesh, Mesh):
            return x
    # Beside a change of type this tells the program its devices, which types do not name.
    return sharding_constraint_p.bind(x, sharding=target, unconstrained_dims=frozenset())


def _moved(x: ArrayImpl, target: Device | Sharding, donate: bool) -> ArrayImpl:
    """`x` on the device, or spread as the sharding says: itself when it is so already."""
    if isinstance(target, Sharding):
        if x._committed and x.sharding == target:
            return x
        if is_unreduced(target):  # the first device along the axes has all, the others nothing
            return reshard_p.bind(x, sharding=target)
        if processes.current is not None and not x.is_fully_addressable:
            from xpr.dispatch import across  # noqa: PLC0415  few programs have several processes

            return across.moved(x, target, donate)
        out = put_array(x, target, donate)
    elif processes.current is not None and target.process_index != processes.current.index:
        return from_buffers(x.aval.update(sharding=None), (), SingleDeviceSharding(target))
    elif type(x) is ArrayImpl:
        out = placement.to_device(x, target, True)
        if x.device is target:
            if donate and out is not x:
                x.delete()
            return out
    else:
        out = put_array(x, SingleDeviceSharding(target), donate)
    if x.sharding.num_devices == 1 or x.sharding.device_set != out.sharding.device_set:
        # Among the same devices of a mesh an array is spread in another way, and moves nowhere.
        check_transfer("device_to_device", True, f"{x.aval} from {x.device!r} to {out.device!r}")
    if donate:
        x.delete()
    return out


def device_get(x: Any) -> Any:
    """The pytree `x` with its arrays as NumPy arrays (read-only views where that needs no copy).

    Traced arrays, whose values are not known, and other leaves stay what they are.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.device_get({"a": jnp.arange(3)})
    {'a': array([0, 1, 2], dtype=int32)}
    """
    return tree_util.tree_map(_get, x)


def _get(x: Any) -> Any:
    if isinstance(x, ArrayImpl):
        if not all(b.device.runtime.is_host for b in x._buffers):
            check_transfer("device_to_host", True, f"{x.aval} from {x.device!r}")
        return x._value
    return x


def block_until_ready(x: Any) -> Any:
    """Waits for every array in the pytree `x`, and returns `x`.

    Raises what a program raised that should have computed one of them.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.block_until_ready({"w": jnp.ones(2)})
    {'w': Array([1., 1.], dtype=float32)}
    """
    for leaf in tree_util.tree_leaves(x):
        if isinstance(leaf, (ArrayImpl, ExtendedArray)):
            leaf.block_until_ready()
    return x


def effects_barrier() -> None:
    """Waits until every program that was called so far has run, on all devices.

    Raises what a program without results raised meanwhile; others raise when a result is read.

    >>> import xpr
    >>> xpr.effects_barrier()
    """
    barrier()


def copy_to_host_async(x: Any) -> Any:
    """Starts copying every array in the pytree `x` to the host, and returns `x`.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.copy_to_host_async({"a": jnp.ones(2)})["a"]
    Array([1., 1.], dtype=float32)
    """
    for leaf in tree_util.tree_leaves(x):
        # Arrays of other libraries may have the method, too.
        if hasattr(type(leaf), "copy_to_host_async") or hasattr(leaf, "copy_to_host_async"):
            leaf.copy_to_host_async()
    return x


def typeof(x: Any) -> Any:
    """The aval of `x`: its shape, dtype and weak type.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.typeof(jnp.ones((2, 3))), xpr.typeof(1.0)
    (ShapedArray(float32[2,3]), ShapedArray(float32[], weak_type=True))
    """
    return get_aval(x)


install_device_put(device_put)
install_place(device_put)
