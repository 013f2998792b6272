"""Where the elements are that are not 0."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.trace import Tracer, get_aval
from xpr.numpy._concrete import as_array, from_host
from xpr.numpy._promote import as_operand, convert
from xpr.numpy._select import select_where
from xpr.numpy._static import static_size
from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.logic import to_bool
from xpr.primitives import compare as cmp
from xpr.primitives import elementwise as el
from xpr.primitives.convert import convert_type
from xpr.primitives.creation import full, iota
from xpr.primitives.cumulative import cumsum
from xpr.primitives.joining import stack
from xpr.primitives.reduce import reduce_sum_p
from xpr.primitives.scatter import ScatterDimensionNumbers, scatter
from xpr.primitives.shape import expand_dims, reshape

_HINT = (
    "The size argument of jnp.nonzero must be statically specified to use jnp.nonzero within xpr "
    "transformations."
)


def nonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
    """The indices of the elements that are not 0, in row-major order: one array for each axis.

    How many there are depends on values, so that `size` must be given inside a transformation: the
    result is cut off or filled up to it, with `fill_value` (0 by default; a tuple has one for each
    axis). Raises ValueError for an array without axes.

    >>> import xpr.numpy as jnp
    >>> jnp.nonzero(jnp.array([0, 5, 0, 7]))
    (Array([1, 3], dtype=int32),)
    """
    x = as_operand("nonzero", a)
    shape = get_aval(x).shape
    if not shape:
        raise ValueError(
            "Calling nonzero on 0d arrays is not allowed. "
            "Use jnp.atleast_1d(scalar).nonzero() instead."
        )
    fills = _fill_values(fill_value, len(shape))
    length = None if size is None else static_size("nonzero", size)
    if isinstance(x, Tracer) or any(isinstance(f, Tracer) for f in fills):
        if length is None:
            raise (x if isinstance(x, Tracer) else fills[0])._concretization(_HINT)
        return _traced(x, shape, length, fills)
    host = np.asarray(x)
    found = np.nonzero(host != np.zeros((), host.dtype))
    index = dtypes.default_dtype("i")
    if length is None:
        return tuple(from_host(f.astype(index), computed=True) for f in found)
    return tuple(
        from_host(_fitted(f, length, np.asarray(fill), index), computed=True)
        for f, fill in zip(found, fills, strict=True)
    )


def _fill_values(fill_value: Any, ndim: int) -> tuple[Any, ...]:
    if fill_value is None:
        return (0,) * ndim
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value,) * ndim
    if len(fills) != ndim or any(get_aval(f).shape for f in fills):
        raise ValueError(
            f"fill_value must be a scalar or a tuple of length {ndim}; got {fill_value}"
        )
    return fills


def _fitted(found: Any, size: int, fill: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    out = np.full(size, fill, dtype)
    out[: len(found)] = found[:size]
    return out


def _traced(x: Any, shape: tuple[int, ...], size: int, fills: tuple[Any, ...]) -> Any:
    index = dtypes.default_dtype("i")
    total = math.prod(shape)
    if not total or not size:
        return tuple(full((size,), convert(f, index)) for f in fills)
    mask = reshape(to_bool(x), (total,))
    numbers = convert_type(mask, index)
    # Each element that counts is written to its rank among them; the others fall off the end.
    rank = el.sub_p.bind(cumsum(numbers, axis=0), index.type(1))
    place = select_where(mask, rank, index.type(size))
    flat = scatter(
        full((size,), index.type(0)),
        expand_dims(place, (1,)),
        iota(index, total),
        ScatterDimensionNumbers((), (0,), (0,)),
        unique_indices=False,
        mode="drop",
    )
    count = reduce_sum_p.bind(numbers, axes=(0,), out_sharding=None)
    present = cmp.lt_p.bind(iota(index, size), count)
    out = []
    stride = total
    for n, fill in zip(shape, fills, strict=True):
        stride //= n
        place = el.div_p.bind(flat, index.type(stride))
        place = el.rem_p.bind(place, index.type(n))
        out.append(select_where(present, place, convert(fill, index)))
    return tuple(out)


def flatnonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The indices of the nonzero elements of the flattened array, as `nonzero` gives them.

    >>> import xpr.numpy as jnp
    >>> jnp.flatnonzero(jnp.array([[0, 1], [2, 0]]))
    Array([1, 2], dtype=int32)
    """
    x = as_operand("flatnonzero", a)
    return nonzero(reshape(x, (get_aval(x).size,)), size=size, fill_value=fill_value)[0]


def argwhere(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The indices of the elements that are not 0 as rows: an array of shape (count, ndim).

    >>> import xpr.numpy as jnp
    >>> jnp.argwhere(jnp.array([[0, 5], [7, 0]]))
    Array([[0, 1],
           [1, 0]], dtype=int32)
    """
    x = as_operand("argwhere", a)
    if not get_aval(x).shape:
        found = nonzero(reshape(x, (1,)), size=size, fill_value=fill_value)[0]
        return as_array(full((found.shape[0], 0), dtypes.default_dtype("i").type(0)))
    columns = nonzero(x, size=size, fill_value=fill_value)
    return stack(columns, axis=1)
