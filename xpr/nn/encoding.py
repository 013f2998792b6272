"""Encodings of integers as vectors."""

from __future__ import annotations

import operator
from collections.abc import Hashable
from typing import Any

import xpr.numpy as jnp
from xpr.core import dtypes
from xpr.numpy._static import concrete
from xpr.numpy._typing import Array, DTypeLike
from xpr.numpy.dtype_api import requested_dtype
from xpr.primitives._index_dims import canonicalize_axis
from xpr.primitives.collectives import axis_index, axis_size
from xpr.primitives.creation import broadcasted_iota


def one_hot(
    x: Any, num_classes: int, *, dtype: DTypeLike = None, axis: int | Hashable = -1
) -> Array:
    """For each index in `x` a vector with a 1 at that place and 0 elsewhere.

    Shape [...] becomes [..., num_classes], the new axis at `axis` of the result. Indices outside
    0 .. num_classes-1 give zeros. The dtype is the default float unless `dtype` says otherwise.
    `axis` may be the name of a mapped axis: then each of its members gets its own component.
    Raises ValueError for an axis out of range or a named one of another size, TypeError for
    booleans.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.one_hot(jnp.array([0, 2, 3]), 3)
    Array([[1., 0., 0.],
           [0., 0., 1.],
           [0., 0., 0.]], dtype=float32)
    """
    count = operator.index(
        concrete(num_classes, "The error arose in one_hot argument `num_classes`.")[()]
    )
    wanted = dtypes.default_dtype("f") if dtype is None else requested_dtype(dtype, "one_hot")
    indices = jnp.asarray(x)
    try:
        place = canonicalize_axis(axis, indices.ndim + 1)
    except TypeError:  # no integer: a name
        size = axis_size(axis)
        if size != count:
            raise ValueError(
                f"one_hot requires num_classes to be the size of axis {axis!r}, got {count} and "
                f"{size}"
            ) from None
        return (indices == axis_index(axis)).astype(wanted)
    sizes = [1] * indices.ndim
    sizes.insert(place, count)
    kind = indices.dtype
    if dtypes.is_integer(kind) and count - 1 > dtypes.iinfo(kind).max:
        kind = dtypes.default_dtype("i")  # not every class has a number in the narrow dtype
    classes = broadcasted_iota(kind, sizes, place)
    return (jnp.expand_dims(indices, place) == classes).astype(wanted)
