"""Places in sorted arrays: searchsorted and digitize."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.trace import Tracer, get_aval, is_eager
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, promote_dtypes
from xpr.numpy._rows import put_at, rows_at
from xpr.numpy._select import select_where
from xpr.numpy._static import host_result
from xpr.numpy._typing import Array, ArrayLike, DType
from xpr.primitives import compare as cmp
from xpr.primitives import elementwise as el
from xpr.primitives import integer as bits
from xpr.primitives import shape as sh
from xpr.primitives import slicing as sl
from xpr.primitives import sort as so
from xpr.primitives.convert import convert_type
from xpr.primitives.creation import full, full_like, iota, varying_like
from xpr.primitives.joining import concatenate
from xpr.primitives.reduce import reduce_sum
from xpr.primitives.scan import scan_p

_METHODS = ("compare_all", "scan", "scan_unrolled", "sort")


def searchsorted(
    a: ArrayLike,
    v: ArrayLike,
    side: str = "left",
    sorter: ArrayLike | None = None,
    *,
    method: str = "scan",
) -> Array:
    """Where to insert the elements of `v` into the sorted vector `a` to keep its order.

    The result is int32 (int64 for an `a` that is too long for it), also with 64-bit types.
    On the "left" of equal elements, or on their "right". NaN is greater than any number and equal
    to NaN. `sorter` holds the indices that sort `a`. All methods give the same answer: "scan" and
    "scan_unrolled" search by halves, "sort" sorts both together (best for many elements),
    "compare_all" compares every pair (best for few).

    Raises ValueError unless `a` has one axis and `side` and `method` are known; TypeError for a
    sorter that is no integer array.

    >>> import xpr.numpy as jnp
    >>> jnp.searchsorted(jnp.array([1, 2, 2, 3]), jnp.array([2, 5]))
    Array([1, 4], dtype=int32)
    """
    if side not in ("left", "right"):
        raise ValueError(f"invalid argument {side=}, expected 'left' or 'right'")
    if method not in _METHODS:
        raise ValueError(f"invalid argument {method=}, expected one of {list(_METHODS)}")
    x, q = as_operand("searchsorted", a, 0), as_operand("searchsorted", v, 1)
    if get_aval(x).ndim != 1:
        raise ValueError(f"a should be 1-dimensional, got shape {get_aval(x).shape}")
    x, q = promote_dtypes(x, q)
    if sorter is not None:
        order = as_operand("searchsorted", sorter, 2)
        if not dtypes.is_integer(get_aval(order).dtype):
            raise TypeError(
                "Indexer must have integer or boolean type, got indexer with type "
                f"{get_aval(order).dtype}"
            )
        x = rows_at(x, order) if get_aval(x).size else x
    shape = get_aval(q).shape
    index = dtypes.index_dtype(get_aval(x).shape[0])
    if not get_aval(x).size or not get_aval(q).size:
        return full(shape, index.type(0))
    if is_eager() and not isinstance(x, Tracer) and not isinstance(q, Tracer):
        return _on_host(as_array(x), as_array(q), side)
    flat = sh.reshape(q, (math.prod(shape),))
    if method == "sort" or dtypes.is_complex(get_aval(x).dtype):
        found = _by_sorting(x, flat, side)
    elif method == "compare_all":
        found = _by_comparing(x, flat, side)
    else:
        found = _by_halves(x, flat, side, unrolled=method == "scan_unrolled")
    return sh.reshape(found, shape)


def _on_host(x: Any, q: Any, side: Any) -> Array:
    ordered, wanted = np.asarray(x), np.asarray(q)
    if dtypes.is_float(ordered.dtype) and ordered.dtype.itemsize < 4:
        ordered, wanted = ordered.astype(np.float32), wanted.astype(np.float32)
    found = np.searchsorted(ordered, wanted, side)
    return host_result(np.asarray(found, dtypes.index_dtype(ordered.size)), x, q)


def _precedes(x: Any, q: Any, side: str) -> Any:
    """Whether an element of `a` goes before the place of an element of `v`."""
    found = cmp.lt(x, q) if side == "left" else cmp.le(x, q)
    if not dtypes.is_float(get_aval(q).dtype):
        return found
    # NaN comes after all numbers, and beside itself.
    last = cmp.ne(q, q)
    if side == "left":
        last = bits.bitwise_and(last, cmp.eq(x, x))
    return bits.bitwise_or(found, last)


def _by_comparing(x: Any, q: Any, side: str) -> Any:
    before = _precedes(sh.expand_dims(x, (1,)), sh.expand_dims(q, (0,)), side)
    return reduce_sum(convert_type(before, dtypes.index_dtype(get_aval(x).size)), (0,))


def _by_sorting(x: Any, q: Any, side: str) -> Any:
    """The places in the sorted sequence of all elements, less those among the queries alone."""
    parts = (q, x) if side == "left" else (x, q)
    index = dtypes.index_dtype(get_aval(x).size + get_aval(q).size)
    ranks = _ranks(concatenate(list(parts), 0), index)
    count, size = get_aval(q).shape[0], get_aval(ranks).shape[0]
    first = 0 if side == "left" else size - count
    found = el.sub(sl.slice_in_dim(ranks, first, first + count), _ranks(q, index))
    return convert_type(found, dtypes.index_dtype(get_aval(x).size))


def _ranks(x: Any, index: DType) -> Any:
    """The place of each element of a vector in its stable sorting."""
    size = get_aval(x).shape[0]
    places = iota(index, size)
    order = so.sort_key_val(x, places)[1]
    return put_at(full((size,), index.type(0)), order, places, unique=True)


def _by_halves(x: Any, q: Any, side: str, *, unrolled: bool) -> Any:
    size = get_aval(x).shape[0]
    index = dtypes.index_dtype(size)

    def longer(x: Any, q: Any, count: Any, step: Any) -> Any:
        more = el.add(count, varying_like(count, step))
        last = rows_at(x, el.sub(more, index.type(1)))
        fits = bits.bitwise_and(_precedes(last, q, side), cmp.le(more, index.type(size)))
        return select_where(fits, more, count)

    # How many elements are known to go before each place: steps of powers of two are added to it
    # as long as the last element that they take in goes before it too.
    count: Any = varying_like(x, full_like(q, 0, index))
    powers = range(size.bit_length() - 1, -1, -1)
    if unrolled:
        for power in powers:
            count = longer(x, q, count, index.type(1 << power))
        return count

    def step_of_half(x: Any, q: Any, count: Any, step: Any) -> list[Any]:
        return [longer(x, q, count, step), bits.shift_right_logical(step, index.type(1))]

    # One dispatch, where each step of the unrolled ones is another: a gather begins a new one.
    operands = (x, q, count, index.type(1 << powers[0]))
    found = scan_p.bind(
        *operands,
        jaxpr=trace_to_jaxpr(step_of_half, [get_aval(v) for v in operands]),
        length=len(powers),
        reverse=False,
        num_carry=2,
        num_consts=2,
        unroll=1,
    )
    return found[0]


def digitize(
    x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None
) -> Array:
    """The number of the bin that each element of `x` falls into.

    `bins` ascends or descends. Bin i of ascending bins is `bins[i-1] <= x < bins[i]`, of descending
    ones `bins[i-1] > x >= bins[i]`; with `right` the other end belongs to it. Raises ValueError
    unless `bins` has one axis.

    >>> import xpr.numpy as jnp
    >>> jnp.digitize(jnp.array([0.5, 1.0, 3.0]), jnp.array([1.0, 2.0]))
    Array([0, 1, 2], dtype=int32)
    """
    q, edges = as_operand("digitize", x, 0), as_operand("digitize", bins, 1)
    if get_aval(edges).ndim != 1:
        raise ValueError(
            f"digitize: bins must be a 1-dimensional array; got shape {get_aval(edges).shape}"
        )
    size = get_aval(edges).shape[0]
    index = dtypes.index_dtype(size)
    if not size:
        return full(get_aval(q).shape, index.type(0))
    how = "scan" if method is None else method
    side = "left" if right else "right"
    ascending = searchsorted(edges, q, side, method=how)
    turned = searchsorted(sh.rev(edges, (0,)), q, side, method=how)
    descending = el.sub(index.type(size), turned)
    first = sl.index_in_dim(edges, 0, keepdims=False)
    last = sl.index_in_dim(edges, size - 1, keepdims=False)
    return select_where(cmp.ge(last, first), ascending, descending)
