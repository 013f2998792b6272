"""Arrays in the host's memory beside that of their device: moving them, and computing with them.

Where the devices' memory is the host's, a kind of memory is a name that an array carries: work is
done on the same bytes. Elsewhere an array has to be moved to the device first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.memory_spaces import MemorySpace, in_same_memory, install_move
from xpr.core.primitive import Primitive
from xpr.core.trace import get_aval
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.parts import put_array
from xpr.dispatch.sharded_array import HostMemoryArray, from_buffers

_KINDS = {"device": "device", "host": "pinned_host"}
"""The kind of memory that each memory space means."""


def kind_of(space: MemorySpace) -> str:
    """The kind of memory that is meant; ValueError where that is open."""
    if space is MemorySpace.Any:
        raise ValueError("device_put takes Space.Device or Space.Host, got Space.Any")
    return _KINDS[space.value]


def moved(x: ArrayImpl, memory_space: str) -> ArrayImpl:
    """A concrete array in that memory space of its devices."""
    kind = _KINDS[memory_space]
    if x.sharding.memory_kind == kind:
        return x
    return put_array(x, x.sharding.with_memory_kind(kind))


install_move(moved)


def on_devices(x: Any, name: str, *, donates: bool = False) -> Any:
    """An operand of the function `name` as one in its devices' own memory: the same bytes.

    A function that `donates` operands gives up the array itself with what it is passed.
    ValueError for devices that do not share the host's memory.
    """
    if type(x) is not HostMemoryArray:
        return x
    x._check_alive()
    if not all(b.device.runtime.is_host for b in x._buffers):
        raise ValueError(
            f"{name} cannot compute on {x.aval} in {x.sharding.memory_kind} memory of "
            f"{x.sharding}: move it first with "
            "xpr.device_put(x, xpr.memory.Space.Device), inside jit or outside"
        )
    buffers = x._buffers if donates else x._aliases()
    return from_buffers(x.aval, buffers, x._sharding.with_memory_kind("device"))


def in_kind(x: Any, kind: str | None) -> Any:
    """A result in memory of that kind: the same bytes; values that are no arrays as they are."""
    if not isinstance(x, ArrayImpl) or kind is None:
        return x
    if x.sharding.memory_kind == kind == x.aval.memory_space:
        return x  # in the devices' own memory
    sharding = x.sharding.with_memory_kind(kind)
    if all(b.device.runtime.is_host for b in x._buffers):
        return from_buffers(x.aval, x._aliases(), sharding)
    return put_array(x, sharding)


def in_spaces(results: Sequence[Any], types: Sequence[ShapedArray]) -> list[Any]:
    """Results of a computation in the memories that their types name."""
    return [
        in_kind(x, "pinned_host") if a.memory_space == "host" else x
        for x, a in zip(results, types, strict=True)
    ]


def apply(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """The result of one primitive on arrays some of which lie in the host's memory."""
    several = primitive.multiple_results
    found = primitive.abstract(*map(get_aval, args), **params)
    arrays = [get_aval(a) for a in args if isinstance(a, (ArrayImpl, np.ndarray))]
    types = in_same_memory(primitive, arrays, params, found if several else [found])
    out = primitive.bind(*(on_devices(a, primitive.name) for a in args), **params)
    results = in_spaces(out if several else [out], types)
    return results if several else results[0]
