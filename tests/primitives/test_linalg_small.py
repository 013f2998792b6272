"""Factors of many small matrices, which the native part finds for several of them at a time.

The bounds are those of Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition:
theorem 9.3 for LU factors, 10.3 for Cholesky factors, 8.5 for substitution, all by element.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg.lapack import get_lapack_funcs

import xpr.numpy as xnp
from xpr.core.config import override
from xpr.primitives import _linalg_host as host
from xpr.primitives import _linalg_stacks as stacks
from xpr.runtimes.lapack import available, is_small

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.skipif(
    not available(), reason="the native part is not here, which factors small matrices"
)

# One matrix in the last vector, as many as it holds, and more than one thread takes.
COUNTS = [17, 32, 1003]
SIDES = [1, 2, 3, 5, 8, 11, 16]


def _hard(count: int, m: int, n: int, dtype: str) -> Array:
    """Matrices of which rows and columns are scaled by up to 2^12, some with equal elements."""
    r = np.random.default_rng(count + 17 * m + n)
    x = r.standard_normal((count, m, n))
    x *= 2.0 ** r.integers(-12, 13, (count, m, 1)) * 2.0 ** r.integers(-12, 13, (count, 1, n))
    x[::3] = r.integers(-2, 3, x[::3].shape)
    return x.astype(dtype)


def _exact(x: Array) -> Array:
    return x.astype(np.longdouble)


def _bound(terms: int, dtype: str) -> Any:
    unit = np.finfo(dtype).eps / 2
    return terms * unit / (1 - terms * unit)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("m", SIDES)
def test_lu(m: int, count: int, dtype: str) -> None:
    for n in {m, 1, 16, 7}:
        x = _hard(count, m, n, dtype)
        assert stacks.is_stack(x)
        assert is_small(x.dtype, m, n)
        factors, pivots, order = host.lu(x)
        k = min(m, n)
        lower = np.tril(factors[..., :k], -1) + np.eye(m, k, dtype=dtype)
        upper = np.triu(factors[..., :k, :])
        assert np.abs(lower).max() <= 1
        product = _exact(lower) @ _exact(upper)
        error = np.abs(product - np.take_along_axis(x, order[..., None].astype(int), -2))
        size = np.abs(_exact(lower)) @ np.abs(_exact(upper))
        assert (error <= _bound(k, dtype) * size).all()
        rows = np.broadcast_to(np.arange(m), (count, m)).copy()
        every = np.arange(count)
        for i in range(k):
            other = pivots[:, i]
            rows[every, i], rows[every, other] = rows[every, other], rows[every, i].copy()
        np.testing.assert_array_equal(order, rows)


def test_the_first_of_equal_elements_is_the_pivot() -> None:
    x = np.array([[1.0, 2.0, 3.0], [-2.0, 1.0, 0.0], [2.0, 5.0, 1.0]])
    _, pivots, _ = host.lu(np.broadcast_to(x, (20, 3, 3)))
    getrf: Any = get_lapack_funcs("getrf", dtype=x.dtype)
    np.testing.assert_array_equal(pivots, np.broadcast_to(getrf(x)[1], (20, 3)))
    assert pivots[0, 0] == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_matrices_without_an_inverse(dtype: str) -> None:
    x = _hard(40, 4, 4, dtype)
    x[5] = 0
    x[6, :, 2] = 0
    x[7] = 1
    x[8, 1] = np.nan
    x[9, 2, 0] = np.inf
    good = [i for i in range(40) if i not in range(5, 10)]
    factors, _, order = host.lu(x)
    alone, _, rows = host.lu(x[good])
    np.testing.assert_array_equal(factors[good], alone)
    np.testing.assert_array_equal(order[good], rows)
    np.testing.assert_array_equal(factors[5], 0)
    assert factors[6, 2, 2] == 0
    # U of a matrix of ones is its first row, and zeros.
    np.testing.assert_array_equal(np.triu(factors[7]), [[1] * 4, *[[0] * 4] * 3])
    assert np.isnan(factors[8]).any()
    assert not np.isfinite(factors[9]).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", SIDES)
def test_cholesky(n: int, dtype: str) -> None:
    for count in COUNTS:
        x = _hard(count, n, n, dtype)
        x = (x @ x.swapaxes(-1, -2) + np.eye(n)).astype(dtype)
        x[3] = -x[3]
        found = host.cholesky(x + np.triu(np.full((n, n), np.nan, dtype), 1))
        assert np.isnan(found[3][np.tril_indices(n)]).all()
        found, x = np.delete(found, 3, 0), np.delete(x, 3, 0)
        assert (found[..., *np.triu_indices(n, 1)] == 0).all()
        # Rows that are scaled apart may leave no positive pivot; LAPACK's bound is the same.
        sound = np.isfinite(found).all((-1, -2))
        assert sound.mean() > 0.5
        lower = _exact(found[sound])
        error = np.abs(lower @ lower.swapaxes(-1, -2) - x[sound])
        size = np.abs(lower) @ np.abs(lower.swapaxes(-1, -2))
        below = np.tril_indices(n)
        assert (error <= _bound(n + 1, dtype) * size)[:, *below].all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_solve(
    unit: bool, transposed: bool, lower: bool, left: bool, dtype: str
) -> None:
    for n, width, count in [(1, 1, 17), (4, 4, 1003), (6, 1, 32), (16, 3, 17), (5, 16, 40)]:
        a = _hard(count, n, n, dtype)
        a[a == 0] = 1
        b = _hard(count, n, width, dtype)
        b = b if left else b.swapaxes(-1, -2).copy()
        unread = np.triu(np.full((n, n), np.nan, dtype), 0 if unit else 1)
        unread = unread if lower else unread.T
        found = host.triangular_solve(
            a + unread,
            b,
            left_side=left,
            lower=lower,
            transpose_a=transposed,
            conjugate_a=False,
            unit_diagonal=unit,
        )
        read = np.tril(a) if lower else np.triu(a)
        if unit:
            read[..., range(n), range(n)] = 1
        read = _exact(read.swapaxes(-1, -2) if transposed else read)
        x = _exact(found)
        product, size = (
            (m @ y if left else y @ m) for m, y in ((read, x), (np.abs(read), np.abs(x)))
        )
        assert (np.abs(product - b) <= _bound(n, dtype) * size).all()


def test_inverses_and_solutions_of_batches() -> None:
    r = np.random.default_rng(5)
    with override("enable_x64", True):
        for n in (2, 4, 9, 16, 17):
            a = r.standard_normal((50, n, n)) + n * np.eye(n)
            b = r.standard_normal((50, n, 3))
            np.testing.assert_allclose(xnp.linalg.inv(a), np.linalg.inv(a), rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(
                xnp.linalg.solve(a, b), np.linalg.solve(a, b), rtol=1e-12, atol=1e-14
            )
