"""Elements added, removed, repeated, replaced: insert, delete, repeat, place, put, fill_diagonal.

Arrays never change, so that the functions which change an array in NumPy want `inplace=False` and
return a new one.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.placing import resharded
from xpr.core.trace import Tracer, get_aval
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, broadcast_to, convert
from xpr.numpy._rows import put_at, rows_at
from xpr.numpy._select import select_where
from xpr.numpy._static import concrete
from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.logic import to_bool
from xpr.numpy.manipulation import moveaxis, ravel
from xpr.numpy.nonzeros import nonzero
from xpr.numpy.searching import searchsorted
from xpr.numpy.sorting import argsort
from xpr.primitives import compare as cmp
from xpr.primitives import elementwise as el
from xpr.primitives import joining as jn
from xpr.primitives import shape as sh
from xpr.primitives import slicing as sl
from xpr.primitives._index_dims import canonicalize_axis
from xpr.primitives.convert import convert_type
from xpr.primitives.creation import full, iota
from xpr.primitives.cumulative import cumsum
from xpr.primitives.scatter import ScatterDimensionNumbers, scatter_add

_FEW_RUNS = 4


def _along(x: Any, axis: int | None) -> tuple[Any, int]:
    """The operand, flattened where `axis` is None, and the axis counted from the front."""
    return (ravel(x), 0) if axis is None else (x, canonicalize_axis(axis, get_aval(x).ndim))


def _size(x: Any, axis: int) -> int:
    return get_aval(x).shape[axis]


# ---- repeat


def repeat(
    a: ArrayLike,
    repeats: ArrayLike,
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: Any = None,
) -> Array:
    """Each slice of `a` along `axis` repeated; without axis each element.

    `repeats` is a number, or one for each slice. Traced `repeats` need `total_repeat_length`, the
    length of the result, which is cut off there or filled up with the last slice.

    Raises TypeError for counts that are no integers, ValueError for negative ones and another
    number of them, ConcretizationTypeError for traced ones without a total.

    >>> import xpr.numpy as jnp
    >>> jnp.repeat(jnp.array([5, 7]), jnp.array([1, 2]))
    Array([5, 7, 7], dtype=int32)
    """
    if out_sharding is not None:
        length = total_repeat_length
        return resharded(
            "repeat", out_sharding, lambda: repeat(a, repeats, axis, total_repeat_length=length)
        )
    x, counts = as_operand("repeat", a, 0), as_operand("repeat", repeats, 1)
    if dtypes.kind(get_aval(counts).dtype) not in "biu":
        raise TypeError(f"repeat requires integer repeats, got {get_aval(counts).dtype}")
    total = None if total_repeat_length is None else operator.index(total_repeat_length)
    x, axis = _along(x, axis)
    size = _size(x, axis)
    if isinstance(counts, Tracer):
        if total is None:
            raise counts._concretization(
                "When jit-compiling jnp.repeat, the total number of repeats must be static. To fix "
                "this, either specify a static value for `repeats`, or pass a static value to "
                "`total_repeat_length`."
            )
        counts = broadcast_to(ravel(counts), (size,))
        return rows_at(x, _repeated_places(counts, total), axis) if size else as_array(x)
    host = concrete(counts, "").astype(np.int64)
    if host.size == 1 and total is None:
        return _repeat_all(x, int(host.reshape(())), axis)
    host = np.broadcast_to(host.reshape(-1), (size,))
    if host.min(initial=0) < 0:
        raise ValueError(f"repeats may not contain negative values, got {repeats}")
    if not size:
        return as_array(x)
    ends = np.cumsum(host)
    places = np.arange(ends[-1] if total is None else total)
    found = np.searchsorted(ends - host, places, side="right") - 1
    return rows_at(x, found.astype(dtypes.default_dtype("i")), axis, is_sorted=True)


def _repeat_all(x: Any, count: int, axis: int) -> Array:
    shape = get_aval(x).shape
    spread = (*shape[: axis + 1], count, *shape[axis + 1 :])
    dims = [i for i in range(len(spread)) if i != axis + 1]
    found = sh.broadcast_in_dim(x, spread, dims)
    return sh.reshape(found, (*shape[:axis], shape[axis] * count, *shape[axis + 1 :]))


def _repeated_places(counts: Any, total: int) -> Any:
    """Which slice each of `total` places repeats: the last one that starts at or before it."""
    index = dtypes.default_dtype("i")
    counts = convert_type(counts, index)
    starts = el.sub(cumsum(counts, axis=0), counts)
    begun = scatter_add(
        full((total,), index.type(0)),
        sh.expand_dims(starts, (1,)),
        full(get_aval(starts).shape, index.type(1)),
        ScatterDimensionNumbers((), (0,), (0,)),
        mode="drop",
    )
    return el.sub(cumsum(begun, axis=0), index.type(1))


# ---- insert and delete


def insert(arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> Array:
    """`arr` with `values` put in before the places `obj` along `axis`; without axis flattened.

    `obj` is a number, a vector of integers or a slice, which may be traced; places out of range
    count as the nearest end. A number takes all of `values` (whose first axis becomes `axis`); of
    several places each takes one slice. `values` are converted to the dtype of `arr`.

    Raises ValueError for an `obj` of another type or rank, and for values that do not fit.

    >>> import xpr.numpy as jnp
    >>> jnp.insert(jnp.array([1, 2, 3]), 1, 9)
    Array([1, 9, 2, 3], dtype=int32)
    """
    x = as_operand("insert", arr, 0)
    where = obj if isinstance(obj, slice) else as_operand("insert", obj, 1)
    new = as_operand("insert", values, 2)
    x, axis = _along(x, axis)
    size = _size(x, axis)
    if isinstance(where, slice):
        where = np.arange(size)[where]
    aval = get_aval(where)
    if aval.ndim > 1:
        raise ValueError(
            "jnp.insert(): obj must be a slice, a one-dimensional array, or a scalar; "
            f"got an array of shape {aval.shape}"
        )
    if aval.size and not dtypes.is_integer(aval.dtype):
        raise ValueError(f"jnp.insert(): index array must be integer typed; got {aval.dtype}")
    new = convert(new, get_aval(x).dtype, get_aval(x).weak_type)
    new = sh.broadcast_to_rank(new, max(get_aval(x).ndim, get_aval(new).ndim))
    if not aval.ndim:
        new = moveaxis(new, 0, axis)
    count = sh.broadcast_shapes(aval.shape or (1,), (_size(new, axis),))[0]
    shape = get_aval(x).shape
    new = broadcast_to(new, (*shape[:axis], count, *shape[axis + 1 :]))
    if not count:
        return as_array(x)
    if isinstance(where, Tracer):
        source: Any = _merged_places(broadcast_to(where, (count,)), size, count)
    else:
        places = np.broadcast_to(concrete(where, "").astype(np.int64), (count,))
        places = np.clip(np.where(places < 0, places + size, places), 0, size)
        # The number of a slice of [x, new], for each slice of the result.
        source = np.insert(np.arange(size), places, np.arange(size, size + count))
        source = source.astype(dtypes.default_dtype("i"))
    return rows_at(jn.concatenate([x, new], axis), source, axis)


def _merged_places(where: Any, size: int, count: int) -> Any:
    """Which slice of [x, new] each slice of the result is, for traced places."""
    index = dtypes.default_dtype("i")
    where = convert_type(where, index)
    where = select_where(cmp.lt(where, index.type(0)), el.add(where, index.type(size)), where)
    where = el.min(el.max(where, index.type(0)), index.type(size))
    order = argsort(where)
    ordered = rows_at(where, order)
    # The k-th new slice stands behind k others; an old one behind those put in before it.
    fresh = el.add(ordered, iota(index, count))
    numbers = iota(index, size)
    before = convert_type(searchsorted(ordered, numbers, side="right", method="sort"), index)
    source = full((size + count,), index.type(0))
    source = put_at(source, fresh, el.add(order, index.type(size)), unique=True)
    return put_at(source, el.add(numbers, before), numbers, unique=True)


def delete(
    arr: ArrayLike, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False
) -> Array:
    """`arr` without the slices at `obj` along `axis`; without axis without those elements.

    `obj` is a number, an array of integers, a boolean vector or a slice. It must be concrete,
    unless it is an integer array without repetitions, which `assume_unique_indices` promises.

    Raises ValueError for other types and a boolean vector of another length, IndexError for
    indices out of range.

    >>> import xpr.numpy as jnp
    >>> jnp.delete(jnp.array([5, 6, 7]), 1)
    Array([5, 7], dtype=int32)
    """
    x = as_operand("delete", arr, 0)
    where = obj if isinstance(obj, slice) else as_operand("delete", obj, 1)
    x, axis = _along(x, axis)
    size = _size(x, axis)
    if isinstance(where, Tracer) and assume_unique_indices and where.ndim:
        return _without_unique(x, where, axis)
    keep = np.ones(size, bool)
    if isinstance(where, slice):
        keep[where] = False
    else:
        host = concrete(where, "'obj' array argument of jnp.delete()")
        if host.dtype == bool and host.shape != (size,):
            raise ValueError(
                "np.delete(arr, obj): for boolean indices, obj must be one-dimensional with length "
                f"matching specified axis, got shape {host.shape} for length {size}."
            )
        if host.size and host.dtype.kind not in "biu":
            raise ValueError(
                f"np.delete(arr, obj): got obj.dtype={host.dtype}; must be integer or bool."
            )
        if not host.ndim:
            keep[canonicalize_axis(int(host), size)] = False
        else:
            keep[host if host.size else []] = False
    return _kept(x, keep, axis)


def _kept(x: Any, keep: np.ndarray[Any, Any], axis: int) -> Array:
    """The slices of `x` where `keep` holds: joined slices where these are few."""
    steps = np.flatnonzero(np.diff(np.concatenate([[False], keep, [False]])))
    if len(steps) > 2 * _FEW_RUNS:
        return rows_at(x, np.flatnonzero(keep).astype(dtypes.default_dtype("i")), axis)
    runs = steps.reshape(-1, 2).tolist() or [[0, 0]]
    parts = [sl.slice_in_dim(x, start, stop, axis=axis) for start, stop in runs]
    return as_array(jn.concatenate(parts, axis))


def _without_unique(x: Any, where: Any, axis: int) -> Array:
    size, count = _size(x, axis), where.size
    index = dtypes.default_dtype("i")
    places = convert_type(ravel(where), index)
    places = select_where(cmp.lt(places, index.type(0)), el.add(places, index.type(size)), places)
    keep = put_at(
        full((size,), True, dtypes.BOOL), places, full((count,), False, dtypes.BOOL), unique=True
    )
    kept = nonzero(keep, size=max(size - count, 0))[0]
    return rows_at(x, kept, axis, is_sorted=True)


# ---- new values at some places


def _refuse_inplace(name: str, inplace: bool) -> None:
    if inplace:
        raise ValueError(
            f"jax.numpy.{name} cannot modify arrays in-place, because JAX arrays are immutable. "
            "Pass inplace=False to instead return an updated array."
        )


def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Array:
    """`arr` with the elements where `mask` holds replaced by `vals`, in row-major order.

    `vals` are repeated as often as needed. Raises ValueError unless inplace is False, `mask` has
    the size of `arr`, and `vals` has elements.

    >>> import xpr.numpy as jnp
    >>> x = jnp.arange(4)
    >>> jnp.place(x, x > 1, jnp.array([7, 8]), inplace=False)
    Array([0, 1, 7, 8], dtype=int32)
    """
    x, held = as_operand("place", arr, 0), as_operand("place", mask, 1)
    new = ravel(as_operand("place", vals, 2))
    _refuse_inplace("place", inplace)
    if get_aval(x).size != get_aval(held).size:
        raise ValueError(
            "place: arr and mask must be the same size, got shapes "
            f"{get_aval(x).shape} and {get_aval(held).shape}"
        )
    if not new.size:
        raise ValueError("Cannot place values from an empty array")
    if not get_aval(x).size:
        return as_array(x)
    index = dtypes.default_dtype("i")
    held = ravel(to_bool(held))
    rank = el.sub(cumsum(convert_type(held, index), axis=0), index.type(1))
    rank = el.rem(el.max(rank, index.type(0)), index.type(new.size))
    new = rows_at(convert(new, get_aval(x).dtype), rank)
    return as_array(sh.reshape(select_where(held, new, ravel(x)), get_aval(x).shape))


def put(
    a: ArrayLike,
    ind: ArrayLike,
    v: ArrayLike,
    mode: str | None = None,
    *,
    inplace: bool = True,
) -> Array:
    """`a` with its elements number `ind` (in row-major order) replaced by `v`.

    `v` is repeated as often as needed; of several values for one element the last one counts.
    Negative indices count from the end; others out of range mean the nearest end. With mode
    "clip" negative ones mean the front too; with "wrap" all are taken modulo the size.

    Raises ValueError unless inplace is False and for another mode, NotImplementedError for
    "raise", TypeError for indices that are no integers.

    >>> import xpr.numpy as jnp
    >>> jnp.put(jnp.arange(4), jnp.array([0, -1]), 9, inplace=False)
    Array([9, 1, 2, 9], dtype=int32)
    """
    x, where, new = (as_operand("put", z, i) for i, z in enumerate((a, ind, v)))
    _refuse_inplace("put", inplace)
    if mode == "raise":
        raise NotImplementedError("The 'raise' mode to jnp.put is not supported.")
    if mode not in (None, "clip", "wrap"):
        raise ValueError(f"mode should be one of 'wrap' or 'clip'; got {mode=}")
    size, count = get_aval(x).size, get_aval(where).size
    if not (size and count and get_aval(new).size):
        return as_array(x)
    if not dtypes.is_integer(get_aval(where).dtype):
        raise TypeError(
            "Indexer must have integer or boolean type, got indexer with type "
            f"{get_aval(where).dtype}"
        )
    index = dtypes.default_dtype("i")
    places, limit = convert_type(ravel(where), index), index.type(size)
    if mode == "wrap":
        places = el.rem(places, limit)
    if mode != "clip":
        places = select_where(cmp.lt(places, index.type(0)), el.add(places, limit), places)
    places = el.min(el.max(places, index.type(0)), index.type(size - 1))
    new = convert(ravel(new), get_aval(x).dtype, get_aval(x).weak_type)
    if get_aval(new).size != count:
        cycle = (np.arange(count) % get_aval(new).size).astype(index)
        new = rows_at(new, cycle)
    return as_array(sh.reshape(put_at(ravel(x), places, new), get_aval(x).shape))


def fill_diagonal(
    a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True
) -> Array:
    """`a` with the elements on its main diagonal (all indices equal) replaced by `val`.

    `val` is a number, or an array whose elements are repeated as often as needed. Raises
    NotImplementedError unless inplace and wrap are False, ValueError for fewer than two axes and
    for more than two of different sizes.

    >>> import xpr.numpy as jnp
    >>> jnp.fill_diagonal(jnp.zeros((2, 2), int), 7, inplace=False)
    Array([[7, 0],
           [0, 7]], dtype=int32)
    """
    if inplace:
        raise NotImplementedError("JAX arrays are immutable, must use inplace=False")
    if wrap:
        raise NotImplementedError("wrap=True is not implemented, must use wrap=False")
    x, new = as_operand("fill_diagonal", a, 0), as_operand("fill_diagonal", val, 1)
    shape = get_aval(x).shape
    if len(shape) < 2:
        raise ValueError(f"array must be at least 2-d, got shape {shape}")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise ValueError(f"All dimensions of input must be of equal length, got shape {shape}")
    count = min(shape)
    new = convert(ravel(new), get_aval(x).dtype, get_aval(x).weak_type)
    if not count or not get_aval(new).size:
        return as_array(x)
    index = dtypes.default_dtype("i")
    if get_aval(new).size != count:
        new = rows_at(new, (np.arange(count) % get_aval(new).size).astype(index))
    step = sum(np.prod(shape[i + 1 :], dtype=int) for i in range(len(shape)))
    places = (np.arange(count) * step).astype(index)
    return as_array(sh.reshape(put_at(ravel(x), places, new, unique=True), shape))
