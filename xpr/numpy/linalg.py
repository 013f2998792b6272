"""Linear algebra on stacks of matrices, under the names of `jax.numpy.linalg`.

Matrices are the last two axes. Integers are converted to floats; 16-bit floats are refused.

>>> import xpr.numpy as jnp
>>> jnp.linalg.norm(jnp.array([3.0, 4.0]))
Array(5., dtype=float32)
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xpr.core import dtypes
from xpr.core.trace import get_aval
from xpr.numpy import products as _products
from xpr.numpy import triangular as _triangular
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, one_inexact
from xpr.numpy._typing import Array, ArrayLike, DTypeLike
from xpr.numpy.indexing import take_along_axis
from xpr.numpy.manipulation import expand_dims, matrix_transpose, moveaxis, ravel, reshape
from xpr.numpy.reductions import max as _max
from xpr.numpy.reductions import min as _min
from xpr.numpy.reductions import sum as _sum
from xpr.numpy.sorting import argsort as _argsort
from xpr.numpy.ufuncs import abs as _abs
from xpr.numpy.ufuncs_float import conjugate, real
from xpr.numpy.ufuncs_math import sqrt
from xpr.primitives import linalg as _linalg
from xpr.primitives._index_dims import canonicalize_axes

Axes = int | Sequence[int] | None


class EighResult(NamedTuple):
    """What `eigh` gives."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """What `qr` gives."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """What `svd` gives."""

    U: Array
    S: Array
    Vh: Array


def _matrices(name: str, a: Any) -> Array:
    x = as_array(one_inexact(f"linalg.{name}", a))
    if x.ndim < 2:
        raise ValueError(f"linalg.{name} requires arrays of at least 2 axes, got shape {x.shape}")
    return x


# ---- factorisations


def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """The lower triangular L with L L^H = `a`, or with `upper` the U with U^H U = `a`.

    `a` [..., n, n] is Hermitian positive definite: by `symmetrize_input` its Hermitian part is
    factored. Other matrices give NaN. Raises ValueError for matrices that are not square.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.cholesky(jnp.array([[4.0, 2.0], [2.0, 5.0]]), upper=True)
    Array([[2., 1.],
           [0., 2.]], dtype=float32)
    """
    x = _matrices("cholesky", a)
    if upper and not symmetrize_input:
        x = _adjoint(x)
    factor = _linalg.cholesky(x, symmetrize_input=symmetrize_input)
    return _adjoint(factor) if upper else factor


def _adjoint(x: Array) -> Array:
    turned = matrix_transpose(x)
    return conjugate(turned) if dtypes.is_complex(turned.dtype) else turned


def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """Q with orthonormal columns and upper triangular R with Q R = `a` [..., m, n].

    `mode` is "reduced" (Q has min(m, n) columns), "complete" (m columns), or "r" (only R). Raises
    ValueError for another mode, NotImplementedError for "raw".

    >>> import xpr.numpy as jnp
    >>> q, r = jnp.linalg.qr(jnp.array([[3.0], [4.0]]))
    >>> r
    Array([[-5.]], dtype=float32)
    """
    if mode == "raw":
        raise NotImplementedError("linalg.qr does not give the reflections: mode='raw'")
    if mode not in ("reduced", "complete", "full", "r"):
        raise ValueError(f"Unsupported QR decomposition mode {mode!r}")
    q, r = _linalg.qr(_matrices("qr", a), full_matrices=mode in ("complete", "full"))
    return r if mode == "r" else QRResult(q, r)


def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Ascending eigenvalues [..., n] and eigenvectors (columns) of Hermitian `a` [..., n, n].

    By `symmetrize_input` the Hermitian part of `a` is meant; without, the triangle that `UPLO`
    names: "L" (the default) or "U". Raises ValueError for another one, and for matrices that are
    not square.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.eigh(jnp.diag(jnp.array([2.0, 1.0]))).eigenvalues
    Array([1., 2.], dtype=float32)
    """
    if UPLO not in (None, "L", "U"):
        raise ValueError(f"UPLO must be one of None, 'L', or 'U', got {UPLO}")
    x = _matrices("eigh", a)
    vectors, values = _linalg.eigh(x, lower=UPLO != "U", symmetrize_input=symmetrize_input)
    return EighResult(values, vectors)


def eigvalsh(a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """The ascending eigenvalues of Hermitian matrices: the first result of `eigh`.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.eigvalsh(jnp.diag(jnp.array([2.0, 1.0])))
    Array([1., 2.], dtype=float32)
    """
    return eigh(a, UPLO, symmetrize_input).eigenvalues


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """U, descending S and V^H with U diag(S) V^H = `a` [..., m, n]; only S without `compute_uv`.

    U and V are square with `full_matrices`, else they have min(m, n) columns. A `hermitian` matrix
    is factored by its eigenvalues. Raises NotImplementedError for `subset_by_index`.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.svd(jnp.array([[0.0, 2.0], [3.0, 0.0]]), compute_uv=False)
    Array([3., 2.], dtype=float32)
    """
    x = _matrices("svd", a)
    if not hermitian or subset_by_index is not None:
        found = _linalg.svd(
            x,
            full_matrices=full_matrices,
            compute_uv=compute_uv,
            subset_by_index=subset_by_index,
        )
        return SVDResult(*found) if compute_uv else found
    vectors, values = _linalg.eigh(x)
    sizes = _abs(values)
    order = _argsort(sizes, axis=-1, descending=True)
    sizes = take_along_axis(sizes, order, -1)
    if not compute_uv:
        return sizes
    signs = take_along_axis(_sign_or_one(values), order, -1)
    u = take_along_axis(vectors, expand_dims(order, -2), -1)
    return SVDResult(u, sizes, _adjoint(u * expand_dims(signs, -2).astype(u.dtype)))


def _sign_or_one(x: Array) -> Array:
    return 1 - 2 * (x < 0).astype(x.dtype)


def svdvals(x: ArrayLike, /) -> Array:
    """The descending singular values of matrices.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.svdvals(jnp.array([[0.0, 2.0], [3.0, 0.0]]))
    Array([3., 2.], dtype=float32)
    """
    return svd(x, compute_uv=False)


# ---- norms


def norm(
    x: ArrayLike, ord: int | float | str | None = None, axis: Axes = None, keepdims: bool = False
) -> Array:
    """The norm of vectors (one axis) or matrices (two axes); the default is the root of squares.

    For vectors `ord` is 2, inf, -inf, 0 (the number of elements that are not 0) or any p; for
    matrices "fro", "nuc" (the sum of singular values), 2 and -2 (the greatest and least), 1, -1,
    inf or -inf (the greatest or least sum of a column or row). Without `axis` the whole array is
    taken, as a vector when there is no `ord` either. Raises ValueError for another `ord` or number
    of axes.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.norm(jnp.array([[3.0, -4.0], [0.0, 1.0]]), ord=jnp.inf)
    Array(7., dtype=float32)
    """
    a = as_array(one_inexact("linalg.norm", x))
    if axis is None and ord is None:
        found = _root_of_squares(ravel(a), (0,), False)
        return reshape(found, (1,) * a.ndim) if keepdims else found
    if axis is None:
        axes = tuple(range(a.ndim))
    else:
        given = (axis,) if not isinstance(axis, Sequence) else tuple(axis)
        axes = canonicalize_axes(tuple(map(operator.index, given)), a.ndim)
    if len(axes) == 1:
        return _vector_norm(a, 2 if ord is None else ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(a, "fro" if ord is None else ord, axes, keepdims)
    raise ValueError(f"Improper number of axes for norm: axis={axes}, shape {a.shape}")


def _squares(x: Array) -> Array:
    return real(x * conjugate(x)) if dtypes.is_complex(x.dtype) else x * x


def _root_of_squares(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return sqrt(_sum(_squares(x), axis=axes, keepdims=keepdims))


def _vector_norm(x: Array, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Array:
    if isinstance(ord, str):
        raise ValueError(f"Invalid order {ord!r} for vector norm.")
    if ord == 2:
        return _root_of_squares(x, axes, keepdims)
    size = _abs(x)
    if ord == np.inf:
        return _max(size, axis=axes, keepdims=keepdims)
    if ord == -np.inf:
        return _min(size, axis=axes, keepdims=keepdims)
    if ord == 0:
        return _sum((size != 0).astype(size.dtype), axis=axes, keepdims=keepdims)
    if ord == 1:
        return _sum(size, axis=axes, keepdims=keepdims)
    return _sum(size**ord, axis=axes, keepdims=keepdims) ** (1 / ord)


def _matrix_norm(x: Array, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Array:
    row, column = axes
    if row == column:
        raise ValueError(f"norm requires two different axes, got axis={axes}")
    if ord == "fro":
        return _root_of_squares(x, axes, keepdims)
    if ord in (1, -1, np.inf, -np.inf):
        inner, outer = (column, row) if abs(ord) == np.inf else (row, column)
        sums = _sum(_abs(x), axis=inner, keepdims=True)
        found = (_max if ord > 0 else _min)(sums, axis=outer, keepdims=True)
    elif ord in (2, -2, "nuc"):
        values = svdvals(moveaxis(x, axes, (-2, -1)))
        reduced = {2: _max, -2: _min, "nuc": _sum}[ord](values, axis=-1)
        found = expand_dims(reduced, tuple(sorted(axes)))
    else:
        raise ValueError(f"Invalid order {ord!r} for matrix norm.")
    if keepdims:
        return found
    return reshape(found, tuple(n for i, n in enumerate(x.shape) if i not in axes))


def vector_norm(
    x: ArrayLike, /, *, axis: Axes = None, keepdims: bool = False, ord: int | float | str = 2
) -> Array:
    """The norm of the vectors along `axis`, one or several; by default of all elements.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.vector_norm(jnp.array([[3.0, -4.0]]), ord=1)
    Array(7., dtype=float32)
    """
    a = as_array(one_inexact("linalg.vector_norm", x))
    if axis is None:
        axes = tuple(range(a.ndim))
    else:
        given = (axis,) if not isinstance(axis, Sequence) else tuple(axis)
        axes = canonicalize_axes(tuple(map(operator.index, given)), a.ndim)
    return _vector_norm(a, ord, axes, keepdims)


def matrix_norm(
    x: ArrayLike, /, *, keepdims: bool = False, ord: int | float | str = "fro"
) -> Array:
    """The norm of matrices; `ord` as for `norm`.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.matrix_norm(jnp.ones((3, 2, 2)))
    Array([2., 2., 2.], dtype=float32)
    """
    a = _matrices("matrix_norm", x)
    return _matrix_norm(a, ord, (a.ndim - 2, a.ndim - 1), keepdims)


# ---- products and diagonals, as the array API has them


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """The diagonals of matrices.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.diagonal(jnp.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    """
    return _triangular.diagonal(x, offset=offset, axis1=-2, axis2=-1)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike = None) -> Array:
    """The sums of the diagonals of matrices.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.trace(jnp.array([[1, 2], [3, 4]]))
    Array(5, dtype=int32)
    """
    return _products.trace(x, offset=offset, axis1=-2, axis2=-1, dtype=dtype)


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The products of each element of one vector with each of another.

    Raises ValueError for arrays that are no vectors.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.outer(jnp.array([1, 2]), jnp.array([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    shapes = [get_aval(as_operand("linalg.outer", x, i)).shape for i, x in enumerate((x1, x2))]
    if any(len(s) != 1 for s in shapes):
        raise ValueError(f"linalg.outer requires vectors, got shapes {shapes[0]} and {shapes[1]}")
    return _products.outer(x1, x2)


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """The vector products of vectors of 3 elements along `axis`.

    Raises ValueError for other sizes.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    a, b = as_array(as_operand("linalg.cross", x1)), as_array(as_operand("linalg.cross", x2, 1))
    if a.shape[axis] != 3 or b.shape[axis] != 3:
        raise ValueError(
            f"linalg.cross requires vectors of 3 elements, got shapes {a.shape} and {b.shape} "
            f"with axis={axis}"
        )
    return _products.cross(a, b, axis=axis)


matmul = _products.matmul
tensordot = _products.tensordot
vecdot = _products.vecdot
