"""Factors of matrices: Cholesky's, QR, singular values."""

from __future__ import annotations

from typing import Any, NamedTuple

from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.indexing import take_along_axis
from xpr.numpy.linalg._operands import adjoint, matrices
from xpr.numpy.manipulation import expand_dims, matrix_transpose
from xpr.numpy.sorting import argsort as _argsort
from xpr.numpy.ufuncs import abs as _abs
from xpr.primitives import linalg as _linalg
from xpr.primitives.linalg_householder import geqrf


class QRResult(NamedTuple):
    """What `qr` gives.

    >>> import xpr.numpy as jnp
    >>> result = jnp.linalg.qr(jnp.eye(2))
    >>> abs(result.R)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """What `svd` gives.

    >>> import xpr.numpy as jnp
    >>> result = jnp.linalg.svd(jnp.array([[2.0, 0.0], [0.0, 3.0]]))
    >>> result.S
    Array([3., 2.], dtype=float32)
    """

    U: Array
    S: Array
    Vh: Array


def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """The lower triangular L with L L^H = `a`, or with `upper` the U with U^H U = `a`.

    `a` [..., n, n] is Hermitian positive definite: by `symmetrize_input` its Hermitian part is
    factored. Other matrices give NaN. Raises ValueError for matrices that are not square.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.cholesky(jnp.array([[4.0, 2.0], [2.0, 5.0]]), upper=True)
    Array([[2., 1.],
           [0., 2.]], dtype=float32)
    """
    x = matrices("cholesky", a)
    if upper and not symmetrize_input:
        x = adjoint(x)
    factor = _linalg.cholesky(x, symmetrize_input=symmetrize_input)
    return adjoint(factor) if upper else factor


def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """Q with orthonormal columns and upper triangular R with Q R = `a` [..., m, n].

    `mode` is "reduced" (Q has min(m, n) columns), "complete" (m columns), "r" (only R), or "raw":
    the transpose of LAPACK's geqrf, [..., n, m] with R below and the reflections above the
    diagonal, and their scales [..., min(m, n)]. Raises ValueError for another mode.

    >>> import xpr.numpy as jnp
    >>> q, r = jnp.linalg.qr(jnp.array([[3.0], [4.0]]))
    >>> r
    Array([[-5.]], dtype=float32)
    """
    if mode not in ("reduced", "complete", "full", "r", "raw"):
        raise ValueError(f"Unsupported QR decomposition mode {mode!r}")
    if mode == "raw":
        factors, taus = geqrf(matrices("qr", a))
        return QRResult(matrix_transpose(factors), taus)
    q, r = _linalg.qr(matrices("qr", a), full_matrices=mode in ("complete", "full"))
    return r if mode == "r" else QRResult(q, r)


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
    x = matrices("svd", a)
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
    return SVDResult(u, sizes, adjoint(u * expand_dims(signs, -2).astype(u.dtype)))


def _sign_or_one(x: Array) -> Array:
    return 1 - 2 * (x < 0).astype(x.dtype)


def svdvals(x: ArrayLike, /) -> Array:
    """The descending singular values of matrices.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.svdvals(jnp.array([[0.0, 2.0], [3.0, 0.0]]))
    Array([3., 2.], dtype=float32)
    """
    return svd(x, compute_uv=False)
