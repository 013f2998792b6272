"""Counts of values: `bincount` and histograms of one and more dimensions."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.errors import ShardingTypeError
from xpr.core.placing import given_sharding, resharded
from xpr.core.trace import get_aval
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, check_arraylike, convert, promote_dtypes_inexact
from xpr.numpy._select import select_where
from xpr.numpy._static import concrete
from xpr.numpy._typing import Array, ArrayLike, DType
from xpr.numpy.calculus import diff
from xpr.numpy.manipulation import ravel
from xpr.numpy.reductions import max, min, sum
from xpr.numpy.searching import searchsorted
from xpr.numpy.spacings import linspace
from xpr.primitives import compare as cmp
from xpr.primitives import elementwise as el
from xpr.primitives import integer as bits
from xpr.primitives.convert import convert_type
from xpr.primitives.creation import full
from xpr.primitives.joining import concatenate
from xpr.primitives.scatter import ScatterDimensionNumbers, scatter_add
from xpr.primitives.shape import broadcast_in_dim, expand_dims, reshape
from xpr.primitives.slicing import slice_in_dim


def _add_into_bins(length: int, places: Any, weights: Any, dtype: DType) -> Array:
    """A vector of `length` sums of `weights`; places outside it are left out."""
    return scatter_add(
        full((length,), dtype.type(0)),
        expand_dims(places, (1,)),
        weights,
        ScatterDimensionNumbers((), (0,), (0,)),
        mode="drop",
    )


def bincount(
    x: ArrayLike,
    weights: ArrayLike | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    out_sharding: Any = None,
) -> Array:
    """How often each of 0, 1, 2, ... is among the integers `x`, or the sums of their `weights`.

    The result has `length` elements: greater integers are left out. Without it, it reaches to the
    greatest integer, at least to `minlength`, and `x` must be known when a function is traced.
    Negative integers and False count as 0, True as 1. Raises TypeError for another dtype,
    ValueError for another number of axes.

    >>> import xpr.numpy as jnp
    >>> jnp.bincount(jnp.array([1, 1, 3]))
    Array([0, 2, 0, 1], dtype=int32)
    """
    if out_sharding is not None:
        given = given_sharding("bincount", out_sharding)
        spec, every = given.spec, frozenset(given.mesh.axis_names)
        if spec.partitions or spec.reduced or spec.unreduced not in (frozenset(), every):
            raise ShardingTypeError(
                "out_sharding passed to `jnp.bincount` can only be fully replicated or fully "
                f"unreduced along all mesh axes, got {spec} over {every}"
            )
        rest = {"weights": weights, "minlength": minlength, "length": length}
        return resharded("bincount", given, lambda: bincount(x, **rest))
    x = as_array(as_operand("bincount", x))
    if x.dtype == bool:
        x = as_array(x.astype(dtypes.default_dtype("i")))
    if not dtypes.is_integer(x.dtype):
        raise TypeError(f"x argument to bincount must have an integer type; got {x.dtype}")
    if x.ndim != 1:
        raise ValueError("only 1-dimensional input supported.")
    least = operator.index(minlength)
    if length is None:
        values = concrete(
            x, "The error occurred because of argument 'x' of jnp.bincount: give `length`."
        )
        size = int(np.maximum(values.max(initial=-1) + 1, least))
    else:
        size = operator.index(length)
    if weights is None:
        dtype = dtypes.default_dtype("i")
        amounts = full(x.shape, dtype.type(1))
    else:
        amounts = as_array(as_operand("bincount", weights, 1))
        if amounts.shape != x.shape:
            raise ValueError("shape of weights must match shape of x.")
        dtype = amounts.dtype
    places = el.max_p.bind(x, x.dtype.type(0))
    return _add_into_bins(size, places, amounts, dtype)


# ---- edges


def histogram_bin_edges(
    a: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None
) -> Array:
    """The edges of `bins` equal bins over `range`, by default from the least to the greatest value.

    Edges given as an array are converted alone. Raises TypeError for the names of rules.

    >>> import xpr.numpy as jnp
    >>> jnp.histogram_bin_edges(jnp.array([0.0, 4.0]), bins=2)
    Array([0., 2., 4.], dtype=float32)
    """
    del weights  # only rules that choose the bins look at them
    if isinstance(bins, str):
        raise TypeError(
            f"histogram takes a number of bins or their edges, not a rule, got {bins!r}"
        )
    x = as_array(as_operand("histogram_bin_edges", a))
    (x,) = promote_dtypes_inexact(x)
    if _shape_of_edges(bins):
        return convert(as_array(as_operand("histogram_bin_edges", bins, 1)), x.dtype)
    count = operator.index(bins)
    if count < 1:
        raise ValueError(f"histogram requires at least one bin, got bins={count}")
    if range is None:
        low, high = (min(x), max(x)) if x.size else (x.dtype.type(0), x.dtype.type(1))
    else:
        low, high = (convert(as_operand("histogram_bin_edges", v, 2), x.dtype) for v in range)
    same = cmp.eq_p.bind(low, high)
    half = x.dtype.type(0.5)
    low = select_where(same, el.sub_p.bind(low, half), low)
    high = select_where(same, el.add_p.bind(high, half), high)
    return linspace(low, high, count + 1, dtype=x.dtype)


def _shape_of_edges(bins: Any) -> tuple[int, ...]:
    """The shape of edges; () for a number of bins."""
    if isinstance(bins, (list, tuple)):
        return (len(bins),)
    return () if isinstance(bins, int) else tuple(get_aval(as_operand("histogram", bins, 1)).shape)


def _bins_of(x: Any, edges: Any) -> Any:
    """The bin of each value, one beyond the last for values that are in none."""
    count = edges.shape[0] - 1
    place = searchsorted(edges, x, side="right")
    index = place.dtype
    place = el.sub_p.bind(place, index.type(1))
    # The last bin has its upper edge too.
    last = broadcast_in_dim(reshape(slice_in_dim(edges, count, count + 1), ()), x.shape, ())
    at_end = cmp.eq_p.bind(x, last)
    place = select_where(at_end, index.type(count - 1), place)
    inside = bits.and_p.bind(cmp.ge_p.bind(place, index.type(0)), cmp.le_p.bind(x, last))
    return select_where(inside, place, index.type(count))


# ---- histograms


def histogram(
    a: ArrayLike,
    bins: Any = 10,
    range: Any = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array]:
    """How many values fall into each bin, as floats, and the edges of the bins.

    `bins` is a number of equal bins over `range` or their edges; all but the last leave out their
    upper edge. `weights` are summed up instead of counted; with `density` the integral over the
    bins is 1. Raises ValueError for weights of another shape.

    >>> import xpr.numpy as jnp
    >>> jnp.histogram(jnp.array([1.0, 2.0, 1.5]), bins=2)[0]
    Array([1., 2.], dtype=float32)
    """
    check_arraylike("histogram", a)
    if (
        weights is not None
        and get_aval(as_operand("histogram", weights, 3)).shape != get_aval(a).shape
    ):
        raise ValueError("weights should have the same shape as a.")
    if weights is None:
        (x,) = promote_dtypes_inexact(a)
        amounts = full(get_aval(x).shape, get_aval(x).dtype.type(1))
    else:
        x, amounts = promote_dtypes_inexact(a, weights)
    edges = histogram_bin_edges(x, bins, range)
    x, amounts = ravel(x), ravel(amounts)
    counts = _add_into_bins(edges.shape[0] - 1, _bins_of(x, edges), amounts, amounts.dtype)
    if density:
        widths = convert(diff(edges), counts.dtype)
        counts = el.div_p.bind(el.div_p.bind(counts, widths), sum(counts))
    return counts, edges


def histogramdd(
    sample: ArrayLike,
    bins: Any = 10,
    range: Sequence[Any] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, list[Array]]:
    """How many of the points, the rows of `sample`, fall into each box, and the edges.

    `bins` is one number or one for each column, or a list of edges. Counts are integers, unless
    there are `weights` or `density`. Raises ValueError for another number of bins or ranges.

    >>> import xpr.numpy as jnp
    >>> jnp.histogramdd(jnp.array([[0.0, 0.0], [1.0, 1.0]]), bins=2)[0]
    Array([[1, 0],
           [0, 1]], dtype=int32)
    """
    x = as_array(as_operand("histogramdd", sample))
    if x.ndim != 2:
        raise ValueError(
            f"sample must be a matrix of one point in each row, got {x.ndim} dimensions"
        )
    (x,) = promote_dtypes_inexact(x)
    count, size = x.shape
    if range is not None and (
        len(range) != size or any(r is not None and len(r) != 2 for r in range)
    ):
        raise ValueError(
            f"For sample.shape={x.shape}, range must be a list of length {size} of pairs"
        )
    if isinstance(bins, (list, tuple)) or _shape_of_edges(bins):
        if len(bins) != size:
            raise ValueError("should be a bin for each dimension.")
        per_column = list(bins)
    else:
        per_column = [bins] * size
    columns = [reshape(slice_in_dim(x, i, i + 1, axis=1), (count,)) for i in np.arange(size)]
    ranges = [None] * size if range is None else range
    edges = [
        histogram_bin_edges(c, b, r) for c, b, r in zip(columns, per_column, ranges, strict=True)
    ]
    shape = tuple(e.shape[0] - 1 for e in edges)
    total = math.prod(shape)
    counts = _add_into_bins(total, _box_numbers(columns, edges, total), *_amounts(weights, count))
    counts = reshape(counts, shape)
    if density:
        counts = _density(counts, edges)
    return counts, edges


def _amounts(weights: Any, count: int) -> tuple[Any, DType]:
    if weights is None:
        dtype = dtypes.default_dtype("i")
        return full((count,), dtype.type(1)), dtype
    found = as_array(as_operand("histogramdd", weights, 3))
    if found.shape != (count,):
        raise ValueError("should have one weight for each sample.")
    return found, found.dtype


def _box_numbers(columns: Sequence[Any], edges: Sequence[Any], total: int) -> Any:
    index = dtypes.default_dtype("i")
    number: Any = None
    outside: Any = None
    for column, edge in zip(columns, edges, strict=True):
        bins = edge.shape[0] - 1
        place = convert_type(_bins_of(column, edge), index)
        beyond = cmp.ge_p.bind(place, index.type(bins))
        if number is None:
            number, outside = place, beyond
        else:
            number = el.add_p.bind(el.mul_p.bind(number, index.type(bins)), place)
            outside = bits.or_p.bind(outside, beyond)
    return select_where(outside, index.type(total), number)


def _density(counts: Any, edges: Sequence[Any]) -> Any:
    counts = convert(counts, edges[0].dtype) if dtypes.is_integer(counts.dtype) else counts
    found = el.div_p.bind(counts, sum(counts))
    for axis, edge in enumerate(edges):
        widths = convert(diff(edge), found.dtype)
        found = el.div_p.bind(found, broadcast_in_dim(widths, found.shape, (axis,)))
    return found


def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: Any = 10,
    range: Sequence[Any] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array, Array]:
    """How many of the points (x, y) fall into each cell, and the edges along both axes.

    `bins` is one number or edges for both axes, or a pair. Otherwise as `histogramdd`.

    >>> import xpr.numpy as jnp
    >>> x = jnp.array([0, 1, 1])
    >>> counts, x_edges, y_edges = jnp.histogram2d(x, x, bins=2)
    >>> counts
    Array([[1, 0],
           [0, 2]], dtype=int32)
    >>> x_edges
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    check_arraylike("histogram2d", x, y)
    first, second = promote_dtypes_inexact(x, y)
    if get_aval(first).ndim != 1 or get_aval(first).shape != get_aval(second).shape:
        raise ValueError("x and y must be one-dimensional arrays of equal size")
    pair = bins if isinstance(bins, (list, tuple)) and len(bins) == 2 else [bins, bins]
    columns = [expand_dims(as_array(v), (1,)) for v in (first, second)]
    sample = concatenate(columns, 1)
    counts, (x_edges, y_edges) = histogramdd(sample, pair, range, weights, density)
    return counts, x_edges, y_edges
