"""xpr.lax.linalg: functions made of several operations, conventions of LAPACK, errors, laws."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import xpr
import xpr.numpy as jnp
from xpr.core.config import override
from xpr.lax import linalg
from xpr.primitives.linalg_householder import geqrf
from xpr.test_util import check_grads

REAL = ("float32", "float64")
TYPES = (*REAL, "complex64", "complex128")
Host = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _wide() -> Iterator[None]:
    with override("enable_x64", True):
        yield


def _random(seed: int, dtype: str, *shape: int) -> Host:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def _adjoint(x: Host) -> Host:
    return x.conj().swapaxes(-1, -2)


def _close(found: Any, expected: Any, dtype: Any, scale: float = 1.0) -> None:
    """Equal to some rounding errors of `dtype`."""
    error = scale * 40 * np.finfo(dtype).eps
    found = np.asarray(found)
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=error, atol=error)


def _both(function: Callable[..., Any], *args: Any) -> list[tuple[Host, ...]]:
    """The results of `function` eager and compiled, as tuples."""
    runs = (function(*args), xpr.jit(function)(*args))
    return [
        tuple(map(np.asarray, out if isinstance(out, (tuple, list)) else (out,))) for out in runs
    ]


# ---- the surface


def test_names_and_algorithms() -> None:
    assert issubclass(linalg.EigImplementation, enum.Enum)
    assert [e.name for e in linalg.EighImplementation] == ["QR", "JACOBI", "QDWH"]
    assert linalg.SvdAlgorithm("Jacobi") is linalg.SvdAlgorithm.JACOBI
    x = np.array([[2.0, 0.0], [0.0, 3.0]])
    s = linalg.svd(x, compute_uv=False, algorithm=linalg.SvdAlgorithm.QR)
    np.testing.assert_allclose(np.asarray(s), [3, 2])


# ---- exchanges of rows


def test_exchanges_make_a_permutation() -> None:
    a = _random(19, "float64", 2, 3, 6, 4)
    _, pivots, order = linalg.lu(a)
    for (found,) in _both(lambda p: linalg.lu_pivots_to_permutation(p, 6), pivots):
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, np.asarray(order))
    np.testing.assert_array_equal(
        np.asarray(xpr.vmap(lambda p: linalg.lu_pivots_to_permutation(p, 6))(pivots)),
        np.asarray(order),
    )
    with pytest.raises(TypeError, match="int32"):
        linalg.lu_pivots_to_permutation(np.zeros(2), 2)
    with pytest.raises(ValueError, match="size"):
        linalg.lu_pivots_to_permutation(np.zeros(3, np.int32), 2)


# ---- reflections


@pytest.mark.parametrize("dtype", TYPES)
def test_reflections_multiply_matrices_from_both_sides(dtype: str) -> None:
    def products(a: Any, c: Any, d: Any) -> list[Any]:
        h, taus = geqrf(a)
        return [
            linalg.ormqr(h, taus, c),
            linalg.ormqr(h, taus, c, transpose=True),
            linalg.ormqr(h, taus, d, left=False),
            linalg.ormqr(h, taus, d, left=False, transpose=True),
        ]

    for shape in ((5, 3), (3, 5), (2, 4, 4)):
        *batch, m, _ = shape
        a = _random(0, dtype, *shape)
        c, d = _random(1, dtype, *batch, m, 2), _random(2, dtype, *batch, 3, m)
        q = np.linalg.qr(a.astype(np.complex128), mode="complete")[0]
        wanted = [q @ c, _adjoint(q) @ c, d @ q, d @ _adjoint(q)]
        for found in _both(products, a, c, d):
            for x, y in zip(found, wanted, strict=True):
                _close(x, y, dtype)


def test_products_of_reflections_have_derivatives() -> None:
    a, c = _random(3, "float64", 4, 3), _random(4, "float64", 4, 2)
    taus = np.array([0.7, 0.0, 1.4])
    check_grads(lambda *xs: linalg.ormqr(*xs), (a, taus, c), order=1, modes=["fwd", "rev"])
    check_grads(
        lambda *xs: linalg.householder_product(*xs), (a, taus), order=2, modes=["fwd", "rev"]
    )


@pytest.mark.parametrize("dtype", TYPES)
def test_similar_forms_agree_with_lapack(dtype: str) -> None:
    a = _random(5, dtype, 6, 6)
    (gehrd,) = scipy.linalg.get_lapack_funcs(("gehrd",), (a,))
    h, taus = gehrd(a)[:2]
    hermitian = a + _adjoint(a)
    name = "hetrd" if a.dtype.kind == "c" else "sytrd"
    (trd,) = scipy.linalg.get_lapack_funcs((name,), (a,))
    for found in _both(linalg.hessenberg, a):
        _close(found[0], h, dtype)
        _close(found[1], taus, dtype)
    for lower in (True, False):
        wanted = trd(hermitian, lower=int(lower))[:4]
        found = linalg.tridiagonal(hermitian, lower=lower)
        for x, y in zip(found, wanted, strict=True):
            _close(x, y, dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_hessenberg_form_is_similar(dtype: str) -> None:
    a = _random(6, dtype, 3, 5, 5)
    h, taus = (np.asarray(x) for x in linalg.hessenberg(a))
    q = np.zeros_like(a)
    q[..., 0, 0] = 1
    q[..., 1:, 1:] = linalg.householder_product(h[..., 1:, :-1], taus)
    _close(_adjoint(q) @ a @ q, np.triu(h, -1), dtype)


# ---- polar decomposition


@pytest.mark.parametrize("dtype", TYPES)
def test_polar_factors(dtype: str) -> None:
    for shape in ((4, 4), (6, 3), (1, 1)):
        a = _random(7, dtype, *shape)
        u, h = scipy.linalg.polar(a.astype(np.complex128))
        found = linalg.qdwh(a)
        _close(found[0], u, dtype)
        _close(found[1], h, dtype)
        assert 1 <= int(found[2]) <= 7
        assert bool(found[3])


def test_polar_factors_of_bad_and_padded_matrices() -> None:
    q = np.linalg.qr(_random(8, "float64", 5, 5))[0]
    bad = (q * np.logspace(0, -14, 5)) @ q.T[::-1]
    compiled = xpr.jit(linalg.qdwh)(bad)
    _close(np.asarray(compiled[0]).T @ np.asarray(compiled[0]), np.eye(5), "float64")
    _close(np.asarray(compiled[0]) @ np.asarray(compiled[1]), bad, "float64")
    assert bool(compiled[3])
    assert not bool(linalg.qdwh(bad, max_iterations=2)[3])
    zero = linalg.qdwh(np.zeros((3, 2)))
    np.testing.assert_array_equal(np.asarray(zero[0]), np.zeros((3, 2)))
    padded = np.full((6, 5), 9.0)
    padded[:4, :3] = part = _random(9, "float64", 4, 3)
    u, h = (np.asarray(x) for x in linalg.qdwh(padded, dynamic_shape=(4, 3))[:2])
    for found, wanted in zip((u[:4, :3], h[:3, :3]), scipy.linalg.polar(part), strict=True):
        _close(found, wanted, "float64")
    assert not u[4:].any()
    assert not u[:, 3:].any()


# ---- updates and products


@pytest.mark.parametrize("dtype", REAL)
def test_cholesky_update(dtype: str) -> None:
    r, w = _random(10, dtype, 2, 4, 4), _random(11, dtype, 2, 4)
    w[0, 1] = 0
    upper = np.triu(r)
    wanted = _adjoint(upper) @ upper + w[..., :, None] * w[..., None, :]
    for (found,) in _both(linalg.cholesky_update, r, w):
        assert found.dtype == dtype
        _close(_adjoint(found) @ found, wanted, dtype, 4)
        assert not np.tril(found, -1).any()
        assert (np.diagonal(found, axis1=-2, axis2=-1)[:, 2:] > 0).all()
    one = xpr.vmap(linalg.cholesky_update)(r, w)
    _close(one, np.asarray(linalg.cholesky_update(r, w)), dtype)


def test_cholesky_update_of_nothing_and_of_zero() -> None:
    assert linalg.cholesky_update(np.zeros((0, 0)), np.zeros(0)).shape == (0, 0)
    zero = linalg.cholesky_update(np.zeros((2, 2)), np.array([0.0, 3.0]))
    np.testing.assert_array_equal(np.asarray(zero), [[0, 0], [0, 3]])


def test_cholesky_update_has_derivatives() -> None:
    r, w = np.triu(_random(12, "float64", 3, 3)) + 2 * np.eye(3), _random(13, "float64", 3)
    check_grads(linalg.cholesky_update, (r, w), order=1, modes=["fwd", "rev"])


@pytest.mark.parametrize("dtype", REAL)
def test_symmetric_product(dtype: str) -> None:
    a, c = _random(14, dtype, 2, 3, 4), _random(15, dtype, 2, 3, 3)
    c = c + _adjoint(c)

    def product(a: Any, c: Any) -> Any:
        return linalg.symmetric_product(a, c, alpha=2.0, beta=-0.5, symmetrize_output=True)

    for (found,) in _both(product, a, c):
        _close(found, 2 * a @ _adjoint(a) - 0.5 * c, dtype)
        np.testing.assert_array_equal(found, _adjoint(found))
    if dtype == "float64":
        check_grads(product, (a, c), order=2, modes=["fwd", "rev"])


# ---- subsets


def test_chosen_eigenvalues_and_singular_values() -> None:
    a = _random(16, "float64", 2, 5, 4)
    square = a[..., :4, :]
    v, w = (np.asarray(x) for x in linalg.eigh(square))
    found_v, found_w = linalg.eigh(square, subset_by_index=(1, 3))
    np.testing.assert_array_equal(np.asarray(found_v), v[..., 1:3])
    np.testing.assert_array_equal(np.asarray(found_w), w[..., 1:3])
    u, s, vh = (np.asarray(x) for x in linalg.svd(a, full_matrices=False))
    found = linalg.svd(a, full_matrices=False, subset_by_index=(0, 2))
    for x, y in zip(found, (u[..., :2], s[..., :2], vh[..., :2, :]), strict=True):
        np.testing.assert_array_equal(np.asarray(x), y)
    values = linalg.svd(a, full_matrices=False, compute_uv=False, subset_by_index=(2, 4))
    np.testing.assert_allclose(np.asarray(values), s[..., 2:], rtol=1e-13)
    check_grads(
        lambda x: linalg.eigh(x, subset_by_index=(0, 1))[1], (square,), order=2, modes=["rev"]
    )


# ---- large matrices, for which other LAPACK functions are called


@pytest.mark.parametrize("dtype", TYPES)
def test_large_factors(dtype: str) -> None:
    n = 80
    a = _random(17, dtype, n, n)
    definite = a @ _adjoint(a) + n * np.eye(n, dtype=dtype)

    def factors(a: Any, definite: Any) -> list[Any]:
        v, w = linalg.eigh(definite)
        u, s, vh = linalg.svd(a)
        q, r = linalg.qr(a)
        return [
            linalg.cholesky(definite), v, w, u, s, vh, q, r, *linalg.lu(a)[::2],
            linalg.svd(a, compute_uv=False),
        ]  # fmt: skip

    for found in _both(factors, a, definite):
        low, v, w, u, s, vh, q, r, lu, order, values = found
        scale = np.abs(definite).max()
        _close(low @ _adjoint(low) / scale, definite / scale, dtype)
        assert not np.triu(low, 1).any()
        _close((v * w) @ _adjoint(v) / scale, definite / scale, dtype, 4)
        assert (np.diff(w) >= 0).all()
        _close((u * s) @ vh / n, a / n, dtype)
        _close(q @ r / n, a / n, dtype)
        for unitary in (u, vh, v, q):
            _close(_adjoint(unitary) @ unitary, np.eye(n), dtype)
        _close((np.tril(lu, -1) + np.eye(n)) @ np.triu(lu) / n, a[order] / n, dtype)
        _close(values / n, s / n, dtype)


def test_a_large_matrix_that_is_not_finite_is_alone() -> None:
    a = _random(20, "float64", 2, 70, 70)
    hermitian = a + _adjoint(a)
    hermitian[0, 3, 3] = a[0, 3, 4] = np.inf
    for found in (linalg.svd(a), linalg.eigh(hermitian)):
        for x in map(np.asarray, found):
            assert np.isnan(x[0]).all()
            assert np.isfinite(x[1]).all()
    v, w = (np.asarray(x[1]) for x in linalg.eigh(hermitian))
    _close((v * w) @ v.T, hermitian[1], "float64", 10)


# ---- errors


_SQUARE, _WIDE = np.ones((3, 3)), np.ones((2, 3))
_ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: linalg.lu(np.ones(3)), TypeError, "rank at least 2"),
    (lambda: linalg.lu(np.ones((2, 2), np.int32)), TypeError, "does not accept dtype int32"),
    (lambda: linalg.eig(_WIDE), ValueError, "must be a square matrix"),
    (lambda: linalg.schur(_WIDE), ValueError, "must be a square matrix"),
    (lambda: linalg.schur(_SQUARE, sort_eig_vals=True), NotImplementedError, "does not sort"),
    (lambda: linalg.hessenberg(_WIDE), ValueError, "Argument to Hessenberg reduction must have"),
    (lambda: linalg.tridiagonal(_WIDE), ValueError, "must be a square matrix"),
    (lambda: linalg.householder_product(_WIDE, np.ones(2)), ValueError, "as many rows as"),
    (lambda: linalg.householder_product(_SQUARE, np.ones(4)), ValueError, "must not be longer"),
    (
        lambda: linalg.householder_product(_SQUARE, np.ones((2, 1))),
        TypeError,
        "number of batch dim",
    ),
    (
        lambda: linalg.householder_product(_SQUARE, np.ones(2, np.float32)),
        TypeError,
        "one dtype, got float64, float32",
    ),
    (lambda: linalg.ormqr(_SQUARE, np.ones(3), np.ones((2, 2))), ValueError, "as many rows"),
    (
        lambda: linalg.ormqr(_SQUARE, np.ones(3), np.ones((2, 2)), left=False),
        ValueError,
        "as many columns",
    ),
    (
        lambda: linalg.tridiagonal_solve(np.ones(2), np.ones(3), np.ones(3), np.ones((3, 1))),
        TypeError,
        "diagonals of one shape",
    ),
    (
        lambda: linalg.tridiagonal_solve(np.ones(3), np.ones(3), np.ones(3), np.ones(3)),
        TypeError,
        "rank at least 2",
    ),
    (
        lambda: linalg.tridiagonal_solve(np.ones(3), np.ones(3), np.ones(3), np.ones((2, 1))),
        TypeError,
        "as many rows of b",
    ),
    (lambda: linalg.qdwh(_WIDE), ValueError, "m >= n"),
    (lambda: linalg.qdwh(np.ones((2, 3, 3))), ValueError, "one matrix"),
    (lambda: linalg.cholesky_update(_SQUARE, np.ones(2)), ValueError, "of the same size"),
    (lambda: linalg.cholesky_update(_SQUARE * 1j, np.ones(3) * 1j), TypeError, "complex128"),
    (lambda: linalg.symmetric_product(_WIDE, _SQUARE), ValueError, "square matrix of shape"),
    (lambda: linalg.symmetric_product(_WIDE * 1j, _SQUARE), TypeError, "complex128"),
    (lambda: linalg.eigh(_SQUARE, subset_by_index=(1, 4)), ValueError, "is not among them"),
    (lambda: linalg.svd(_SQUARE, subset_by_index=(0, 2)), ValueError, "cannot both be set"),
    (lambda: xpr.jacfwd(linalg.schur)(_SQUARE), NotImplementedError, "order of the eigenvalues"),
    (lambda: xpr.jacfwd(linalg.hessenberg)(_SQUARE), NotImplementedError, "not unique"),
    (lambda: xpr.jacfwd(linalg.tridiagonal)(_SQUARE), NotImplementedError, "not unique"),
    (lambda: xpr.jacfwd(linalg.eig)(_SQUARE), NotImplementedError, "enable_eigvec_derivs"),
]


@pytest.mark.parametrize("case", range(len(_ERRORS)))
def test_errors(case: int) -> None:
    call, kind, message = _ERRORS[case]
    with pytest.raises(kind, match=message):
        call()


# ---- matrices without a factorisation


def test_what_does_not_converge_is_nan_and_alone() -> None:
    a = _random(18, "float64", 3, 3, 3)
    a[1, 0, 0] = np.nan
    for found in (*linalg.eig(a), *linalg.schur(a), *linalg.qr(a, pivoting=True)[:2]):
        x = np.asarray(found)
        assert np.isnan(x[1]).all() or np.isnan(np.diagonal(x[1])).all()
        assert np.isfinite(x[[0, 2]]).all()
    singular = np.array([[1.0, 2.0], [2.0, 4.0]])
    factors, _, order = linalg.lu(singular)
    np.testing.assert_array_equal(np.asarray(factors), [[2, 4], [0.5, 0]])
    np.testing.assert_array_equal(np.asarray(order), [1, 0])
    zero = np.zeros(3)
    solved = linalg.tridiagonal_solve(zero, zero, zero, np.ones((3, 2)), perturb_singular=True)
    assert np.isfinite(np.asarray(solved)).all()


def test_results_are_as_weakly_typed_as_operands() -> None:
    weak = jnp.broadcast_to(2.0, (2, 2))
    assert weak.weak_type
    factors, *pivots = linalg.lu(weak)
    assert not any(x.weak_type for x in pivots)
    found = [factors, *linalg.eig(weak), linalg.cholesky_update(weak, weak[0])]
    assert all(x.weak_type for x in found)
    strong = weak.astype(weak.dtype)
    assert not linalg.symmetric_product(weak, strong).weak_type
    assert not linalg.cholesky_update(strong, weak[0]).weak_type
