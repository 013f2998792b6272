"""Values that must be known while a function is traced: sizes, counts, places."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.trace import Tracer
from xpr.dispatch.array import ArrayImpl, array_from_host
from xpr.dispatch.default_device import mesh_of_work
from xpr.dispatch.placement import common_device
from xpr.numpy._concrete import from_host


def concrete(x: Any, what: str) -> np.ndarray[Any, Any]:
    """The values of `x` on the host; ConcretizationTypeError, which says `what`, for a tracer."""
    if isinstance(x, Tracer):
        raise x._concretization(what)
    return np.asarray(x._value if isinstance(x, ArrayImpl) else x)


def static_size(name: str, size: Any) -> int:
    """The `size` argument of the function `name` as a Python integer.

    Raises ConcretizationTypeError for a tracer, TypeError for what is no integer or is negative.
    """
    if isinstance(size, Tracer):
        raise size._concretization(
            f"The size argument of jnp.{name} must be statically specified to use jnp.{name} "
            "within xpr transformations."
        )
    found = operator.index(size)
    if found < 0:
        raise TypeError(
            f"broadcast_in_dim shape must have every element be nonnegative, got ({found},). "
            f"({name}: size)"
        )
    return found


def host_result(value: np.ndarray[Any, Any], *operands: Any) -> ArrayImpl:
    """The array that NumPy computed from `operands`, on the device they belong to."""
    if mesh_of_work() is not None:
        return from_host(value, computed=True)
    device, committed = common_device(operands)
    return array_from_host(value, ShapedArray(value.shape, value.dtype), device, committed)
