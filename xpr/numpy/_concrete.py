"""Concrete arrays from NumPy values and Python numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.context import context
from xpr.dispatch.array import ArrayImpl, array_from_host
from xpr.dispatch.default_device import default_device, mesh_of_work
from xpr.dispatch.eager import eager_trace
from xpr.dispatch.host_values import host_value
from xpr.dispatch.parts import put_host
from xpr.sharding import NamedSharding, PartitionSpec


def as_array(x: Any) -> Array:
    """`x`, an array or a number, as an array; NumPy arrays are copied.

    Python numbers stay weakly typed. Raises TypeError for dtypes that xpr has no arrays of.
    """
    if isinstance(x, Array):
        return x
    aval, host = host_value(x)
    # The owner of a NumPy array may write to it later.
    return from_host(np.array(host) if host is x else host, aval)


def from_host(
    value: np.ndarray[Any, Any], aval: ShapedArray | None = None, *, computed: bool = False
) -> ArrayImpl:
    """An array that takes over `value`, which has a canonical dtype and no other owner.

    It is on the default device, or everywhere on the mesh in use. There the sharding of what an
    operation has `computed` names all axes if the mesh is Explicit, as types do.
    """
    if aval is None:
        aval = ShapedArray(value.shape, value.dtype)
    mesh = mesh_of_work()
    if mesh is not None and context.trace is eager_trace:
        axes = (None,) * value.ndim if computed and mesh.are_all_axes_explicit else ()
        return put_host(value, aval, NamedSharding(mesh, PartitionSpec(*axes)), foreign=False)
    return array_from_host(value, aval, default_device())
