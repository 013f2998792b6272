"""Joining arrays and taking them apart: concatenate, stack, block, split, tile.

Arrays that are joined are brought to one dtype. The functions that join take a sequence of arrays
and numbers, or one array, which stands for the sequence of its rows.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.array import Array as CoreArray
from xpr.core.trace import Tracer, get_aval
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, convert, promote_dtypes
from xpr.numpy._static import concrete
from xpr.numpy._typing import Array, ArrayLike, DTypeLike, Shape
from xpr.numpy.dtype_api import requested_dtype
from xpr.numpy.manipulation import moveaxis, ravel, reshape
from xpr.primitives import joining as jn
from xpr.primitives import shape as sh
from xpr.primitives import slicing as sl
from xpr.primitives._index_dims import canonicalize_axis, canonicalize_shape

# ---- joining

# Where an operand of that many axes gets new ones of size 1, so that it has at least 1, 2 or 3.
_TO_1D: dict[int, Shape] = {0: (0,)}
_TO_2D: dict[int, Shape] = {0: (0, 1), 1: (0,)}
_TO_3D: dict[int, Shape] = {0: (0, 1, 2), 1: (0, 2), 2: (2,)}
_TO_COLUMNS: dict[int, Shape] = {0: (0, 1), 1: (1,)}


def _is_rows(arrays: Any) -> bool:
    """Whether one array stands for the sequence of its rows, of which there are some."""
    return isinstance(arrays, (CoreArray, np.ndarray)) and arrays.ndim > 0 and len(arrays) > 0


def _joined_rows(rows: Any, axis: int | None, new_axes: dict[int, Shape]) -> Array:
    """The rows of one array, with new axes each, joined along `axis`: only axes move."""
    if axis is None:
        return ravel(rows)
    places = [i + 1 for i in new_axes.get(rows.ndim - 1, ())]
    x = sh.expand_dims(rows, places)
    shape = get_aval(x).shape[1:]
    if not shape:
        raise ValueError("Zero-dimensional arrays cannot be concatenated.")
    axis = canonicalize_axis(axis, len(shape))
    merged = (*shape[:axis], len(rows) * shape[axis], *shape[axis + 1 :])
    return reshape(moveaxis(x, 0, axis), merged)


def _sequence(name: str, arrays: Any, verb: str) -> list[Any]:
    """The checked operands of a sequence; ValueError when there are none."""
    if isinstance(arrays, (str, bytes)) or not hasattr(arrays, "__iter__"):
        raise TypeError(f"{name} requires a sequence of arrays, got {type(arrays)}")
    found = [as_operand(name, a, i) for i, a in enumerate(arrays)]
    if not found:
        raise ValueError(f"Need at least one array to {verb}.")
    return found


def _one_dtype(name: str, xs: list[Any], dtype: DTypeLike) -> list[Any]:
    if dtype is None:
        return promote_dtypes(*xs)
    wanted = requested_dtype(dtype, name)
    return [convert(x, wanted) for x in xs]


def _joined(xs: list[Any], axis: int | None) -> Array:
    if axis is None:
        return as_array(jn.concatenate([ravel(x) for x in xs], 0))
    ndim = get_aval(xs[0]).ndim
    if not ndim:
        raise ValueError("Zero-dimensional arrays cannot be concatenated.")
    return as_array(jn.concatenate(xs, canonicalize_axis(axis, ndim)))


def _join(
    name: str, arrays: Any, axis: int | None, dtype: DTypeLike, new_axes: dict[int, Shape]
) -> Array:
    if _is_rows(arrays):
        return _joined_rows(_one_dtype(name, [arrays], dtype)[0], axis, new_axes)
    xs = _one_dtype(name, _sequence(name, arrays, "concatenate"), dtype)
    wider = [sh.expand_dims(x, new_axes.get(get_aval(x).ndim, ())) for x in xs]
    return _joined(wider, axis)


def concatenate(arrays: Any, axis: int | None = 0, dtype: DTypeLike = None) -> Array:
    """Joins arrays along `axis`; without axis (None) the elements of all of them in one axis.

    Raises TypeError for shapes that differ elsewhere and for what is no sequence of arrays;
    ValueError for an empty sequence, for numbers and for an axis out of range.

    >>> import xpr.numpy as jnp
    >>> jnp.concatenate([jnp.arange(2), jnp.array([0.5])])
    Array([0. , 1. , 0.5], dtype=float32)
    """
    return _join("concatenate", arrays, axis, dtype, {})


def concat(arrays: Sequence[ArrayLike], /, *, axis: int | None = 0) -> Array:
    """Joins arrays along `axis`; the array API's name for `concatenate`.

    >>> import xpr.numpy as jnp
    >>> jnp.concat([jnp.array([1, 2]), jnp.array([3])])
    Array([1, 2, 3], dtype=int32)
    """
    return _join("concat", arrays, axis, None, {})


def stack(arrays: Any, axis: int = 0, out: None = None, dtype: DTypeLike = None) -> Array:
    """Joins arrays of one shape along a new axis, which stands at `axis`.

    Raises ValueError for shapes that differ, an empty sequence and an axis out of range.

    >>> import xpr.numpy as jnp
    >>> jnp.stack([jnp.arange(2), jnp.ones(2)], axis=1)
    Array([[0., 1.],
           [1., 1.]], dtype=float32)
    """
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.stack is not supported.")
    if _is_rows(arrays):
        return moveaxis(_one_dtype("stack", [arrays], dtype)[0], 0, axis)
    xs = _one_dtype("stack", _sequence("stack", arrays, "stack"), dtype)
    return as_array(jn.stack(xs, axis))


def vstack(tup: Any, dtype: DTypeLike = None) -> Array:
    """Joins arrays along their first axis; those of fewer than two axes become rows.

    >>> import xpr.numpy as jnp
    >>> jnp.vstack([jnp.arange(2), jnp.arange(2)]).shape
    (2, 2)
    """
    return _join("vstack", tup, 0, dtype, _TO_2D)


def hstack(tup: Any, dtype: DTypeLike = None) -> Array:
    """Joins arrays along their second axis, or along the first where they have only one.

    >>> import xpr.numpy as jnp
    >>> jnp.hstack([jnp.ones((2, 1)), jnp.ones((2, 2))]).shape
    (2, 3)
    """
    if _is_rows(tup):
        return _join("hstack", tup, 0 if tup.ndim <= 2 else 1, dtype, _TO_1D)
    xs = _sequence("hstack", tup, "concatenate")
    return _join("hstack", xs, 0 if get_aval(xs[0]).ndim <= 1 else 1, dtype, _TO_1D)


def dstack(tup: Any, dtype: DTypeLike = None) -> Array:
    """Joins arrays along their third axis: (n,) counts as (1, n, 1), (m, n) as (m, n, 1).

    >>> import xpr.numpy as jnp
    >>> jnp.dstack([jnp.ones(3), jnp.ones(3)]).shape
    (1, 3, 2)
    """
    return _join("dstack", tup, 2, dtype, _TO_3D)


def column_stack(tup: Any) -> Array:
    """Joins arrays along their second axis; those of one axis become columns.

    >>> import xpr.numpy as jnp
    >>> jnp.column_stack([jnp.arange(2), jnp.arange(2)])
    Array([[0, 0],
           [1, 1]], dtype=int32)
    """
    return _join("column_stack", tup, 1, None, _TO_COLUMNS)


def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """`arr` with `values` joined on at the end of `axis`; without axis both are flattened first.

    >>> import xpr.numpy as jnp
    >>> jnp.append(jnp.arange(2), 7)
    Array([0, 1, 7], dtype=int32)
    """
    xs = [as_operand("append", x, i) for i, x in enumerate((arr, values))]
    return _joined(promote_dtypes(*xs), axis)


def block(arrays: Any) -> Array:
    """Builds an array from nested lists of blocks.

    The innermost lists are joined along the last axis, the ones around them along the last but
    one, and so on; blocks of fewer axes get leading axes of size 1. Raises ValueError for empty
    lists, tuples and lists of different depths; TypeError for sizes that do not fit.

    >>> import xpr.numpy as jnp
    >>> a, b = jnp.ones((2, 2)), jnp.zeros((2, 1))
    >>> jnp.block([[a, b], [b.T, jnp.array([7.0])]])
    Array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 7.]], dtype=float32)
    """
    blocks: list[Any] = []
    depth = _depth(arrays, blocks)
    rank = max(depth, *(get_aval(x).ndim for x in blocks))
    converted = iter(promote_dtypes(*blocks))

    def join(level: int, item: Any) -> Array:
        if level == depth:
            return as_array(sh.broadcast_to_rank(next(converted), rank))
        parts = [join(level + 1, x) for x in item]
        return as_array(jn.concatenate(parts, rank - depth + level))

    return join(0, arrays)


def _depth(item: Any, blocks: list[Any]) -> int:
    """How deep the lists are nested; the blocks, in order, are added to `blocks`."""
    if isinstance(item, tuple):
        raise ValueError(f"jax.numpy.block does not allow tuples, got {item}")
    if not isinstance(item, list):
        blocks.append(as_operand("block", item, len(blocks)))
        return 0
    if not item:
        raise ValueError("jax.numpy.block does not allow empty list arguments")
    depths = {_depth(x, blocks) for x in item}
    if len(depths) > 1:
        raise ValueError(
            "Mismatched list depths in jax.numpy.block: lists of depths "
            f"{' and '.join(map(str, sorted(depths)))} side by side"
        )
    return depths.pop() + 1


def tile(A: ArrayLike, reps: Any) -> Array:
    """`A` repeated `reps[i]` times along axis i; a shorter one of the two gets leading ones.

    >>> import xpr.numpy as jnp
    >>> jnp.tile(jnp.array([1, 2]), (2, 2))
    Array([[1, 2, 1, 2],
           [1, 2, 1, 2]], dtype=int32)
    """
    x = as_operand("tile", A)
    ndim = get_aval(x).ndim
    counts = canonicalize_shape("tile", reps)
    counts = (1,) * (ndim - len(counts)) + counts
    return as_array(jn.tile(sh.expand_dims(x, range(len(counts) - ndim)), counts))


# ---- taking apart


def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """`ary` cut along `axis`: into that many equal parts, or before each of the given indices.

    Raises ValueError when equal parts are impossible, indices do not ascend within the axis, or the
    axis is out of range; ConcretizationTypeError for traced indices.

    >>> import xpr.numpy as jnp
    >>> jnp.split(jnp.arange(4), [1])
    [Array([0], dtype=int32), Array([1, 2, 3], dtype=int32)]
    """
    return _split("split", ary, indices_or_sections, axis)


def array_split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """As `split`; parts whose number does not divide the size differ by one element.

    >>> import xpr.numpy as jnp
    >>> [part.size for part in jnp.array_split(jnp.arange(5), 3)]
    [2, 2, 1]
    """
    return _split("array_split", ary, indices_or_sections, axis)


def hsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the second axis, or along the first where there is only one.

    >>> import xpr.numpy as jnp
    >>> jnp.hsplit(jnp.arange(4).reshape(2, 2), 2)
    [Array([[0],
           [2]], dtype=int32), Array([[1],
           [3]], dtype=int32)]
    """
    x = as_operand("hsplit", ary)
    return _split("hsplit", x, indices_or_sections, 0 if get_aval(x).ndim == 1 else 1)


def vsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the first axis.

    >>> import xpr.numpy as jnp
    >>> jnp.vsplit(jnp.arange(4).reshape(2, 2), 2)
    [Array([[0, 1]], dtype=int32), Array([[2, 3]], dtype=int32)]
    """
    return _split("vsplit", ary, indices_or_sections, 0)


def dsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the third axis.

    >>> import xpr.numpy as jnp
    >>> [part.shape for part in jnp.dsplit(jnp.ones((2, 3, 4)), [1])]
    [(2, 3, 1), (2, 3, 3)]
    """
    return _split("dsplit", ary, indices_or_sections, 2)


def _split(name: str, ary: Any, where: Any, axis: int) -> list[Array]:
    x = as_operand(name, ary)
    shape = get_aval(x).shape
    axis = canonicalize_axis(axis, len(shape))
    sizes = _part_sizes(name, where, shape[axis])
    return [as_array(part) for part in jn.split(x, sizes, axis)]


def _part_sizes(name: str, where: Any, size: int) -> list[int]:
    if isinstance(where, (list, tuple)):
        places = [_place(name, i) for i in where]
    else:
        host = concrete(where, f"in jax.numpy.{name} argument 1")
        if not host.ndim:
            return _equal_sizes(name, _place(name, host[()]), size)
        places = [_place(name, i) for i in host.tolist()]
    ends = [i + size if i < 0 else i for i in places]
    return [b - a for a, b in zip([0, *ends], [*ends, size], strict=True)]


def _place(name: str, i: Any) -> int:
    if isinstance(i, Tracer):
        concrete(i, f"in jax.numpy.{name} argument 1")
    try:
        return operator.index(i)
    except TypeError:
        raise TypeError(f"{name} requires integer indices or sections, got {i!r}") from None


def _equal_sizes(name: str, count: int, size: int) -> list[int]:
    if count <= 0:
        raise ValueError(f"{name} requires at least one section, got {count}")
    length, rest = divmod(size, count)
    if rest and name != "array_split":
        raise ValueError(f"array split does not result in an equal division: rest is {rest}")
    return [length + 1] * rest + [length] * (count - rest)


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices of `x` along `axis`, without that axis.

    >>> import xpr.numpy as jnp
    >>> jnp.unstack(jnp.array([[1, 2], [3, 4]]), axis=1)
    (Array([1, 3], dtype=int32), Array([2, 4], dtype=int32))
    """
    return tuple(jn.unstack(as_operand("unstack", x), axis))


def resize(a: ArrayLike, new_shape: Any) -> Array:
    """The elements of `a` in row-major order, as often as needed to fill `new_shape`.

    Zeros when `a` has none. Raises ValueError for a negative size.

    >>> import xpr.numpy as jnp
    >>> jnp.resize(jnp.arange(3), (2, 2))
    Array([[0, 1],
           [2, 0]], dtype=int32)
    """
    x = as_operand("resize", a)
    sizes = canonicalize_shape("resize", new_shape)
    if min(sizes, default=0) < 0:
        raise ValueError("all elements of `new_shape` must be non-negative")
    total, have = math.prod(sizes), get_aval(x).size
    if not have:
        zero = convert(0, get_aval(x).dtype)
        return as_array(sh.broadcast_in_dim(zero, sizes, ()))
    row = sh.reshape(x, (have,))
    if total > have:
        row = jn.tile(row, (-(-total // have),))
    return reshape(sl.slice_in_dim(row, 0, total), sizes)
