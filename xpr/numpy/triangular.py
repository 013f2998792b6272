"""Matrices with ones on a diagonal, triangles, diagonals, and the indices of all these."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.trace import get_aval
from xpr.numpy._concrete import as_array, from_host
from xpr.numpy._promote import (
    as_operand,
    broadcast_to,
    convert,
    scalar_type,
    without_weak_type,
)
from xpr.numpy._select import select_where
from xpr.numpy._typing import Array, ArrayLike, DType, DTypeLike
from xpr.numpy.creation import placed
from xpr.numpy.dtype_api import requested_dtype
from xpr.numpy.manipulation import moveaxis, ravel
from xpr.numpy.nonzeros import nonzero
from xpr.primitives import compare as cmp
from xpr.primitives import elementwise as el
from xpr.primitives._index_dims import canonicalize_axis, no_shape
from xpr.primitives.convert import convert_type
from xpr.primitives.creation import broadcasted_iota, full
from xpr.primitives.cumulative import cumprod
from xpr.primitives.joining import concatenate
from xpr.primitives.shape import broadcast_in_dim, pad, reshape, rev
from xpr.primitives.slicing import slice as lax_slice

_INT = np.dtype(np.int32)


def _compare_places(rows: int, columns: int, k: Any, test: Callable[[Any, Any], Any]) -> Any:
    """Where `test(row + k, column)` holds, a boolean matrix."""
    row = broadcasted_iota(_INT, (rows, columns), 0)
    column = broadcasted_iota(_INT, (rows, columns), 1)
    return test(el.add_p.bind(row, convert(k, _INT)), column)


def _sizes(name: str, n: Any, m: Any) -> tuple[int, int]:
    try:
        rows = operator.index(n)
        columns = rows if m is None else operator.index(m)
    except TypeError:
        shape = (n, n if m is None else m)
        raise TypeError(no_shape(name, shape, shape)) from None
    if rows < 0 or columns < 0:
        raise ValueError(f"negative dimensions are not allowed, got {n} and {m}")
    return rows, columns


def eye(
    N: int,
    M: int | None = None,
    k: int | ArrayLike = 0,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
) -> Array:
    """The N by M matrix (N by N by default) with ones on diagonal `k` and zeros elsewhere.

    Raises ValueError for negative sizes and a `k` that is no integer.

    >>> import xpr.numpy as jnp
    >>> jnp.eye(2, 3, k=1)
    Array([[0., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    rows, columns = _sizes("eye", N, M)
    wanted = requested_dtype(float if dtype is None else dtype, "eye")
    place = as_operand("eye", k, 2)
    if not dtypes.is_integer(get_aval(place).dtype) or get_aval(place).shape:
        raise ValueError(f"k must be a scalar integer; got {k}")
    found = _compare_places(rows, columns, place, cmp.eq_p.bind)
    return placed(convert(found, wanted), device)


def identity(n: int, dtype: DTypeLike | None = None) -> Array:
    """The n by n identity matrix.

    >>> import xpr.numpy as jnp
    >>> jnp.identity(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return eye(n, dtype=requested_dtype(float if dtype is None else dtype, "identity"))


# ---- triangles


def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Array:
    """The N by M matrix with ones on diagonal `k` and below, zeros above.

    It is of float32, also with 64-bit types, unless `dtype` is given.

    >>> import xpr.numpy as jnp
    >>> jnp.tri(2, 3, 1)
    Array([[1., 1., 0.],
           [1., 1., 1.]], dtype=float32)
    """
    rows, columns = _sizes("tri", N, M)
    wanted = requested_dtype(np.float32 if dtype is None else dtype, "tri")
    return convert(_compare_places(rows, columns, k, cmp.ge_p.bind), wanted)


def _triangle(name: str, m: Any, k: Any, test: Callable[[Any, Any], Any]) -> Array:
    x = as_array(as_operand(name, m))
    if x.ndim < 2:
        raise ValueError(f"Argument to jax.numpy.{name} must be at least 2D")
    mask = _compare_places(x.shape[-2], x.shape[-1], operator.index(k), test)
    return select_where(broadcast_to(mask, x.shape), x, scalar_type(x)(0))


def tril(m: ArrayLike, k: int = 0) -> Array:
    """The lower triangle of matrices (the last two axes): zeros above diagonal `k`.

    Raises ValueError for arrays of fewer than two axes.

    >>> import xpr.numpy as jnp
    >>> jnp.tril(jnp.ones((2, 2)))
    Array([[1., 0.],
           [1., 1.]], dtype=float32)
    """
    return _triangle("tril", m, k, cmp.ge_p.bind)


def triu(m: ArrayLike, k: int = 0) -> Array:
    """The upper triangle of matrices (the last two axes): zeros below diagonal `k`.

    >>> import xpr.numpy as jnp
    >>> jnp.triu(jnp.array([[1, 2], [3, 4]]))
    Array([[1, 2],
           [0, 4]], dtype=int32)
    """
    return _triangle("triu", m, k, cmp.le_p.bind)


# ---- diagonals


def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The elements on diagonal `offset` of the matrices that two axes make, as a last axis.

    Raises ValueError for arrays of fewer than two axes and for equal axes.

    >>> import xpr.numpy as jnp
    >>> jnp.diagonal(jnp.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    """
    x = as_array(without_weak_type(as_operand("diagonal", a)))
    if x.ndim < 2:
        raise ValueError("diagonal requires an array of at least two dimensions.")
    first, second = canonicalize_axis(axis1, x.ndim), canonicalize_axis(axis2, x.ndim)
    if first == second:
        raise ValueError(f"axis1 and axis2 cannot be the same, got {axis1} and {axis2}")
    x = moveaxis(x, (first, second), (-2, -1))
    k = operator.index(offset)
    rows, columns = x.shape[-2:]
    size = max(0, min(rows + min(k, 0), columns - max(k, 0)))
    front = x.shape[:-2]
    if size == 0:
        return full((*front, 0), x.dtype.type(0))
    # In row-major order neighbours on a diagonal are columns + 1 places apart.
    start = k if k >= 0 else -k * columns
    stop = start + (size - 1) * (columns + 1) + 1
    flat = reshape(x, (*front, rows * columns))
    zeros, ones = (0,) * len(front), (1,) * len(front)
    return lax_slice(flat, (*zeros, start), (*front, stop), (*ones, columns + 1))


def diag(v: ArrayLike, k: int = 0) -> Array:
    """The diagonal `k` of a matrix, or the matrix with a vector on its diagonal `k`.

    Raises ValueError unless `v` has one or two axes.

    >>> import xpr.numpy as jnp
    >>> jnp.diag(jnp.array([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    x = as_array(as_operand("diag", v))
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ValueError(f"diag input must be 1d or 2d, got {x.ndim} dimensions")
    offset = operator.index(k)
    size = x.shape[0] + abs(offset)
    zero = scalar_type(x)(0)
    longer = pad(x, zero, ((0, abs(offset), 0),))
    spread = broadcast_in_dim(longer, (size, size), (0,) if offset >= 0 else (1,))
    return select_where(_compare_places(size, size, offset, cmp.eq_p.bind), spread, zero)


def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """The matrix with the elements of `v`, flattened, on its diagonal `k`.

    >>> import xpr.numpy as jnp
    >>> jnp.diagflat(jnp.array([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    return diag(ravel(without_weak_type(as_operand("diagflat", v))), k)


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """The matrix whose rows are powers of the elements of `x`, from N - 1 down to 0.

    `increasing` has them from 0 up. Raises ValueError unless `x` has one axis.

    >>> import xpr.numpy as jnp
    >>> jnp.vander(jnp.array([1, 2, 3]), 3)
    Array([[1, 1, 1],
           [4, 2, 1],
           [9, 3, 1]], dtype=int32)
    """
    v = as_array(as_operand("vander", x))
    if v.ndim != 1:
        raise ValueError(f"x must be a one-dimensional array, got {v.ndim} dimensions")
    count = v.shape[0] if N is None else operator.index(N)
    if count < 0:
        raise ValueError(f"N must be nonnegative, got {count}")
    if v.dtype == dtypes.BOOL:
        v = convert_type(v, dtypes.default_dtype("i"))
    if count == 0:
        return full((v.shape[0], 0), v.dtype.type(0))
    ones = full((v.shape[0], 1), v.dtype.type(1))
    factors = broadcast_in_dim(v, (v.shape[0], count - 1), (0,))
    powers = cumprod(concatenate([ones, factors], 1), axis=1)
    return powers if increasing else rev(powers, (1,))


# ---- indices of triangles and diagonals


def _index_arrays(found: tuple[Any, ...]) -> tuple[Array, ...]:
    index: DType = dtypes.default_dtype("i")
    return tuple(from_host(np.ascontiguousarray(f, dtype=index), computed=True) for f in found)


def _matrix_shape(name: str, arr: Any) -> tuple[int, int]:
    shape = get_aval(as_operand(name, arr)).shape
    if len(shape) != 2:
        raise ValueError(f"Only 2-D inputs are accepted by {name}, got {len(shape)} dimensions")
    return shape[0], shape[1]


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Row and column indices of the lower triangle of an n by m matrix, up to diagonal `k`.

    >>> import xpr.numpy as jnp
    >>> jnp.tril_indices(2)
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    rows, columns = _index_arrays(np.tril_indices(operator.index(n), operator.index(k), m))
    return rows, columns


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Row and column indices of the upper triangle of an n by m matrix, from diagonal `k`.

    >>> import xpr.numpy as jnp
    >>> jnp.triu_indices(2)
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    rows, columns = _index_arrays(np.triu_indices(operator.index(n), operator.index(k), m))
    return rows, columns


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Array, Array]:
    """`tril_indices` of the shape of the matrix `arr`. Raises ValueError unless it has two axes.

    >>> import xpr.numpy as jnp
    >>> jnp.tril_indices_from(jnp.ones((2, 2)))
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    rows, columns = _matrix_shape("tril_indices_from", arr)
    return tril_indices(rows, k, columns)


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Array, Array]:
    """`triu_indices` of the shape of the matrix `arr`. Raises ValueError unless it has two axes.

    >>> import xpr.numpy as jnp
    >>> jnp.triu_indices_from(jnp.ones((2, 2)), k=1)
    (Array([0], dtype=int32), Array([1], dtype=int32))
    """
    rows, columns = _matrix_shape("triu_indices_from", arr)
    return triu_indices(rows, k, columns)


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The indices of the main diagonal of an array with `ndim` axes of size n.

    Raises ValueError for negative arguments.

    >>> import xpr.numpy as jnp
    >>> jnp.ones((2, 2)).at[jnp.diag_indices(2)].set(0)
    Array([[0., 1.],
           [1., 0.]], dtype=float32)
    """
    n, ndim = operator.index(n), operator.index(ndim)
    if n < 0 or ndim < 0:
        raise ValueError(f"n and ndim of diag_indices must be nonnegative, got {n} and {ndim}")
    return _index_arrays((np.arange(n),) * ndim)


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """The indices of the main diagonal of `arr`, whose axes all have one size.

    Raises ValueError for fewer than two axes or different sizes.

    >>> import xpr.numpy as jnp
    >>> jnp.diag_indices_from(jnp.ones((2, 2)))
    (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    shape = get_aval(as_operand("diag_indices_from", arr)).shape
    if len(shape) < 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(shape)) != 1:
        raise ValueError(f"All dimensions of input must be of equal length, got {shape}")
    return diag_indices(shape[0], len(shape))


def mask_indices(
    n: int, mask_func: Callable[..., Any], k: Any = 0, *, size: int | None = None
) -> tuple[Array, Array]:
    """The indices where `mask_func(ones((n, n)), k)` is not 0; `size` as for `nonzero`.

    >>> import xpr.numpy as jnp
    >>> jnp.mask_indices(2, jnp.triu)
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    ones = full((n, n), np.int32(1))
    rows, columns = nonzero(mask_func(ones, k), size=size)
    return rows, columns
