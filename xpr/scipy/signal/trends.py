"""Trends taken from signals."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.trace import Tracer
from xpr.numpy._promote import promote_dtypes_inexact, with_weak_type_of
from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.creation import asarray
from xpr.numpy.joining import concatenate
from xpr.numpy.manipulation import moveaxis
from xpr.primitives._index_dims import canonicalize_axis
from xpr.primitives.creation import iota


def detrend(
    data: ArrayLike,
    axis: int = -1,
    type: str = "linear",
    bp: int | Sequence[int] | np.ndarray[Any, Any] = 0,
    overwrite_data: None = None,
) -> Array:
    """`data` less its mean along `axis` ("constant"), or less a line of least squares ("linear").

    Lines are fitted to the parts between the breakpoints `bp`, each by itself. Raises ValueError
    for another `type` and breakpoints that are negative or above the size of the axis,
    NotImplementedError for `overwrite_data`.

    >>> import xpr.numpy as jnp
    >>> detrend(jnp.array([1.0, 3.0, 5.0, 8.0])).round(2)
    Array([ 0.2, -0.1, -0.4,  0.3], dtype=float32)
    """
    if overwrite_data is not None:
        raise NotImplementedError("overwrite_data argument not implemented: arrays are immutable.")
    if type not in ("constant", "linear"):
        raise ValueError(f"Trend type must be 'linear' or 'constant', got {type!r}.")
    (x,) = promote_dtypes_inexact(asarray(data))
    place = canonicalize_axis(axis, x.ndim)
    if type == "constant":
        return x - x.mean(place, keepdims=True)
    size = x.shape[place]
    if isinstance(bp, Tracer):
        raise bp._concretization("the breakpoints of detrend must be known when it is traced")
    ends = np.unique(np.concatenate([[0, size], np.ravel(np.asarray(bp))])).astype(int).tolist()
    if ends[0] < 0 or ends[-1] > size:
        raise ValueError(
            "Breakpoints must be non-negative and less than length of data along given axis, "
            f"which is {size}; got {bp}."
        )
    x = moveaxis(x, place, -1)
    parts = [_without_line(x[..., a:b]) for a, b in itertools.pairwise(ends)]
    found = moveaxis(concatenate(parts, axis=-1) if parts else x, -1, place)
    return with_weak_type_of(x, found)


def _without_line(x: Array) -> Array:
    """`x` less the line of least squares along the last axis: its mean and a ramp of mean 0."""
    n = x.shape[-1]
    centred = x - x.mean(-1, keepdims=True)
    if n < 2:
        return centred
    kind = x.real.dtype
    ramp = (iota(kind, n) - (n - 1) / 2).reshape((1,) * (x.ndim - 1) + (n,))
    # The sum of the squares of the ramp.
    ramp = ramp.astype(x.dtype)
    slope = (centred * ramp).sum(-1, keepdims=True) / (n * (n * n - 1) / 12)
    return centred - slope * ramp
