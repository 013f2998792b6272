"""Norms, and the numbers that singular values give: condition and rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, one_inexact
from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.linalg._operands import Axes, canonical_axes, check_square, epsilon, matrices
from xpr.numpy.linalg.factorizations import svd, svdvals
from xpr.numpy.linalg.solvers import inv
from xpr.numpy.logic import isnan, logical_and, logical_not
from xpr.numpy.manipulation import expand_dims, moveaxis, ravel, reshape
from xpr.numpy.reductions import any as _any
from xpr.numpy.reductions import max as _max
from xpr.numpy.reductions import min as _min
from xpr.numpy.reductions import sum as _sum
from xpr.numpy.selection import where
from xpr.numpy.ufuncs import abs as _abs
from xpr.numpy.ufuncs_float import conjugate, real
from xpr.numpy.ufuncs_math import sqrt
from xpr.primitives.convert import convert_type
from xpr.primitives.custom import stop_gradient


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
    a = as_array(one_inexact("jnp.linalg.norm", x))
    if axis is None and ord is None:
        found = _root_of_squares(ravel(a), (0,), False)
        return reshape(found, (1,) * a.ndim) if keepdims else found
    axes = canonical_axes(axis, a.ndim)
    if len(axes) == 1:
        return _vector_norm(a, 2 if ord is None else ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(a, "fro" if ord is None else ord, axes, keepdims)
    raise ValueError(f"Improper number of axes for norm: axis={axes}, shape {a.shape}")


def _squares(x: Array) -> Array:
    return real(x * conjugate(x)) if dtypes.is_complex(x.dtype) else x * x


def _root_of_squares(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return _root(_sum(_squares(x), axis=axes, keepdims=keepdims), sqrt)


def _root(total: Array, root: Callable[[Array], Array]) -> Array:
    """`root(total)`, whose derivative where `total` is 0 is 0, as that of `abs` is."""
    vanishes = total == 0
    return where(vanishes, root(stop_gradient(total)), root(where(vanishes, 1, total)))


def _greatest(x: Array, axes: int | tuple[int, ...], keepdims: bool) -> Array:
    """The maximum of sizes; of none it is 0."""
    return _max(x, axis=axes, keepdims=keepdims, initial=None if x.size else 0)


def _least(x: Array, axes: int | tuple[int, ...], keepdims: bool) -> Array:
    return _min(x, axis=axes, keepdims=keepdims)


def _vector_norm(x: Array, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Array:
    if isinstance(ord, str):
        raise ValueError(f"Invalid order {ord!r} for vector norm.")
    if ord == 2:
        return _root_of_squares(x, axes, keepdims)
    size = _abs(x)
    if ord == np.inf:
        return _greatest(size, axes, keepdims)
    if ord == -np.inf:
        return _least(size, axes, keepdims)
    if ord == 0:
        return _sum((size != 0).astype(size.dtype), axis=axes, keepdims=keepdims)
    if ord == 1:
        return _sum(size, axis=axes, keepdims=keepdims)
    # Some derivative of the power of an element that is 0 is infinite.
    smooth = ord >= 2 and ord == int(ord)
    powers = size**ord if smooth else _root(size, lambda size: size**ord)
    return _root(_sum(powers, axis=axes, keepdims=keepdims), lambda total: total ** (1 / ord))


def _matrix_norm(x: Array, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Array:
    row, column = axes
    if row == column:
        raise ValueError(f"norm requires two different axes, got axis={axes}")
    if ord in ("f", "fro"):
        return _root_of_squares(x, axes, keepdims)
    if ord in (1, -1, np.inf, -np.inf):
        inner, outer = (column, row) if abs(ord) == np.inf else (row, column)
        sums = _sum(_abs(x), axis=inner, keepdims=True)
        found = (_greatest if ord > 0 else _least)(sums, outer, True)
    elif ord in (2, -2, "nuc"):
        values = svdvals(moveaxis(x, axes, (-2, -1)))
        reduced = (
            _sum(values, axis=-1)
            if ord == "nuc"
            else (_greatest if ord == 2 else _least)(values, -1, False)
        )
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
    a = as_array(as_operand("jnp.linalg.vector_norm", x))
    if a.dtype == dtypes.BOOL or dtypes.is_integer(a.dtype):
        a = convert_type(a, dtypes.default_dtype("f"))  # the type of a sum of their squares
    return _vector_norm(a, ord, canonical_axes(axis, a.ndim), keepdims)


def matrix_norm(
    x: ArrayLike, /, *, keepdims: bool = False, ord: int | float | str = "fro"
) -> Array:
    """The norm of matrices; `ord` as for `norm`.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.matrix_norm(jnp.ones((3, 2, 2)))
    Array([2., 2., 2.], dtype=float32)
    """
    a = matrices("matrix_norm", x)
    return _matrix_norm(a, ord, (a.ndim - 2, a.ndim - 1), keepdims)


# ---- condition and rank


def cond(x: ArrayLike, p: int | float | str | None = None) -> Array:
    """The condition number of matrices: norm(x, p) norm(inv(x), p).

    `p` is an `ord` of `norm`; without it, and for 2 and -2, it is the ratio of the greatest and the
    least singular value (or the other way round), also of matrices [..., m, n]. Others need square
    matrices. A singular matrix gives infinity. Raises ValueError for empty matrices.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.cond(jnp.array([[2.0, 0.0], [0.0, 1.0]]))
    Array(2., dtype=float32)
    """
    a = as_array(one_inexact("jnp.linalg.cond", x))
    if a.ndim < 2:
        raise ValueError(
            f"jnp.linalg.cond: input array must be at least 2D; got arr.shape={a.shape}"
        )
    if not a.size:
        raise ValueError(f"jnp.linalg.cond requires arrays that are not empty, got shape {a.shape}")
    if p in (None, 2, -2):
        values = svdvals(a)
        ends = values[..., 0], values[..., -1]
        found = ends[1] / ends[0] if p == -2 else ends[0] / ends[1]
    else:
        check_square(f"jnp.linalg.cond with p={p!r}", a)
        found = matrix_norm(a, ord=p) * matrix_norm(inv(a), ord=p)
    # 0/0 and inf * 0 of a singular matrix; NaN in the matrix itself stays.
    given = _any(isnan(a), axis=(-2, -1))
    return where(logical_and(isnan(found), logical_not(given)), np.inf, found)


def matrix_rank(
    M: ArrayLike,
    rtol: ArrayLike | None = None,
    *,
    hermitian: bool = False,
    tol: ArrayLike | None = None,
) -> Array:
    """How many singular values exceed `rtol` [...] times the greatest one, for `M` [..., m, n].

    `rtol` is max(m, n) times the dtype's epsilon by default; `tol` is another name of it. With
    `hermitian` the singular values come from eigenvalues. Of a vector or a number the rank is 1
    unless all is 0. Raises ValueError for both of `rtol` and `tol`.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.matrix_rank(jnp.array([[1.0, 2.0], [2.0, 4.0]]))
    Array(1, dtype=int32)
    """
    if rtol is not None and tol is not None:
        raise ValueError("matrix_rank: only one of tol or rtol may be specified.")
    a = as_array(one_inexact("jnp.linalg.matrix_rank", M))
    if a.ndim < 2:
        return _any(a != 0).astype(dtypes.default_dtype("i"))
    values = svd(a, full_matrices=False, compute_uv=False, hermitian=hermitian)
    relative = rtol if tol is None else tol
    return _sum(values > cutoff(a, values, relative, 1), axis=-1)


def cutoff(a: Array, values: Array, relative: ArrayLike | None, factor: int) -> Array:
    """The size [..., 1] below which singular `values` of `a` count as 0.

    It is the greatest one times `relative` [...]: by default `factor` max(m, n) epsilons.
    """
    if relative is None:
        relative = factor * max(a.shape[-2:]) * epsilon(a)
    limit = as_array(as_operand("linalg", relative)).astype(values.dtype)
    limit = limit.reshape((1,) * (values.ndim - 1 - limit.ndim) + limit.shape)
    return expand_dims(limit, -1) * _max(values, axis=-1, keepdims=True, initial=0)
