"""Zeros of polynomials and least squares fits: what of polynomials needs linear algebra.

That is loaded when it is first used.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from xpr.core.trace import get_aval
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import (
    as_operand,
    one_inexact,
    promote_dtypes_inexact,
    without_weak_type,
)
from xpr.numpy._static import concrete
from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.creation import zeros
from xpr.numpy.joining import concatenate
from xpr.numpy.logic import equal
from xpr.numpy.manipulation import atleast_1d, expand_dims, roll
from xpr.numpy.products import matmul
from xpr.numpy.ranges import arange
from xpr.numpy.reductions import all as _all
from xpr.numpy.reductions import argmax
from xpr.numpy.reductions import sum as _sum
from xpr.numpy.selection import where
from xpr.numpy.sorting import argsort
from xpr.numpy.triangular import eye, vander
from xpr.numpy.ufuncs import abs as _abs
from xpr.numpy.ufuncs_float import conjugate
from xpr.numpy.ufuncs_math import sqrt
from xpr.primitives._complex import complex_dtype


def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """The zeros of a polynomial with coefficients `p` [n] from the highest power down, complex.

    They are the eigenvalues of the companion matrix, in no order. With `strip_zeros` leading zeros
    of `p` are left out, for which `p` must be concrete; without, there are n - 1 results, the last
    ones NaN where the degree is lower. Raises ValueError for several axes.

    >>> import xpr.numpy as jnp
    >>> jnp.roots(jnp.array([1.0, 0.0, 1.0]))
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    x = atleast_1d(as_array(one_inexact("roots", p)))
    if x.ndim != 1:
        raise ValueError(f"Input must be a rank-1 array, got shape {x.shape}")
    kind = complex_dtype(x.dtype)
    if not strip_zeros:
        return _with_missing(x, kind)
    given = concrete(x, "'p' argument of jnp.roots with strip_zeros=True")
    places = np.flatnonzero(np.asarray(given))
    if not places.size:
        return zeros((0,), kind)
    first, last = int(places[0]), int(places[-1])
    found = _eigenvalues(x[first : last + 1], kind)
    return concatenate([found, zeros((x.size - 1 - last,), kind)])


def _eigenvalues(x: Array, kind: np.dtype[Any]) -> Array:
    """The zeros of a polynomial whose first coefficient is not 0."""
    # Not every program needs eigenvalues.
    from xpr.numpy import linalg  # noqa: PLC0415

    if x.size < 2:
        return zeros((0,), kind)
    n = x.size - 1
    companion = concatenate([expand_dims(-x[1:] / x[0], 0), eye(n - 1, n, dtype=x.dtype)])
    return linalg.eigvals(companion)


def _with_missing(x: Array, kind: np.dtype[Any]) -> Array:
    """The zeros of a polynomial, with NaN for each leading coefficient that is 0."""
    if x.size < 2:
        return zeros((0,), kind)
    none = equal(x, 0)
    missing = where(_all(none), x.size, argmax(~none))
    # Leading zeros moved to the end are zeros of the polynomial, and those come last.
    moved = where(_all(none), 1, roll(x, -missing))
    found = _eigenvalues(moved.astype(x.dtype), kind)
    found = found[argsort(equal(found, 0))]
    return where(arange(found.size) < found.size - missing, found, complex(np.nan, np.nan))


def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: ArrayLike | None = None,
    cov: bool | str = False,
) -> Any:
    """The polynomial of degree `deg` with least squares of its distances from points.

    `x` is [m], `y` [m] or [m, k]; the coefficients [deg + 1] or [deg + 1, k] start from the highest
    power. `w` [m] are weights of the distances. Singular values of the scaled Vandermonde matrix
    below `rcond` times the greatest count as 0: by default m epsilons of the dtype. With `full`
    there follow the sums of squares, the rank, the singular values and `rcond`; with `cov` the
    covariance of the coefficients, scaled by the sum of squares over m - deg - 1 unless it is
    "unscaled". Raises ValueError for a negative degree and too few points to scale, TypeError for
    other shapes.

    >>> import xpr.numpy as jnp
    >>> x = jnp.array([0.0, 1.0, 2.0, 3.0])
    >>> jnp.round(jnp.polyfit(x, 2 * x * x - 1, 2), 3) + 0.0
    Array([ 2.,  0., -1.], dtype=float32)
    """
    # Not every program needs least squares.
    from xpr.numpy import linalg  # noqa: PLC0415

    order = operator.index(deg) + 1
    points, values, weights = _checked(x, y, w, order)
    matrix, right = vander(points, order), values
    if weights is not None:
        matrix = matrix * expand_dims(weights, 1)
        right = right * (weights if right.ndim == 1 else expand_dims(weights, 1))
    if rcond is None:
        rcond = points.size * float(np.finfo(matrix.dtype).eps)
    scale = sqrt(_sum(_abs(matrix) ** 2, axis=0))
    matrix = matrix / expand_dims(scale, 0).astype(matrix.dtype)
    found, left, rank, singular = linalg.lstsq(matrix, right, rcond)
    found = found / (scale if found.ndim == 1 else expand_dims(scale, 1)).astype(found.dtype)
    if full:
        return found, left, rank, singular, rcond
    if not cov:
        return found
    spread = linalg.inv(matmul(conjugate(matrix).T, matrix)) / (
        expand_dims(scale, 1) * expand_dims(scale, 0)
    )
    if values.ndim > 1:
        spread = expand_dims(spread, 2)
    if cov == "unscaled":
        return found, spread
    if points.size <= order:
        raise ValueError(
            "polyfit: the number of points must exceed the number of coefficients to scale the "
            f"covariance, got {points.size} and {order}"
        )
    factor = left / (points.size - order)
    return found, spread * factor.reshape((1,) * (spread.ndim - 1) + factor.shape)


def _checked(x: Any, y: Any, w: Any, order: int) -> tuple[Array, Array, Array | None]:
    """The operands of `polyfit`, in one dtype, with the errors of theirs."""
    if order < 1:
        raise ValueError(f"polyfit: expected deg >= 0, got {order - 1}")
    given = [as_operand("polyfit", v, i) for i, v in enumerate((x, y, w)) if v is not None]
    given[0] = without_weak_type(given[0])
    points, values, *rest = (as_array(v) for v in promote_dtypes_inexact(*given))
    for name, v, ranks in (("x", points, (1,)), ("y", values, (1, 2))):
        if v.ndim not in ranks:
            expected = " or ".join(f"{r}D" for r in ranks)
            raise TypeError(f"polyfit: expected {expected} array for {name}, got {v.shape}")
    if not points.size:
        raise TypeError("polyfit: expected non-empty vector for x")
    for name, v in (("y", values), *(("w", v) for v in rest)):
        if get_aval(v).shape[:1] != points.shape or (name == "w" and v.ndim != 1):
            raise TypeError(
                f"polyfit: expected x and {name} to have same length, got shapes {points.shape} "
                f"and {v.shape}"
            )
    return points, values, rest[0] if rest else None
