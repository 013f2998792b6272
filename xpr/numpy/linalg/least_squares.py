"""Pseudo-inverses and least squares, from singular values."""

from __future__ import annotations

from typing import Any, NamedTuple

from xpr.core import dtypes
from xpr.numpy._promote import convert
from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.creation import zeros
from xpr.numpy.linalg._operands import (
    adjoint,
    conjugated,
    epsilon,
    identities,
    matrices,
    product,
    real_part,
    two_inexact,
)
from xpr.numpy.linalg.factorizations import svd
from xpr.numpy.linalg.norms import cutoff
from xpr.numpy.manipulation import ravel
from xpr.numpy.reductions import sum as _sum
from xpr.numpy.selection import where
from xpr.primitives.custom import stop_gradient
from xpr.transforms.custom_jvp import custom_jvp


class Inverted(NamedTuple):
    """The factors V [..., n, k], w [..., k] and U^H [..., k, m] of a pseudo-inverse V w U^H."""

    v: Array
    weights: Array
    uh: Array

    @property
    def matrix(self) -> Array:
        """The pseudo-inverse."""
        return product(self.v * self.weights[..., None, :], self.uh)


@custom_jvp
def _inverse(a: Array, factors: Inverted) -> Array:
    """The pseudo-inverse of `a`, by its factors, which count as constants."""
    del a
    return factors.matrix


@_inverse.defjvp
def _inverse_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    a, factors = primals
    p = _inverse(a, factors)
    return p, _moved(a, p, tangents[0], None, p)


def _moved(a: Array, p: Array, da: Array, b: Array | None, x: Array) -> Array:
    """The differential of x = P b, where P is the pseudo-inverse of a and b does not move.

    P' = -P A' P + P P^H A'^H (1 - A P) + (1 - P A) A'^H P^H P among matrices of one rank, which
    has no trouble with equal singular values: G. H. Golub, V. Pereyra, "The differentiation of
    pseudo-inverses and nonlinear least squares problems whose variables separate", 1973. Without
    `b` the identity is meant.
    """
    back = adjoint(p)
    seen = product(a, x)
    rest = (identities(a, a.shape[-2]) if b is None else b) - seen
    inward = product(back, product(adjoint(da), rest)) - product(da, x)
    outward = product(adjoint(da), product(back, x))
    return product(p, inward) + outward - product(p, product(a, outward))


@custom_jvp
def _solution(a: Array, factors: Inverted, b: Array) -> Array:
    """The pseudo-inverse of `a` times `b`, without computing it."""
    del a
    return product(factors.v, factors.weights[..., None] * product(factors.uh, b))


@_solution.defjvp
def _solution_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    a, factors, b = primals
    da, _, db = tangents
    x, p = _solution(a, factors, b), _inverse(a, factors)
    return x, _moved(a, p, da, b, x) + product(p, db)


def pinv(
    a: ArrayLike,
    rtol: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rcond: ArrayLike | None = None,
) -> Array:
    """The Moore-Penrose inverses [..., n, m] of matrices [..., m, n].

    Singular values up to `rtol` [...] times the greatest one count as 0: by default 10 max(m, n)
    epsilons of the dtype. `rcond` is another name of `rtol`. With `hermitian` the singular values
    come from eigenvalues. Derivatives are those among matrices of one rank. Raises ValueError for
    both of `rtol` and `rcond`.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.pinv(jnp.array([[2.0, 0.0], [0.0, 0.0]]))
    Array([[0.5, 0. ],
           [0. , 0. ]], dtype=float32)
    """
    if rtol is not None and rcond is not None:
        raise ValueError("pinv: only one of rtol and rcond may be specified.")
    x = matrices("pinv", a)
    if not x.size:
        return zeros((*x.shape[:-2], *x.shape[:-3:-1]), x.dtype)
    u, s, vh = svd(stop_gradient(x), full_matrices=False, hermitian=hermitian)
    large = s > cutoff(x, s, rtol if rcond is None else rcond, 10)
    return _inverse(x, _inverted(u, s, vh, large))


def _inverted(u: Array, s: Array, vh: Array, large: Array) -> Inverted:
    """The inverse of U s V^H where singular values are `large`, 0 elsewhere."""
    weights = where(large, 1 / where(large, s, 1), 0).astype(u.dtype)
    return Inverted(adjoint(vh), weights, adjoint(u))


def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: float | None = None, *, numpy_resid: bool = False
) -> tuple[Array, Array, Array, Array]:
    """The x of least norm among those with least |b - a x|, for `a` [m, n] and `b` [m] or [m, k].

    The results are x [n] or [n, k], the sums of squares that are left over [k] (1 for a vector),
    the rank and the descending singular values. Singular values below `rcond` times the greatest
    one count as 0: by default max(m, n) epsilons of the dtype, one epsilon if negative. With
    `numpy_resid` the sums are empty where NumPy's are, for m <= n or a lower rank than n; that
    needs a known rank, so it cannot be compiled. Raises TypeError for other numbers of axes,
    ValueError for sizes that do not fit.

    >>> import xpr.numpy as jnp
    >>> a = jnp.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    >>> x, left, rank, s = jnp.linalg.lstsq(a, jnp.array([1.0, 2.0, 3.0]))
    >>> x, left, rank
    (Array([1., 1.], dtype=float32), Array([9.], dtype=float32), Array(2, dtype=int32))
    """
    x, y = two_inexact("lstsq", a, b)
    if x.ndim != 2:
        raise TypeError(
            f"{x.ndim}-dimensional array given. Array must be two-dimensional: lstsq requires a "
            f"matrix a, got shape {x.shape}"
        )
    if y.ndim not in (1, 2):
        raise TypeError(f"lstsq requires a vector or a matrix b, got shape {y.shape}")
    if x.shape[0] != y.shape[0]:
        raise ValueError(f"lstsq: a and b differ in rows, shapes {x.shape} and {y.shape}")
    columns = y if y.ndim == 2 else y[:, None]
    u, s, vh = svd(x, full_matrices=False)
    bound: ArrayLike | None = rcond
    if rcond is not None:
        bound = where(convert(rcond, s.dtype) < 0, epsilon(x), rcond)
    large = (s > 0) & (s >= cutoff(x, s, bound, 1))
    # Of the factors only the singular values are differentiated.
    fixed_u, fixed_s, fixed_vh = (stop_gradient(v) for v in (u, s, vh))
    factors = _inverted(fixed_u, fixed_s, fixed_vh, large)
    found = _solution(x, factors, columns)
    rank = _sum(large).astype(dtypes.default_dtype("i"))
    if numpy_resid and (x.shape[0] <= x.shape[1] or int(rank) < x.shape[1]):
        left = zeros((0,), s.dtype)
    else:
        rest = columns - product(x, found)
        left = _sum(real_part(rest * conjugated(rest)), axis=0)
    return (found if y.ndim == 2 else ravel(found)), left, rank, s
