"""Reductions over segments: the rows of an array that have one number are combined.

>>> import xpr, xpr.numpy as jnp
>>> xpr.ops.segment_max(jnp.array([3.0, 7.0, 5.0]), jnp.array([0, 1, 0]))
Array([5., 7.], dtype=float32)
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import xpr.numpy as jnp
from xpr.core import dtypes
from xpr.core.placing import takes_out_sharding
from xpr.core.trace import Tracer
from xpr.numpy._promote import as_operand
from xpr.numpy._static import concrete
from xpr.numpy._typing import Array, ArrayLike, DType
from xpr.primitives._index_dims import GatherScatterMode

Mode = str | GatherScatterMode | None


@takes_out_sharding
def segment_sum(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Mode = None,
    out_sharding: Any = None,
) -> Array:
    """The sums of the rows of `data` [n, ...] that have the same number: [num_segments, ...].

    Row `i` belongs to the segment `segment_ids[i]`, an integer; segments without rows are 0.
    `num_segments` is the largest number plus 1 unless given, which it must be where `segment_ids`
    is traced. Rows whose numbers are negative or too large do not count, or what `mode` says
    ("drop", "clip", "promise_in_bounds"). `indices_are_sorted` and `unique_indices` are promises.
    With `bucket_size`, as many rows at a time are summed, then the sums, so that rounding errors
    stay small.

    Raises TypeError for numbers that are no integers, ValueError for negative `num_segments` and
    shapes that do not fit, ConcretizationTypeError where `num_segments` is not known.

    >>> import xpr.numpy as jnp
    >>> segment_sum(jnp.arange(5), jnp.array([0, 0, 1, 1, 2]))
    Array([1, 5, 4], dtype=int32)
    """
    options = (indices_are_sorted, unique_indices, mode)
    return _combined(_SUM, data, segment_ids, num_segments, bucket_size, options)


@takes_out_sharding
def segment_prod(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Mode = None,
    out_sharding: Any = None,
) -> Array:
    """The products of the rows of `data` that have the same number, 1 where there are none.

    Arguments and errors are those of `segment_sum`.

    >>> import xpr.numpy as jnp
    >>> segment_prod(jnp.arange(6), jnp.array([0, 0, 1, 1, 2, 2]))
    Array([ 0,  6, 20], dtype=int32)
    """
    options = (indices_are_sorted, unique_indices, mode)
    return _combined(_PROD, data, segment_ids, num_segments, bucket_size, options)


@takes_out_sharding
def segment_max(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Mode = None,
    out_sharding: Any = None,
) -> Array:
    """The largest of the rows of `data` that have the same number, element by element.

    Segments without rows are -inf, or the least integer. Arguments and errors are those of
    `segment_sum`.

    >>> import xpr.numpy as jnp
    >>> segment_max(jnp.arange(4), jnp.array([1, 0, 1, 0]))
    Array([3, 2], dtype=int32)
    """
    options = (indices_are_sorted, unique_indices, mode)
    return _combined(_MAX, data, segment_ids, num_segments, bucket_size, options)


@takes_out_sharding
def segment_min(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Mode = None,
    out_sharding: Any = None,
) -> Array:
    """The smallest of the rows of `data` that have the same number, element by element.

    Segments without rows are inf, or the largest integer. Arguments and errors are those of
    `segment_sum`.

    >>> import xpr.numpy as jnp
    >>> segment_min(jnp.arange(4), jnp.array([1, 0, 1, 0]))
    Array([1, 0], dtype=int32)
    """
    options = (indices_are_sorted, unique_indices, mode)
    return _combined(_MIN, data, segment_ids, num_segments, bucket_size, options)


class _Reduction:
    """How rows are combined: the update of `x.at`, its start, the total of buckets."""

    def __init__(
        self,
        name: str,
        update: str,
        start: Callable[[DType], Any],
        total: Callable[..., Array],
    ) -> None:
        self.name, self.update, self.start, self.total = name, update, start, total


def _least(dtype: DType) -> Any:
    if dtypes.kind(dtype) == "b":
        return False
    return dtypes.iinfo(dtype).min if dtypes.is_integer(dtype) else -float("inf")


def _largest(dtype: DType) -> Any:
    if dtypes.kind(dtype) == "b":
        return True
    return dtypes.iinfo(dtype).max if dtypes.is_integer(dtype) else float("inf")


_SUM = _Reduction("segment_sum", "add", lambda _: 0, jnp.sum)
_PROD = _Reduction("segment_prod", "multiply", lambda _: 1, jnp.prod)
_MAX = _Reduction("segment_max", "max", _least, jnp.max)
_MIN = _Reduction("segment_min", "min", _largest, jnp.min)


def _combined(
    reduction: _Reduction,
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None,
    bucket_size: int | None,
    options: tuple[bool, bool, Mode],
) -> Array:
    rows = jnp.asarray(as_operand(reduction.name, data))
    ids = jnp.asarray(as_operand(reduction.name, segment_ids, 1))
    if not dtypes.is_integer(ids.dtype):
        raise TypeError(f"{reduction.name} requires integer segment_ids, got {ids.dtype}")
    count = _segment_count(reduction.name, ids, num_segments)
    start = reduction.start(rows.dtype)
    in_order, unique, mode = options
    if bucket_size is None:
        out = jnp.full((count, *rows.shape[1:]), start, dtype=rows.dtype)
        where: Any = ids
    else:
        if bucket_size < 1:
            raise ValueError(f"{reduction.name} requires a positive bucket_size, got {bucket_size}")
        out = jnp.full((-(-ids.size // bucket_size), count, *rows.shape[1:]), start, rows.dtype)
        where = (jnp.arange(ids.shape[0]) // bucket_size, ids)
    update = getattr(out.at[where], reduction.update)
    out = update(
        rows,
        indices_are_sorted=in_order,
        unique_indices=unique,
        mode=mode,
        wrap_negative_indices=False,
    )
    return out if bucket_size is None else reduction.total(out, axis=0).astype(rows.dtype)


def _segment_count(name: str, ids: Array, num_segments: Any) -> int:
    if num_segments is None:
        known = concrete(ids, f"{name}() `num_segments` argument.")
        if not known.size:
            raise ValueError(f"{name} requires num_segments where segment_ids is empty")
        num_segments = int(known.max()) + 1
    elif isinstance(num_segments, Tracer):
        raise num_segments._concretization(f"{name}() `num_segments` argument.")
    count = operator.index(num_segments)
    if count < 0:
        raise ValueError(f"{name}: num_segments must be non-negative, got {count}")
    return count
