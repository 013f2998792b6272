"""Systems of sparse matrices and their largest eigenvalues, beside NumPy's dense routines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.experimental import sparse
from xpr.experimental.sparse.linalg import lobpcg_standard, spsolve

EPS = float(np.finfo(np.float32).eps)


def system(n: int = 8, dtype: Any = np.float32) -> tuple[np.ndarray, Any, np.ndarray]:
    """A matrix with a large diagonal, its rows, and a right side."""
    rng = np.random.default_rng(1)
    dense = rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.3) + 4 * np.eye(n)
    if np.dtype(dtype).kind == "c":
        dense = dense * np.exp(1j * rng.random((n, n)))
    dense = dense.astype(dtype)
    return dense, sparse.CSR.fromdense(dense), rng.normal(size=n).astype(dtype)


# Of a matrix of this condition (below 10) elimination loses fewer digits than these.
CLOSE = 64 * EPS


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_spsolve(dtype: Any) -> None:
    dense, m, b = system(dtype=dtype)
    expected = np.linalg.solve(dense.astype(np.complex128), b)
    for solve in (spsolve, xpr.jit(spsolve)):
        found = solve(m.data, m.indices, m.indptr, b)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, rtol=CLOSE, atol=CLOSE)


def test_spsolve_under_transformations() -> None:
    dense, m, b = system()
    weights = np.arange(b.size, dtype=np.float32)
    inverse = np.linalg.inv(dense.astype(np.float64))

    def loss(data: Any, b: Any) -> Any:
        return weights @ spsolve(data, m.indices, m.indptr, b)

    by_data, by_b = xpr.jit(xpr.grad(loss, (0, 1)))(m.data, b)
    # d(w A^-1 b) = (A^-T w) db - (A^-T w) dA (A^-1 b)
    adjoint, x = inverse.T @ weights, inverse @ b
    scale = np.abs(adjoint).max() * max(1.0, np.abs(x).max())
    np.testing.assert_allclose(by_b, adjoint, rtol=0, atol=CLOSE * scale)
    rows = np.repeat(np.arange(b.size), np.diff(np.asarray(m.indptr, np.int64)))
    expected = -adjoint[rows] * x[np.asarray(m.indices)]
    np.testing.assert_allclose(by_data, expected, rtol=0, atol=CLOSE * scale)
    sides = np.stack([b, 2 * b, b[::-1]])
    found = xpr.vmap(lambda b: spsolve(m.data, m.indices, m.indptr, b))(sides)
    np.testing.assert_allclose(found, sides @ inverse.T, rtol=0, atol=CLOSE * 4)
    primal, tangent = xpr.jvp(lambda b: spsolve(m.data, m.indices, m.indptr, b), (b,), (b,))
    np.testing.assert_array_equal(primal, tangent)


def test_spsolve_refuses_what_does_not_fit() -> None:
    _, m, b = system()
    for args, what in (
        ((m.data, m.indices, m.indptr, b.astype(np.int32)), "data types do not match"),
        ((m.data, m.indices.astype(np.float32), m.indptr, b), "must be integer typed"),
        ((m.data, m.indices, m.indptr, b[None]), "must be one-dimensional"),
        ((m.data, m.indices, m.indptr[1:], b), "Invalid CSR buffer sizes"),
    ):
        with pytest.raises(ValueError, match=what):
            spsolve(*args)
    with pytest.raises(ValueError, match="reorder=7 not valid"):
        spsolve(m.data, m.indices, m.indptr, b, reorder=7)


@pytest.mark.parametrize("of_function", [False, True])
def test_lobpcg(of_function: bool) -> None:
    rng = np.random.default_rng(0)
    n, k = 40, 3
    a = rng.normal(size=(n, n))
    a = ((a + a.T) / 2).astype(np.float32)
    start = rng.normal(size=(n, k)).astype(np.float32)
    A: Any = (lambda x: jnp.matmul(a, x, precision="highest")) if of_function else a
    values, vectors, count = lobpcg_standard(A, start)
    every, all_vectors = np.linalg.eigh(a.astype(np.float64))
    # The bound on the residuals that the iteration ends with, times two for their rounding.
    largest = np.abs(every).max()
    bound = 2 * 10 * n * EPS * 2 * largest
    np.testing.assert_allclose(values, every[::-1][:k], rtol=0, atol=bound)
    residual = a @ np.asarray(vectors, np.float64) - np.asarray(values) * np.asarray(vectors)
    assert np.linalg.norm(residual, axis=0).max() < bound
    overlap = np.abs(np.sum(all_vectors[:, ::-1][:, :k] * np.asarray(vectors), axis=0))
    np.testing.assert_allclose(overlap, 1, rtol=0, atol=bound)
    assert 5 < int(count) < 100
    _, _, few = lobpcg_standard(A, start, m=2)
    assert int(few) == 2


def test_lobpcg_of_few_ranks() -> None:
    """Directions that run out do not bring NaN: a projection has no more after its own."""
    rng = np.random.default_rng(3)
    q, _ = np.linalg.qr(rng.normal(size=(20, 3)))
    start = rng.normal(size=(20, 3)).astype(np.float32)
    values, vectors, _ = lobpcg_standard((q @ q.T).astype(np.float32), start, tol=1e-6)
    bound = 10 * 20 * 2 * 1e-6
    np.testing.assert_allclose(values, 1, rtol=0, atol=bound)
    np.testing.assert_allclose(q @ (q.T @ np.asarray(vectors)), vectors, rtol=0, atol=bound)


def test_lobpcg_refuses_what_does_not_fit() -> None:
    a = np.eye(20, dtype=np.float32)
    for args, what in (
        ((a, np.ones((20, 0), np.float32)), "must have search dim > 0"),
        ((a, np.ones((20, 4), np.float32)), r"search dim \* 5 < matrix dim"),
        ((lambda x: x[:5], np.ones((20, 1), np.float32)), "must be .20, 20. matrix A"),
        ((lambda x: x.astype(np.int32), np.ones((20, 1), np.float32)), "must have same dtypes"),
    ):
        with pytest.raises(ValueError, match=what):
            lobpcg_standard(*args)
