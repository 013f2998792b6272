"""What a sample says: its most common value, the ranks of its elements, the error of its mean."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

import xpr.numpy as jnp
from xpr.core import dtypes
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, one_inexact, to_inexact
from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.logic import isnan
from xpr.primitives._index_dims import canonicalize_axis
from xpr.primitives.cumulative import cummax, cummin

_POLICIES = ("propagate", "omit", "raise")
_METHODS = ("average", "min", "max", "dense", "ordinal")


class ModeResult(NamedTuple):
    """What `mode` returns: the most common values, and how often they occur.

    >>> import xpr.scipy.stats
    >>> import xpr.numpy as jnp
    >>> result = xpr.scipy.stats.mode(jnp.array([3, 1, 3]))
    >>> result.mode, result.count
    (Array(3, dtype=int32), Array(2, dtype=int32))
    """

    mode: Array
    count: Array  # pyright: ignore[reportIncompatibleMethodOverride]  SciPy's name


def _check_nan_policy(policy: str, *offered: str) -> None:
    if policy not in _POLICIES:
        raise ValueError(
            f"Illegal nan_policy value {policy!r}; expected one of {{'propagate', 'omit', 'raise'}}"
        )
    if policy not in offered:
        raise NotImplementedError(f"Logic for `nan_policy` of {policy} is not implemented")


def _sample(name: str, a: Any, axis: int | None) -> tuple[Array, int]:
    """An array with axes, and the axis to look along: `axis`, or all axes as one."""
    x = as_array(as_operand(name, a))
    if x.ndim == 0 or axis is None:
        return x.reshape(-1), 0
    return x, canonicalize_axis(axis, x.ndim)


class _Runs(NamedTuple):
    """Equal elements of a sorted array: for each element the first and the last index of its run.

    `opens` is True where a run begins.
    """

    opens: Array
    first: Array
    last: Array


def _runs(ordered: Array, axis: int) -> _Runs:
    """The runs along `axis` of an array sorted along it; NaNs are one run."""
    n = ordered.shape[axis]
    before = jnp.roll(ordered, 1, axis)
    index = jnp.expand_dims(
        jnp.arange(n, dtype=np.int32), tuple(i for i in range(ordered.ndim) if i != axis)
    )
    same = ordered == before
    if dtypes.is_inexact(ordered.dtype):
        same |= isnan(ordered) & isnan(before)
    opens = ~same | (index == 0)
    closes = jnp.roll(opens, -1, axis) | (index == n - 1)
    first = cummax(jnp.where(opens, index, 0), axis=axis)
    last = cummin(jnp.where(closes, index, n - 1), axis=axis, reverse=True)
    return _Runs(opens, first, last)


def mode(
    a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """The most common value along `axis` (the least of several), and how often it occurs.

    NaNs count as equal; of no elements the mode is NaN, 0 times. Raises NotImplementedError for a
    `nan_policy` other than "propagate".

    >>> from xpr.scipy import stats
    >>> import xpr.numpy as jnp
    >>> stats.mode(jnp.array([3, 1, 2, 1]))
    ModeResult(mode=Array(1, dtype=int32), count=Array(2, dtype=int32))
    """
    _check_nan_policy(nan_policy, "propagate")
    x, along = _sample("mode", a, axis)
    if x.shape[along] == 0:
        shape = (*x.shape[:along], 1, *x.shape[along + 1 :])
        default = dtypes.default_dtype("f")
        value, count = jnp.full(shape, math.nan, default), jnp.zeros(shape, default)
    else:
        ordered = jnp.sort(x, axis=along)
        runs = _runs(ordered, along)
        length = runs.last - runs.first + np.int32(1)
        best = jnp.argmax(length, axis=along, keepdims=True)
        value = jnp.take_along_axis(ordered, best, along)
        count = jnp.max(length, axis=along, keepdims=True).astype(int)
    if not keepdims:
        return ModeResult(jnp.squeeze(value, along), jnp.squeeze(count, along))
    if axis is None:
        ones = (1,) * as_array(a).ndim
        return ModeResult(value.reshape(ones), count.reshape(ones))
    return ModeResult(value, count)


def _ranks_in_order(ordered: Array, axis: int, method: str) -> Array:
    """The ranks, from 1 on, of sorted elements."""
    runs = _runs(ordered, axis)
    if method == "dense":
        return jnp.cumsum(runs.opens, axis=axis)
    if method == "min":
        return runs.first + 1
    if method == "max":
        return runs.last + 1
    return (runs.first + runs.last).astype(to_inexact(runs.first.dtype)) * 0.5 + 1


def rankdata(
    a: ArrayLike,
    method: str = "average",
    *,
    axis: int | None = None,
    nan_policy: str = "propagate",
) -> Array:
    """The ranks along `axis`, from 1 for the least element on; of all elements, flat, without it.

    Equal elements share the mean of their ranks, or the least ("min") or greatest ("max") of them;
    "dense" leaves no ranks out, and by "ordinal" those that come first have lower ranks. Of the
    default floating dtype; NaN where there is any NaN along the axis. Raises ValueError for another
    `method`, NotImplementedError for a `nan_policy` other than "propagate".

    >>> from xpr.scipy import stats
    >>> import xpr.numpy as jnp
    >>> stats.rankdata(jnp.array([0, 2, 3, 2]))
    Array([1. , 2.5, 4. , 2.5], dtype=float32)
    """
    _check_nan_policy(nan_policy, "propagate")
    if method not in _METHODS:
        raise ValueError(f"unknown method '{method}'")
    x, along = _sample("rankdata", a, axis)
    dtype = dtypes.default_dtype("f")
    if x.size == 0:
        return jnp.zeros(x.shape, dtype)
    order = jnp.argsort(x, axis=along)
    place = jnp.argsort(order, axis=along)
    if method == "ordinal":
        ranks = place + 1
    else:
        ordered = jnp.take_along_axis(x, order, along)
        ranks = jnp.take_along_axis(_ranks_in_order(ordered, along, method), place, along)
    ranks = ranks.astype(dtype)
    if not dtypes.is_inexact(x.dtype):
        return ranks
    return jnp.where(jnp.any(isnan(x), axis=along, keepdims=True), math.nan, ranks)


def sem(
    a: ArrayLike,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    """The standard error of the mean along `axis`: the standard deviation over the root of n.

    The sum of squares is divided by `n - ddof`. With the `nan_policy` "omit" NaNs take no part.
    Raises ValueError for the policy "raise".

    >>> from xpr.scipy import stats
    >>> import xpr.numpy as jnp
    >>> stats.sem(jnp.array([1.0, 2.0, 3.0, 6.0]))
    Array(1.0801234, dtype=float32)
    """
    if nan_policy == "raise":
        raise ValueError("raise is not supported")
    _check_nan_policy(nan_policy, "propagate", "omit")
    x = as_array(one_inexact("sem", a))
    if nan_policy == "omit":
        count = jnp.sum(~isnan(x), axis=axis, keepdims=keepdims)
        deviation = jnp.nanstd(x, axis=axis, ddof=ddof, keepdims=keepdims)
    else:
        count = jnp.asarray(x.size if axis is None else x.shape[canonicalize_axis(axis, x.ndim)])
        deviation = jnp.std(x, axis=axis, ddof=ddof, keepdims=keepdims)
    return deviation / jnp.sqrt(count.astype(x.dtype))
