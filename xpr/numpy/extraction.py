"""The part of an array that a condition, or its zeros, leave: compress, extract, trim_zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.trace import Tracer, get_aval
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, broadcast_to, convert, refuse_out
from xpr.numpy._rows import rows_at
from xpr.numpy._select import select_where
from xpr.numpy._static import concrete
from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.manipulation import moveaxis, ravel
from xpr.numpy.nonzeros import nonzero
from xpr.primitives import compare as cmp
from xpr.primitives import shape as sh
from xpr.primitives import slicing as sl
from xpr.primitives._index_dims import canonicalize_axes


def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
    out: None = None,
) -> Array:
    """The slices of `a` along `axis` where the vector `condition` holds; without axis its elements.

    How many there are depends on values, so that `size` must be given inside a transformation: the
    result is cut off or filled up to it, with `fill_value`. Raises ValueError unless `condition`
    has one axis and holds nowhere beyond the end of `a`.

    >>> import xpr.numpy as jnp
    >>> jnp.compress(jnp.array([True, False, True]), jnp.array([5, 6, 7]))
    Array([5, 7], dtype=int32)
    """
    refuse_out("compress", out)
    mask = as_operand("compress", condition, 0)
    x = as_operand("compress", a, 1)
    if get_aval(mask).ndim != 1:
        raise ValueError(f"condition must be a 1D array, got shape {get_aval(mask).shape}")
    rows = ravel(x) if axis is None else moveaxis(x, axis, 0)
    length, given = rows.shape[0], get_aval(mask).shape[0]
    if given > length:
        if not isinstance(mask, Tracer) and concrete(mask, "")[length:].any():
            raise ValueError("condition contains entries that are out of bounds")
        mask = sl.slice_in_dim(mask, 0, length)
    places = nonzero(mask, size=size, fill_value=length)[0]
    if not length:
        shape = (get_aval(places).shape[0], *rows.shape[1:])
        found = broadcast_to(convert(fill_value, rows.dtype), shape)
    else:
        found = rows_at(rows, places, is_sorted=True)
    if size is not None and length:
        index = dtypes.default_dtype("i")
        present = cmp.lt(places, index.type(length))
        lined = broadcast_to(sh.expand_dims(present, range(1, found.ndim)), found.shape)
        found = select_where(
            lined, found, broadcast_to(convert(fill_value, rows.dtype), found.shape)
        )
    return as_array(found) if axis is None else moveaxis(found, 0, axis)


def extract(
    condition: ArrayLike,
    arr: ArrayLike,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
) -> Array:
    """The elements of `arr` where `condition` holds, both flattened; see `compress`.

    >>> import xpr.numpy as jnp
    >>> x = jnp.arange(6).reshape(2, 3)
    >>> jnp.extract(x % 2 == 1, x)
    Array([1, 3, 5], dtype=int32)
    """
    mask, x = as_operand("extract", condition, 0), as_operand("extract", arr, 1)
    return compress(ravel(mask), ravel(x), size=size, fill_value=fill_value)


def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: int | Sequence[int] | None = None) -> Array:
    """`filt` without the zeros at the ends of its axes, or of the given ones.

    A "f" in `trim` trims the front, a "b" the back. The result's shape depends on values, so that
    `filt` must be concrete.

    >>> import xpr.numpy as jnp
    >>> jnp.trim_zeros(jnp.array([0, 0, 1, 0, 2, 0]))
    Array([1, 0, 2], dtype=int32)
    """
    x = as_operand("trim_zeros", filt)
    host = concrete(x, "Error arose in the `filt` argument of trim_zeros()")
    ends = trim.lower()
    axes = tuple(range(host.ndim)) if axis is None else canonicalize_axes(axis, host.ndim)
    start, stop = [0] * host.ndim, list(host.shape)
    places = np.nonzero(host != np.zeros((), host.dtype)) if host.ndim else ()
    for i in axes:
        found = places[i]
        low, high = (int(found.min()), int(found.max()) + 1) if found.size else (host.shape[i],) * 2
        if not found.size and "f" not in ends:
            low = high = 0
        if "f" in ends:
            start[i] = low
        if "b" in ends:
            stop[i] = high
    if not host.ndim:
        return as_array(x)
    return as_array(sl.slice(x, start, stop))


def method_compress(
    x: Any, condition: Any, axis: int | None, *, out: None, size: int | None, fill_value: Any
) -> Array:
    """`x.compress(condition, axis)`."""
    return compress(condition, x, axis, size=size, fill_value=fill_value, out=out)
