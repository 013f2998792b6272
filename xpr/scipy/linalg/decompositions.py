"""Factors of matrices: Cholesky's, LU, QR, singular values, polar."""

from __future__ import annotations

from typing import Any

import xpr.numpy as jnp
from xpr.lax.polar import qdwh
from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.linalg._operands import adjoint, conjugated, product
from xpr.primitives import linalg as _linalg
from xpr.primitives.linalg_householder import geqrf
from xpr.scipy.linalg._operands import matrices, promoted, square_matrices, stacked

# ---- Cholesky


def cholesky(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array:
    """The upper triangular U with U^H U = `a`, or with `lower` the L with L L^H = `a`.

    `a` [..., n, n] is Hermitian positive definite; only the triangle that `lower` says is read.
    Other matrices give NaN. Other arguments are ignored. Raises ValueError for matrices that are
    not square.

    >>> import xpr.numpy as jnp
    >>> cholesky(jnp.array([[4.0, 2.0], [2.0, 5.0]]))
    Array([[2., 1.],
           [0., 2.]], dtype=float32)
    """
    del overwrite_a, check_finite
    x = square_matrices("cholesky", a)
    if lower:
        return _linalg.cholesky(x, symmetrize_input=False)
    return adjoint(_linalg.cholesky(adjoint(x), symmetrize_input=False))


def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, bool]:
    """The factor that `cholesky` gives and `lower`, for `cho_solve`.

    >>> import xpr.numpy as jnp
    >>> cho_factor(jnp.array([[4.0]]), lower=True)
    (Array([[2.]], dtype=float32), True)
    """
    return cholesky(a, lower, overwrite_a, check_finite), lower


# ---- LU


def lu_factor(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array]:
    """LU factors of `a` [..., m, n] in one array, and the rows that were exchanged, for `lu_solve`.

    L, whose diagonal is ones, stands below the diagonal. Row i was exchanged with the row that the
    second result [..., min(m, n)], int32, says. Other arguments are ignored.

    >>> import xpr.numpy as jnp
    >>> lu_factor(jnp.array([[1.0, 2.0], [4.0, 4.0]]))[0]
    Array([[4.  , 4.  ],
           [0.25, 1.  ]], dtype=float32)
    """
    del overwrite_a, check_finite
    factors, pivots, _ = _linalg.lu(matrices("lu_factor", a))
    return factors, pivots


def lu(
    a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, ...]:
    """P, L and U with P L U = `a` [..., m, n], or P L and U with `permute_l`.

    P is a permutation matrix [..., m, m], L [..., m, min(m, n)] is lower triangular with ones on
    the diagonal, U [..., min(m, n), n] upper triangular. Other arguments are ignored.

    >>> import xpr.numpy as jnp
    >>> p, l, u = lu(jnp.array([[1.0, 2.0], [4.0, 4.0]]))
    >>> p
    Array([[0., 1.],
           [1., 0.]], dtype=float32)
    """
    del overwrite_a, check_finite
    x = matrices("lu", a)
    factors, _, permutation = _linalg.lu(x)
    m, n = x.shape[-2:]
    k = min(m, n)
    low = jnp.tril(factors[..., :k], -1)
    low = low + jnp.broadcast_to(jnp.eye(m, k, dtype=x.dtype), low.shape)
    up = jnp.triu(factors[..., :k, :])
    if permute_l:
        back = jnp.argsort(permutation, axis=-1)
        return jnp.take_along_axis(low, back[..., None], -2), up
    rows = jnp.expand_dims(jnp.arange(m), (*range(x.ndim - 2), x.ndim - 1))
    places = permutation[..., None, :] == rows
    return places.astype(x.dtype), low, up


# ---- QR


def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Any, ...]:
    """Q with orthonormal columns and upper triangular R with Q R = `a` [..., m, n].

    `mode` is "full" (Q has m columns), "economic" (min(m, n)), "r" (a tuple of R alone) or "raw"
    (instead of Q a pair: the array of LAPACK's geqrf, and the scales of its reflections). With
    `pivoting` the columns of `a` are taken in the order that is the last result. Other arguments
    are ignored. Raises ValueError for another mode, NotImplementedError for "raw" with pivoting.

    >>> import xpr.numpy as jnp
    >>> q, r = qr(jnp.array([[3.0], [4.0]]), mode="economic")
    >>> r
    Array([[-5.]], dtype=float32)
    """
    del overwrite_a, lwork, check_finite
    x = matrices("qr", a)
    if mode == "raw":
        if pivoting:
            raise NotImplementedError("qr does not give reflections with pivoting: mode='raw'")
        factors, taus = geqrf(x)
        return (factors, taus), jnp.triu(factors[..., : min(x.shape[-2:]), :])
    if mode not in ("full", "r", "economic"):
        raise ValueError(f"Unsupported QR decomposition mode {mode!r}")
    if pivoting:
        found = _linalg.qr(x, pivoting=True, full_matrices=mode != "economic")
    else:
        found = _linalg.qr(x, full_matrices=mode != "economic")
    return found[1:] if mode == "r" else found


def qr_multiply(
    a: ArrayLike,
    c: ArrayLike,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Array, ...]:
    """The product `c` Q ("right") or Q `c` ("left") and R, for the economic Q R = `a` [..., m, n].

    A vector `c` gives a vector. `conjugate` takes the conjugate of Q. With `pivoting` the order of
    columns is the third result. Other arguments are ignored. Raises ValueError for another `mode`
    and for sizes that do not fit.

    >>> import xpr.numpy as jnp
    >>> qr_multiply(jnp.array([[3.0], [4.0]]), jnp.array([5.0, 10.0]))[0]
    Array([-11.], dtype=float32)
    """
    del overwrite_a, overwrite_c
    if mode not in ("left", "right"):
        raise ValueError(f"mode must be 'right' or 'left', got {mode!r}")
    x, given = promoted("qr_multiply", a, c)
    q, *rest = qr(matrices("qr_multiply", x), mode="economic", pivoting=pivoting)
    q = conjugated(q) if conjugate else q
    left = mode == "left"
    vector = given.ndim == 1
    y = given[:, None] if vector and left else given[None] if vector else given
    if not given.ndim or y.shape[-2 if left else -1] != q.shape[-1 if left else -2]:
        raise ValueError(
            f"qr_multiply with mode={mode!r}: c of shape {given.shape} does not fit Q of shape "
            f"{q.shape}"
        )
    found = product(q, y) if left else product(y, q)
    if vector:
        found = found[..., 0] if left else found[..., 0, :]
    return found, *rest


# ---- singular values and the polar form


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """U, descending s and V^H with U diag(s) V^H = `a` [..., m, n]; only s without `compute_uv`.

    U and V are square with `full_matrices`, else they have min(m, n) columns. Other arguments are
    ignored.

    >>> import xpr.numpy as jnp
    >>> svd(jnp.array([[0.0, 2.0], [3.0, 0.0]]), compute_uv=False)
    Array([3., 2.], dtype=float32)
    """
    del overwrite_a, check_finite, lapack_driver
    return _linalg.svd(matrices("svd", a), full_matrices=full_matrices, compute_uv=compute_uv)


def polar(
    a: ArrayLike,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Array, Array]:
    """U with orthonormal columns (or rows, if wide) and Hermitian P with U P = `a` [..., m, n].

    With `side` "left" it is P U = `a`. `method` is "qdwh", the iteration of `lax.linalg.qdwh`, to
    which `eps` and `max_iterations` are given, or "svd", which has no derivative where singular
    values are equal. Raises ValueError for another `side` or `method`.

    >>> import xpr.numpy as jnp
    >>> u, p = polar(jnp.array([[1.0, -2.0], [2.0, 1.0]]))
    >>> jnp.round(u @ p, 3)
    Array([[ 1., -2.],
           [ 2.,  1.]], dtype=float32)
    """
    if side not in ("right", "left"):
        raise ValueError(f"side must be 'right' or 'left', got {side!r}")
    if method not in ("qdwh", "svd"):
        raise ValueError(f"Unknown polar decomposition method {method!r}.")
    x = matrices("polar", a)
    if method == "svd":
        left, values, right = _linalg.svd(x, full_matrices=False)
        unitary = product(left, right)
        if side == "right":
            return unitary, product(adjoint(right) * values[..., None, :], right)
        return unitary, product(left * values[..., None, :], adjoint(left))
    wide = x.shape[-2] < x.shape[-1]

    def factor(one: Array) -> Array:
        return qdwh(one, eps=eps, max_iterations=max_iterations)[0]

    if not x.size:
        unitary = jnp.broadcast_to(jnp.eye(*x.shape[-2:], dtype=x.dtype), x.shape)
    else:
        unitary = stacked(factor, x.ndim - 2)(adjoint(x) if wide else x)
        unitary = adjoint(unitary) if wide else unitary
    back = adjoint(unitary)
    p = product(back, x) if side == "right" else product(x, back)
    return unitary, (p + adjoint(p)) / 2
