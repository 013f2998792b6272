"""Medians, quantiles and percentiles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.placing import takes_out_sharding
from xpr.core.trace import get_aval
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, convert, promote_dtypes_inexact, wide_dtype
from xpr.numpy._rows import rows_at
from xpr.numpy._select import select_where
from xpr.numpy._typing import Array, ArrayLike, Axis
from xpr.numpy.logic import isnan
from xpr.numpy.manipulation import moveaxis
from xpr.numpy.reductions import any, reduced_axes, sum
from xpr.numpy.ufuncs_float import round
from xpr.primitives import compare as cmp
from xpr.primitives import elementwise as el
from xpr.primitives import integer as bits
from xpr.primitives.convert import convert_type
from xpr.primitives.creation import full, iota
from xpr.primitives.cumulative import cumsum
from xpr.primitives.shape import broadcast_in_dim, reshape
from xpr.primitives.slicing import slice_in_dim
from xpr.primitives.sort import sort

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


def _quantiles(
    name: str, a: Any, q: Any, axis: Axis, out: Any, overwrite_input: bool, method: str,
    keepdims: bool, weights: Any, skip_nan: bool,
) -> Array:  # fmt: skip
    if overwrite_input or out is not None:
        raise ValueError(f"jax.numpy.{name} does not support overwrite_input=True or out != None")
    if method not in _METHODS:
        raise ValueError(
            "method can only be 'linear', 'lower', 'higher', 'midpoint', 'nearest' or "
            f"'inverted_cdf', got {method!r}"
        )
    if weights is not None and method != "inverted_cdf":
        raise NotImplementedError(
            f"{method} doesn't support weights. Only method 'inverted_cdf' supports weights."
        )
    x, levels = as_operand(name, a), as_operand(name, q, 1)
    for v in (x, levels):
        if dtypes.is_complex(get_aval(v).dtype):
            raise ValueError(
                "quantile does not support complex input, as the operation is poorly defined. "
                f"({name})"
            )
    (x,), (levels,) = promote_dtypes_inexact(x), promote_dtypes_inexact(levels)
    if get_aval(levels).ndim > 1:
        raise ValueError(f"q must be have rank <= 1, got shape {get_aval(levels).shape}")
    x, levels = as_array(x), as_array(levels)
    result = x.dtype
    x = convert(x, wide_dtype(result))
    levels = convert(levels, x.dtype)
    axes = reduced_axes(axis, x.ndim)
    rows, front = _as_rows(x, axes)
    wanted = reshape(levels, (levels.size,))
    if weights is not None:
        w = _weights_as_rows(name, weights, x, axes)
        found = _weighted(rows, w, wanted, skip_nan)
    else:
        found = _of_rows(rows, wanted, method, skip_nan)
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape)) if keepdims else front
    return convert(reshape(found, (*levels.shape, *kept)), result)


def _as_rows(x: Any, axes: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
    """A matrix with the reduced axes as its rows, and the shape of the other axes."""
    ndim = x.ndim
    front = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    ordered = moveaxis(x, axes, tuple(range(ndim - len(axes), ndim)))
    size = math.prod(x.shape[i] for i in axes)
    return reshape(ordered, (math.prod(front), size)), front


def _pick(rows: Any, columns: Any) -> Any:
    """`rows[i, columns[j, i]]`, an array of the shape of `columns`."""
    count, size = rows.shape
    index = columns.dtype
    starts = el.mul_p.bind(iota(index, count), index.type(size))
    places = el.add_p.bind(columns, broadcast_in_dim(starts, columns.shape, (1,)))
    found = rows_at(reshape(rows, (count * size,)), reshape(places, (columns.size,)))
    return reshape(found, columns.shape)


def _of_rows(rows: Any, levels: Any, method: str, skip_nan: bool) -> Any:
    """The quantiles of each row of a matrix, shape (levels, rows)."""
    count, size = rows.shape
    dtype = rows.dtype
    shape = (levels.shape[0], count)
    if size == 0 or count == 0:
        return full(shape, dtype.type(np.nan))
    missing = isnan(rows)
    ordered = sort(rows, dimension=1)  # NaN comes last
    levels = broadcast_in_dim(levels, shape, (0,))
    if skip_nan:
        present = sum(convert_type(bits.not_p.bind(missing), dtype), axis=1)
        last = el.sub_p.bind(present, dtype.type(1))
        last = broadcast_in_dim(el.max_p.bind(last, dtype.type(0)), shape, (1,))
        undefined = cmp.eq_p.bind(present, dtype.type(0))
    else:
        last = full(shape, dtype.type(size - 1))
        undefined = any(missing, axis=1)
    found = _at_positions(ordered, levels, last, method)
    return select_where(broadcast_in_dim(undefined, shape, (1,)), dtype.type(np.nan), found)


def _at_positions(ordered: Any, levels: Any, last: Any, method: str) -> Any:
    dtype = ordered.dtype
    zero, one = dtype.type(0), dtype.type(1)
    position = el.mul_p.bind(levels, last)
    if method == "inverted_cdf":
        # The least value that a share of at least q does not exceed.
        position = el.sub_p.bind(el.mul_p.bind(levels, el.add_p.bind(last, one)), one)
        position = el.ceil_p.bind(position)
    position = el.min_p.bind(el.max_p.bind(position, zero), last)
    if method in ("nearest", "inverted_cdf"):
        position = round(position)
    low, high = el.floor_p.bind(position), el.ceil_p.bind(position)
    index = dtypes.default_dtype("i")
    below = above = None
    if method != "higher":
        below = _pick(ordered, convert_type(low, index))
    if method not in ("lower", "nearest", "inverted_cdf"):
        above = _pick(ordered, convert_type(high, index))
    if below is None or above is None:
        return above if below is None else below
    if method == "midpoint":
        part: Any = dtype.type(0.5)
    else:
        part = el.sub_p.bind(position, low)
    mixed = el.add_p.bind(
        el.mul_p.bind(below, el.sub_p.bind(one, part)), el.mul_p.bind(above, part)
    )
    # Between equal infinities the mean would be NaN.
    return select_where(cmp.eq_p.bind(below, above), below, mixed)


# ---- with weights


def _weights_as_rows(name: str, weights: Any, x: Any, axes: tuple[int, ...]) -> Any:
    w = as_array(as_operand(name, weights))
    (w,) = promote_dtypes_inexact(w)
    if w.shape != x.shape:
        if w.shape != tuple(x.shape[i] for i in axes):
            raise ValueError(
                "Shape of weights must be consistent with shape of a along specified axis, got "
                f"{w.shape} for an array of shape {x.shape} and axes {axes}."
            )
        w = broadcast_in_dim(w, x.shape, axes)
    return _as_rows(convert(w, x.dtype), axes)[0]


def _weighted(rows: Any, weights: Any, levels: Any, skip_nan: bool) -> Any:
    """The least value of each row up to which there is a share q of the weight."""
    count, size = rows.shape
    dtype = rows.dtype
    shape = (levels.shape[0], count)
    if size == 0 or count == 0:
        return full(shape, dtype.type(np.nan))
    missing = isnan(rows)
    if skip_nan:
        weights = select_where(missing, dtype.type(0), weights)
    ordered, weights = sort((rows, weights), dimension=1, num_keys=1)
    heaped = cumsum(weights, axis=1)
    total = slice_in_dim(heaped, size - 1, size, axis=1)
    # Where a share q is not reached yet; their number is the place of the quantile.
    share = el.mul_p.bind(
        broadcast_in_dim(levels, (*shape, size), (0,)),
        broadcast_in_dim(reshape(total, (count,)), (*shape, size), (1,)),
    )
    spread = broadcast_in_dim(heaped, (*shape, size), (1, 2))
    nothing = cmp.le_p.bind(spread, dtype.type(0))
    short = bits.or_p.bind(cmp.lt_p.bind(spread, share), nothing)
    index = dtypes.default_dtype("i")
    place = sum(convert_type(short, index), axis=2)
    found = _pick(ordered, el.min_p.bind(place, index.type(size - 1)))
    undefined = any(missing, axis=1)
    if skip_nan:
        undefined = cmp.eq_p.bind(reshape(total, (count,)), dtype.type(0))
    return select_where(broadcast_in_dim(undefined, shape, (1,)), dtype.type(np.nan), found)


# ---- the functions


def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """The values below which shares `q` (from 0 to 1) of the elements along `axis` lie.

    `q` is a number or a vector, whose axis comes first in the result. Between two elements `method`
    decides: linear, lower, higher, midpoint, nearest or inverted_cdf; only the last takes
    `weights`. NaN where there is a NaN. Raises ValueError for complex elements.

    >>> import xpr.numpy as jnp
    >>> jnp.quantile(jnp.array([1.0, 2.0, 4.0]), 0.25)
    Array(1.5, dtype=float32)
    """
    return _quantiles(
        "quantile", a, q, axis, out, overwrite_input, method, keepdims, weights, False
    )


def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """The quantiles along `axis` of the elements that are not NaN; NaN where all are.

    >>> import xpr.numpy as jnp
    >>> jnp.nanquantile(jnp.array([1.0, jnp.nan, 2.0]), 0.5)
    Array(1.5, dtype=float32)
    """
    return _quantiles(
        "nanquantile", a, q, axis, out, overwrite_input, method, keepdims, weights, True
    )


def _hundredth(name: str, q: Any) -> Any:
    (levels,) = promote_dtypes_inexact(as_operand(name, q, 1))
    return el.div_p.bind(levels, get_aval(levels).dtype.type(100))


@takes_out_sharding
def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """The values below which `q` percent of the elements along `axis` lie, as `quantile`.

    >>> import xpr.numpy as jnp
    >>> jnp.percentile(jnp.array([1.0, 2.0, 4.0]), 50)
    Array(2., dtype=float32)
    """
    levels = _hundredth("percentile", q)
    return _quantiles(
        "percentile", a, levels, axis, out, overwrite_input, method, keepdims, weights, False
    )


def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """The percentiles along `axis` of the elements that are not NaN; NaN where all are.

    >>> import xpr.numpy as jnp
    >>> jnp.nanpercentile(jnp.array([1.0, jnp.nan, 2.0]), 50)
    Array(1.5, dtype=float32)
    """
    levels = _hundredth("nanpercentile", q)
    return _quantiles(
        "nanpercentile", a, levels, axis, out, overwrite_input, method, keepdims, weights, True
    )


def median(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """The middle value along `axis`, or the mean of the two middle ones; NaN where there is a NaN.

    >>> import xpr.numpy as jnp
    >>> jnp.median(jnp.array([3, 1, 2, 4]))
    Array(2.5, dtype=float32)
    """
    return _quantiles(
        "median", a, 0.5, axis, out, overwrite_input, "midpoint", keepdims, None, False
    )


def nanmedian(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """The median along `axis` of the elements that are not NaN; NaN where all are.

    >>> import xpr.numpy as jnp
    >>> jnp.nanmedian(jnp.array([1.0, jnp.nan, 5.0]))
    Array(3., dtype=float32)
    """
    return _quantiles(
        "nanmedian", a, 0.5, axis, out, overwrite_input, "midpoint", keepdims, None, True
    )
