"""What the processes of a program tell each other outside of programs, under JAX's names.

In a program of one process each of these functions gives what it would give for one of many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from xpr import tree_util
from xpr.core import dtypes
from xpr.core.trace import Tracer
from xpr.dispatch.across import check_same, gathered
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.host_values import host_value
from xpr.dispatch.process_parts import as_global, as_local
from xpr.dispatch.transfer import device_put
from xpr.runtimes import processes
from xpr.sharding import Mesh, NamedSharding, PartitionSpec

__all__ = [
    "assert_equal",
    "broadcast_one_to_all",
    "global_array_to_host_local_array",
    "host_local_array_to_global_array",
    "live_devices",
    "process_allgather",
    "reached_preemption_sync_point",
    "sync_global_devices",
]


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """What all processes have: the leaves of the pytree `in_tree` as NumPy arrays.

    An array of one process, which must have the same shape in all of them, gets an axis in front,
    of a size that is the number of processes; with `tiled` they are joined along its first axis
    instead. Of an array over devices of several processes, for which `tiled` must be True, the
    whole is given. Raises ValueError for other shapes.

    >>> import numpy as np
    >>> from xpr.experimental import multihost_utils
    >>> multihost_utils.process_allgather(np.arange(3))
    array([[0, 1, 2]], dtype=int32)
    """
    return tree_util.tree_map(lambda x: _gathered(x, tiled), in_tree)


def _gathered(x: Any, tiled: bool) -> np.ndarray[Any, Any]:
    if isinstance(x, ArrayImpl) and not x.is_fully_addressable:
        if not tiled:
            raise ValueError(
                "Gathering global non-fully-addressable arrays only supports tiled=True, got "
                f"tiled=False for {x.aval.str_short()}"
            )
        return gathered(x)
    found = _of_each(x, "process_allgather")
    if tiled and found[0].ndim:
        return np.concatenate(found)
    return np.stack(found)


def _of_each(x: Any, what: str) -> list[np.ndarray[Any, Any]]:
    """The array of every process; ValueError where their types differ."""
    aval, host = host_value(x)
    together = processes.current
    if together is None:
        return [np.array(host)]
    kind = f"{aval.dtype.name}{list(aval.shape)}"
    head = kind.encode() + b"\n"
    told = together.gather(head + np.ascontiguousarray(host).tobytes(), what=what)
    found = []
    for process, text in enumerate(told):
        other, _, data = text.partition(b"\n")
        if other.decode() != kind:
            raise ValueError(
                f"{what} needs arrays of the same type in all processes: process "
                f"{together.index} has {kind}, process {process} {other.decode()}"
            )
        found.append(np.frombuffer(data, aval.dtype).reshape(aval.shape))
    return found


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """The pytree of one process, in all of them, with NumPy arrays for leaves.

    The source is process 0, or the one where `is_source` is True. The others pass a tree of the
    same structure, with arrays of the same shapes and dtypes. Raises ValueError for other shapes,
    and where the source is not just one.

    >>> from xpr.experimental import multihost_utils
    >>> multihost_utils.broadcast_one_to_all({"seed": 3})
    {'seed': array(3, dtype=int32)}
    """
    leaves, tree = tree_util.tree_flatten(in_tree)
    together = processes.current
    index = 0 if together is None else together.index
    if is_source is None:
        is_source = index == 0
    # The first byte tells the source, so that all know where there are none or several.
    sources = _sources(is_source)
    if len(sources) != 1:
        raise ValueError(
            f"broadcast_one_to_all needs one source, got {len(sources)}: the processes {sources}"
        )
    (source,) = sources
    found = [_of_one(x, index == source, source) for x in leaves]
    return tree_util.tree_unflatten(tree, found)


def _sources(is_source: bool) -> list[int]:
    together = processes.current
    if together is None:
        return [0] if is_source else []
    told = together.gather(b"\x01" if is_source else b"\x00", what="broadcast_one_to_all")
    return [i for i, t in enumerate(told) if t == b"\x01"]


def _of_one(x: Any, is_source: bool, source: int) -> np.ndarray[Any, Any]:
    """The array of the process `source`."""
    aval, host = host_value(x)
    together = processes.current
    if together is None:
        return np.array(host)
    kind = f"{aval.dtype.name}{list(aval.shape)}"
    data = np.ascontiguousarray(host).tobytes() if is_source else b""
    told = together.gather(kind.encode() + b"\n" + data, what="broadcast_one_to_all")
    for process, text in enumerate(told):
        other = text.partition(b"\n")[0].decode()
        if other != kind:
            raise ValueError(
                "broadcast_one_to_all needs arrays of the same type in all processes: process "
                f"{together.index} has {kind}, process {process} {other}"
            )
    value = np.frombuffer(told[source].partition(b"\n")[2], aval.dtype)
    return np.array(value.reshape(aval.shape))


def sync_global_devices(name: str) -> None:
    """Waits until all processes have called it; AssertionError where they give other names.

    >>> from xpr.experimental import multihost_utils
    >>> multihost_utils.sync_global_devices("data loaded")
    """
    together = processes.current
    if together is None:
        return
    names = [t.decode() for t in together.gather(name.encode(), what="sync_global_devices")]
    for process, other in enumerate(names):
        if other != name:
            raise AssertionError(
                f"sync_global_devices name mismatch: process {together.index} is at {name!r}, "
                f"process {process} at {other!r}"
            )


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """AssertionError with `fail_message` unless all processes have equal values in `in_tree`.

    >>> from xpr.experimental import multihost_utils
    >>> multihost_utils.assert_equal({"step": 3}, "the processes are at different steps")
    """
    for path, x in tree_util.tree_flatten_with_path(in_tree)[0]:
        place = tree_util.keystr(path)
        message = f"{fail_message}." if fail_message else "assert_equal:"
        if place:
            message += f" At {place}:"
        if isinstance(x, ArrayImpl) and not x.is_fully_addressable:
            if not x.is_fully_replicated:
                raise ValueError(
                    "assert_equal compares what each process has whole, got an array over devices "
                    f"of several: {x.aval.str_short()} with {x.sharding}"
                )
            x = x.addressable_data(0)
        check_same(x, message, "assert_equal")


# ---- arrays of one process and of all


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Arrays over the devices of all processes, made of what each process has.

    `local_inputs` is a pytree, `pspecs` one of partition specs that is a prefix of it. Each array
    is cut over this process's part of the mesh, which must be a block of it, as its spec says: an
    axis over a mesh axis that goes on in other processes becomes as much longer. What a spec does
    not cut must be the same in all processes. Arrays over several processes are left as they are.

    >>> import numpy as np, xpr
    >>> from xpr.experimental import multihost_utils
    >>> from xpr.sharding import Mesh, PartitionSpec as P
    >>> mesh = Mesh(np.array(xpr.devices("cpu")[:1]), ("x",))
    >>> multihost_utils.host_local_array_to_global_array(np.arange(3), mesh, P("x"))
    Array([0, 1, 2], dtype=int32)
    """
    return _mapped(
        "host_local_array_to_global_array", _to_global, local_inputs, global_mesh, pspecs
    )


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Arrays over this process's part of a mesh, with what it holds of arrays over the whole mesh.

    It undoes `host_local_array_to_global_array`: no value is copied. An array that is spread
    otherwise than its spec says is spread so first, by all processes together.

    >>> import numpy as np, xpr
    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import multihost_utils
    >>> from xpr.sharding import Mesh, PartitionSpec as P
    >>> mesh = Mesh(np.array(xpr.devices("cpu")[:1]), ("x",))
    >>> multihost_utils.global_array_to_host_local_array(jnp.arange(3), mesh, P("x"))
    Array([0, 1, 2], dtype=int32)
    """
    return _mapped(
        "global_array_to_host_local_array", _to_local, global_inputs, global_mesh, pspecs
    )


def _mapped(name: str, function: Any, tree: Any, mesh: Mesh, pspecs: Any) -> Any:
    if not isinstance(mesh, Mesh):
        raise TypeError(f"{name} takes a Mesh, got {mesh!r} of type {type(mesh)}")
    leaves, structure = tree_util.tree_flatten(tree)
    specs = tree_util.broadcast_prefix(
        pspecs, tree, is_leaf=lambda s: s is None or isinstance(s, PartitionSpec)
    )
    for spec in specs:
        if not isinstance(spec, PartitionSpec):
            raise ValueError(
                f"{name}: `pspecs` must be PartitionSpecs, got {spec!r}. Use PartitionSpec() for "
                "what is the same on all devices"
            )
    for x in leaves:
        if isinstance(x, Tracer):
            raise NotImplementedError(
                f"{name} makes arrays of what processes hold, and cannot be traced: call it "
                "outside of jit and of other transformations"
            )
    return tree_util.tree_unflatten(
        structure, [function(x, mesh, s) for x, s in zip(leaves, specs, strict=True)]
    )


def _to_global(x: Any, mesh: Mesh, spec: PartitionSpec) -> ArrayImpl:
    if isinstance(x, ArrayImpl) and not x.is_fully_addressable:
        return x
    if getattr(x, "dtype", None) == dtypes.float0:
        x = np.zeros(np.shape(x), np.bool_)
    return as_global(x, NamedSharding(mesh.local_mesh, spec), NamedSharding(mesh, spec))


def _to_local(x: Any, mesh: Mesh, spec: PartitionSpec) -> ArrayImpl:
    local, whole = NamedSharding(mesh.local_mesh, spec), NamedSharding(mesh, spec)
    if isinstance(x, ArrayImpl):
        if x.is_fully_addressable:
            return x
        return as_local(device_put(x, whole), local)
    return device_put(x, local)


# ---- what has no meaning here


def reached_preemption_sync_point(step_id: int) -> bool:
    """False in a program of one process, as in JAX; NotImplementedError in one of several.

    JAX asks a service that hears of preemptions from the cluster; MPI has none.

    >>> from xpr.experimental.multihost_utils import reached_preemption_sync_point
    >>> reached_preemption_sync_point(3)
    False
    """
    del step_id
    if processes.current is None:
        return False
    raise NotImplementedError(
        "reached_preemption_sync_point needs a service that tells all processes of a preemption, "
        "which MPI has not: save checkpoints at steps that all processes know, with "
        "xpr.experimental.checkpoint"
    )


def live_devices(devices: Sequence[Any]) -> NoReturn:
    """NotImplementedError: the processes of an MPI job live and end together.

    In JAX it goes on without processes that failed.

    >>> import xpr
    >>> from xpr.experimental import multihost_utils
    >>> multihost_utils.live_devices(xpr.devices())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    NotImplementedError: live_devices: a program cannot go on without some of its ...
    """
    raise NotImplementedError(
        f"live_devices: a program cannot go on without some of its {len(devices)} devices, since "
        "the processes of an MPI job live and end together: restart it from a checkpoint"
    )
