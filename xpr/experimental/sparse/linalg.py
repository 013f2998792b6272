"""Sparse linear algebra, under the name of `jax.experimental.sparse.linalg`.

Eigenvectors by the locally optimal block preconditioned conjugate gradient method (LOBPCG: Knyazev,
SIAM J. Sci. Comput. 23, 2001; with an orthonormal basis: Duersch, Shao, Yang and Gu,
arXiv:1704.07458), and the solution of a sparse system by SciPy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr import lax
from xpr.callbacks import pure_callback
from xpr.core.aval import ShapedArray
from xpr.experimental.sparse._missing import missing_names
from xpr.experimental.sparse.matrices import CSR
from xpr.transforms.jit import jit

__all__ = ["lobpcg_standard", "spsolve"]


def _product(a: Any, b: Any) -> Any:
    return jnp.matmul(a, b, precision="highest")


def _norms(x: Any) -> Any:
    """The lengths of the columns, [1, k]."""
    return jnp.linalg.norm(x, axis=0, keepdims=True)


def _descending(a: Any) -> tuple[Any, Any]:
    """The eigenvalues of a symmetric matrix, the largest first, and the vectors."""
    values, vectors = jnp.linalg.eigh(a)
    return values[::-1], vectors[:, ::-1]


def _orthonormal_once(x: Any) -> Any:
    """Columns that span what those of `x` span, [n, k]; what they have no rank for is zero.

    From the eigenvectors of the small matrix `x^T x` (SVQB: Stathopoulos and Wu, SIAM J. Sci.
    Comput. 23, 2002).
    """
    length = _norms(x)
    x = x / jnp.where(length == 0, 1, length)
    gram = _product(x.T, x)
    values, vectors = _descending(gram)
    least = jnp.finfo(x.dtype).eps * values[0]
    root = jnp.where(least > 0, jnp.maximum(values, least), 1) ** -0.5
    found = _product(x, vectors * root[None])
    kept = ((values > least) & (jnp.diag(gram) > 0))[None]
    found = jnp.where(kept, found, 0)
    length = _norms(found)
    return found / jnp.where(kept & (length > 0), length, 1)


def _orthonormal(x: Any) -> Any:
    # Once more removes what rounding has left of the other columns.
    return _orthonormal_once(_orthonormal_once(x))


def _without(basis: Any, x: Any) -> Any:
    """Orthonormal columns for what of `x` is perpendicular to an orthonormal `basis`.

    Columns of which little is left are zero: normed, they would not be perpendicular.
    """
    for _ in range(2):
        x = _orthonormal(x - _product(basis, _product(basis.T, x)))
    for _ in range(2):
        x = x - _product(basis, _product(basis.T, x))
    return jnp.where(_norms(x) >= 0.99, x, 0)


def _more_directions(x: Any) -> Any:
    """As many orthonormal columns as `x` has, perpendicular to these.

    The block Householder reflection that takes `x` to `[-u v^T, 0]` takes unit vectors below the
    first k rows to vectors perpendicular to `x`.
    """
    n, k = x.shape
    u, s, vt = jnp.linalg.svd(x[:k])
    lifted = jnp.concatenate([x[:k] + _product(u, vt), x[k:]])
    w = _product(lifted, vt.T * ((2 * (1 + s)) ** -0.5)[None])
    unit = jnp.eye(n - k, k, dtype=x.dtype)
    return (-2 * _product(w, _product(w[k:].T, unit))).at[k:].add(unit)


def _require(A: Callable[[Any], Any], X: Any) -> None:
    if X.ndim != 2:
        raise ValueError(f"lobpcg_standard requires X of two axes, got the shape {X.shape}")
    n, k = X.shape
    if k == 0:
        raise ValueError(f"must have search dim > 0, got {k}")
    if k * 5 >= n:
        raise ValueError(f"expected search dim * 5 < matrix dim (got {k * 5}, {n})")
    found = A(jnp.zeros((n, 1), X.dtype))
    if found.dtype != X.dtype:
        raise ValueError(f"A, X must have same dtypes (were {found.dtype}, {X.dtype})")
    if found.shape != (n, 1):
        raise ValueError(f"A must be ({n}, {n}) matrix A, got output {found.shape}")


def lobpcg_standard(A: Any, X: Any, m: int = 100, tol: Any = None) -> tuple[Any, Any, Any]:
    """The `k` largest eigenvalues of a symmetric matrix and their eigenvectors.

    Parameters:
        A: a symmetric array [n, n], or a function that multiplies it with an array [n, p].
        X: where to begin, `k` independent columns [n, k]; `5 * k` must be less than `n`.
        m: the greatest number of iterations.
        tol: an eigenpair is found when its residual is less than
            `tol * 10 * n * (eigenvalue + norm(A v))`; the dtype's epsilon by default. When all are,
            the iteration ends.

    Returns the eigenvalues [k], the largest first, the eigenvectors [n, k] and the number of
    iterations. Derivatives are not defined. ValueError for shapes and dtypes that do not fit.

    >>> import xpr.numpy as jnp
    >>> values, vectors, _ = lobpcg_standard(jnp.diag(jnp.arange(1.0, 9.0)), jnp.ones((8, 1)))
    >>> [round(x, 4) for x in values.tolist()], round(abs(vectors[7, 0].item()), 4)
    ([8.0], 1.0)
    """
    X = jnp.asarray(X)
    if callable(A):
        return _of_function(X, tol, A, m)
    return _of_matrix(jnp.asarray(A), X, tol, m)


@functools.partial(jit, static_argnums=3)
def _of_matrix(A: Any, X: Any, tol: Any, m: int) -> tuple[Any, Any, Any]:
    return _iterated(functools.partial(_product, A), X, tol, m)


@functools.partial(jit, static_argnums=(2, 3))
def _of_function(X: Any, tol: Any, A: Callable[[Any], Any], m: int) -> tuple[Any, Any, Any]:
    return _iterated(A, X, tol, m)


def _iterated(A: Callable[[Any], Any], X: Any, tol: Any, m: int) -> tuple[Any, Any, Any]:
    _require(A, X)
    n, k = X.shape
    if tol is None:
        tol = float(jnp.finfo(X.dtype).eps)
    X = _orthonormal(X)
    AX = A(X)
    theta = jnp.sum(X * AX, axis=0)

    def going_on(state: Any) -> Any:
        return (state[0] < m) & (state[4] < k)

    def step(state: Any) -> Any:
        """One iteration: of the space of vectors, directions and residuals the best vectors."""
        i, X, P, R, _, _ = state
        R = _without(jnp.concatenate([X, P], axis=1), R)
        S = jnp.concatenate([X, P, R], axis=1)
        values, Q = _descending(_product(S.T, A(S)))
        best = Q[:, :k] / _norms(Q[:, :k])
        X = _product(S, best)
        X = X / _norms(X)
        # The part of the step outside of the old vectors, perpendicular to the new ones.
        q, _ = jnp.linalg.qr(Q[:k, k:].T)
        P = _product(S, _product(Q[:, k:], q))
        length = _norms(P)
        P = P / jnp.where(length == 0, 1, length)
        AX = A(X)
        theta = values[:k]
        R = AX - theta[None] * X
        bound = tol * 10 * n * (_norms(AX)[0] + theta)
        converged = jnp.sum(_norms(R)[0] < bound)
        return i + 1, X, P, R, converged, theta

    start = (0, X, _more_directions(X), AX - theta[None] * X, jnp.sum(jnp.zeros(k, bool)), theta)
    i, X, _, _, _, theta = lax.while_loop(going_on, step, start)
    return theta, X, i


def _host_solve(transposed: bool, data: Any, indices: Any, indptr: Any, b: Any) -> Any:
    import scipy.sparse.linalg  # noqa: PLC0415  loading it takes longer than all of xpr

    parts = tuple(np.asarray(x) for x in (data, indices, indptr))
    matrix = scipy.sparse.csr_matrix(parts, shape=(b.size, b.size))
    # Its direct solver wants columns, and the transpose of rows is columns.
    columns = matrix.T if transposed else matrix.tocsc()
    return np.asarray(scipy.sparse.linalg.spsolve(columns, np.asarray(b))).astype(b.dtype)


def spsolve(
    data: Any, indices: Any, indptr: Any, b: Any, tol: float = 1e-6, reorder: int = 1
) -> Any:
    """The solution of a sparse system, whose matrix is given as the arrays of a `CSR` matrix.

    SciPy solves it, on the host, by `scipy.sparse.linalg.spsolve`. Derivatives with respect to
    `data` and `b` are solutions of the same system. `tol` and `reorder` are for the solver that JAX
    has on a GPU, and have no effect. A `vmap` of it is a loop.

    Parameters:
        data, indices, indptr: the elements [nse], their columns [nse], where rows start [n + 1].
        b: the right side [n], of the dtype of `data`.

    ValueError for dtypes and shapes that do not fit.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> m = sparse.CSR.fromdense(jnp.array([[2.0, 0.0], [1.0, 4.0]]))
    >>> spsolve(m.data, m.indices, m.indptr, jnp.array([2.0, 9.0]))
    Array([1., 2.], dtype=float32)
    """
    data, indices, indptr, b = map(jnp.asarray, (data, indices, indptr, b))
    _require_system(data, indices, indptr, b)
    float(tol)
    if reorder not in (0, 1, 2, 3):
        raise ValueError(f"reorder={reorder!r} not valid, must be one of [0, 1, 2, 3]")
    shape = (b.size, b.size)
    matrix = CSR((data, indices, indptr), shape=shape)

    def solve(transposed: bool, _: Callable[[Any], Any], b: Any) -> Any:
        found = pure_callback(
            functools.partial(_host_solve, transposed),
            ShapedArray(b.shape, b.dtype),
            data,
            indices,
            indptr,
            b,
            vmap_method="sequential",
        )
        return found

    return lax.custom_linear_solve(
        lambda x: matrix @ x,
        b,
        functools.partial(solve, False),
        functools.partial(solve, True),
    )


def _require_system(data: Any, indices: Any, indptr: Any, b: Any) -> None:
    if data.dtype != b.dtype:
        raise ValueError(f"data types do not match: {data.dtype=} {b.dtype=}")
    if not all(jnp.issubdtype(x.dtype, jnp.integer) for x in (indices, indptr)):
        raise ValueError(
            f"index arrays must be integer typed; got {indices.dtype=} {indptr.dtype=}"
        )
    if not data.ndim == indices.ndim == indptr.ndim == b.ndim == 1:
        raise ValueError(
            "Arrays must be one-dimensional. "
            f"Got {data.shape=} {indices.shape=} {indptr.shape=} {b.shape=}"
        )
    if indptr.size != b.size + 1 or data.shape != indices.shape:
        raise ValueError(
            f"Invalid CSR buffer sizes: {data.shape=} {indices.shape=} {indptr.shape=}, with "
            f"{b.shape=}"
        )


__getattr__ = missing_names(__name__)
