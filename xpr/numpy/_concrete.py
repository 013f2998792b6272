"""Concrete arrays from NumPy values and Python numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.dispatch import placement
from xpr.dispatch.array import ArrayImpl, array_from_host
from xpr.dispatch.eager import host_value


def as_array(x: Any) -> Array:
    """`x`, an array or a number, as an array; NumPy arrays are copied.

    Python numbers stay weakly typed. Raises TypeError for dtypes that xpr has no arrays of.
    """
    if isinstance(x, Array):
        return x
    aval, host = host_value(x)
    # The owner of a NumPy array may write to it later.
    return from_host(np.array(host) if host is x else host, aval)


def from_host(value: np.ndarray[Any, Any], aval: ShapedArray | None = None) -> ArrayImpl:
    """An array that takes over `value`, which has a canonical dtype and no other owner."""
    if aval is None:
        aval = ShapedArray(value.shape, value.dtype)
    return array_from_host(value, aval, placement.default_device())
