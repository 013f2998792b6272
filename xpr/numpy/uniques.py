"""The different elements of an array, and where they occur."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from xpr.core import dtypes
from xpr.core.trace import Tracer, get_aval
from xpr.numpy._promote import as_operand, broadcast_to, convert
from xpr.numpy._rows import put_at, rows_at
from xpr.numpy._select import select_where
from xpr.numpy._static import concrete, static_size
from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.manipulation import moveaxis, ravel, reshape
from xpr.numpy.nonzeros import nonzero
from xpr.primitives import compare as cmp
from xpr.primitives import elementwise as el
from xpr.primitives import integer as bits
from xpr.primitives import shape as sh
from xpr.primitives import slicing as sl
from xpr.primitives import sort as so
from xpr.primitives.convert import convert_type
from xpr.primitives.creation import full, iota
from xpr.primitives.cumulative import cumsum
from xpr.primitives.joining import concatenate, unstack
from xpr.primitives.reduce import reduce_sum

_HINT = (
    "The error arose for the first argument of jnp.unique(). To make jnp.unique() compatible with "
    "JIT and other transforms, you can specify a concrete value for the size argument, which will "
    "determine the output size."
)


class _UniqueAllResult(NamedTuple):
    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class _UniqueCountsResult(NamedTuple):
    values: Array
    counts: Array


class _UniqueInverseResult(NamedTuple):
    values: Array
    inverse_indices: Array


def differs_from_previous(columns: list[Any], size: int, equal_nan: bool = True) -> Any:
    """For each row of sorted columns whether it is the first or unlike the one before it."""
    start = full((min(size, 1),), True, dtypes.BOOL)
    if size <= 1:
        return start
    new = full((size - 1,), False, dtypes.BOOL)
    for column in columns:
        after, before = sl.slice_in_dim(column, 1, size), sl.slice_in_dim(column, 0, size - 1)
        other = cmp.ne(after, before)
        if equal_nan and dtypes.is_inexact(get_aval(column).dtype):
            both = bits.bitwise_and(cmp.ne(after, after), cmp.ne(before, before))
            other = bits.bitwise_and(other, bits.bitwise_not(both))
        new = bits.bitwise_or(new, other)
    return concatenate([start, new], 0)


def count_true(mask: Any, hint: str) -> int:
    """How many are true; ConcretizationTypeError, which gives `hint`, for a tracer."""
    if isinstance(mask, Tracer):
        raise mask._concretization(hint)
    index = dtypes.default_dtype("i")
    return int(concrete(reduce_sum(convert_type(mask, index), (0,)), hint))


def require_size(x: Any, size: int | None, hint: str) -> None:
    """Raises ConcretizationTypeError, which gives `hint`, for a traced array without a size."""
    if size is None and isinstance(x, Tracer):
        raise x._concretization(hint)


def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
    sorted: bool = True,
) -> Any:
    """The different elements of `ar`, sorted; with `axis` the different slices along it.

    Further results, in this order, where asked for: the index of the first occurrence of each, the
    place of each element of `ar` among them, and how often each occurs. NaNs count as equal
    unless `equal_nan` is False.

    How many there are depends on values, so that `size` must be given inside a transformation: the
    results are cut off or filled up to it, the elements with `fill_value` (by default the first
    one), the counts with 0. Raises ValueError for an axis out of range, and for an empty array,
    a size and no fill_value.

    >>> import xpr.numpy as jnp
    >>> jnp.unique(jnp.array([3, 1, 3]), return_counts=True)
    (Array([1, 3], dtype=int32), Array([1, 2], dtype=int32))
    """
    x = as_operand("unique", ar)
    require_size(x, size, _HINT)
    shape = get_aval(x).shape
    if axis is None:
        rows, inverse_shape = ravel(x), shape
    else:
        rows = moveaxis(x, axis, 0)
        inverse_shape = rows.shape[:1]
    total = None if size is None else static_size("unique", size)
    if not get_aval(rows).shape[0]:
        found = _of_nothing(rows, total, fill_value)
    else:
        found = _unique(rows, return_inverse, equal_nan, total, fill_value)
    values, first, inverse, counts = found
    if axis is not None:
        values = moveaxis(values, 0, axis)
    wanted = [values]
    if return_index:
        wanted.append(first)
    if return_inverse:
        wanted.append(reshape(inverse, inverse_shape))
    if return_counts:
        wanted.append(counts)
    return tuple(wanted) if len(wanted) > 1 else wanted[0]


def _of_nothing(rows: Any, size: int | None, fill_value: Any) -> tuple[Any, Any, Any, Any]:
    if size and fill_value is None:
        raise ValueError(
            "jnp.unique: for zero-sized input with nonzero size argument, fill_value must be "
            "specified"
        )
    aval = get_aval(rows)
    shape = (size or 0, *aval.shape[1:])
    fill = convert(0 if fill_value is None else fill_value, aval.dtype)
    zeros = full((size or 0,), dtypes.default_dtype("i").type(0))
    none = full((0,), dtypes.default_dtype("i").type(0))
    return broadcast_to(fill, shape), zeros, none, zeros


def _unique(
    rows: Any, inverse: bool, equal_nan: bool, size: int | None, fill_value: Any
) -> tuple[Any, Any, Any, Any]:
    aval = get_aval(rows)
    total = aval.shape[0]
    index = dtypes.default_dtype("i")
    if aval.ndim == 1:
        columns = [rows]
    else:
        columns = list(unstack(sh.reshape(rows, (total, math.prod(aval.shape[1:]))), axis=1))
    *ordered, order = _sorted(columns, iota(index, total))
    new = differs_from_previous(ordered, total, equal_nan)
    count = count_true(new, _HINT) if size is None else size
    # Where each group starts, and one place more: where the last one ends.
    starts = nonzero(new, size=count + 1, fill_value=total)[0]
    counts = el.sub(sl.slice_in_dim(starts, 1, count + 1), sl.slice_in_dim(starts, 0, count))
    starts = sl.slice_in_dim(starts, 0, count)
    present = cmp.lt(starts, index.type(total))
    first = rows_at(order, select_where(present, starts, index.type(0)), is_sorted=False)
    values = rows_at(rows, first)
    if fill_value is not None:
        fill = convert(as_operand("unique", fill_value), aval.dtype)
        lined = sh.expand_dims(present, range(1, aval.ndim))
        values = select_where(
            broadcast_to(lined, values.shape), values, broadcast_to(fill, values.shape)
        )
    places = None
    if inverse:
        groups = el.sub(cumsum(convert_type(new, index), axis=0), index.type(1))
        places = put_at(full((total,), index.type(0)), order, groups, unique=True)
    return values, first, places, counts


def _sorted(columns: list[Any], places: Any) -> tuple[Any, ...]:
    """The columns and places, sorted by all columns, the first one foremost."""
    if not columns:
        return (places,)
    return so.sort([*columns, places], 0, num_keys=len(columns))


def unique_all(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> _UniqueAllResult:
    """The different elements, their first places, the inverse and the counts; NaNs all differ.

    >>> import xpr.numpy as jnp
    >>> jnp.unique_all(jnp.array([3, 1, 3])).counts
    Array([1, 2], dtype=int32)
    """
    x = as_operand("unique_all", x)
    return _UniqueAllResult(
        *unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_counts(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> _UniqueCountsResult:
    """The different elements and how often each occurs; NaNs all differ.

    >>> import xpr.numpy as jnp
    >>> jnp.unique_counts(jnp.array([3, 1, 3])).counts
    Array([1, 2], dtype=int32)
    """
    x = as_operand("unique_counts", x)
    return _UniqueCountsResult(
        *unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_inverse(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> _UniqueInverseResult:
    """The different elements and the place of each element of `x` among them; NaNs all differ.

    >>> import xpr.numpy as jnp
    >>> jnp.unique_inverse(jnp.array([3, 1, 3])).inverse_indices
    Array([1, 0, 1], dtype=int32)
    """
    x = as_operand("unique_inverse", x)
    return _UniqueInverseResult(
        *unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_values(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """The different elements; NaNs all differ.

    >>> import xpr.numpy as jnp
    >>> jnp.unique_values(jnp.array([3, 1, 3]))
    Array([1, 3], dtype=int32)
    """
    x = as_operand("unique_values", x)
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)
