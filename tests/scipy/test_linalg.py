"""xpr.scipy.linalg: factors, solutions and functions of matrices against SciPy, and derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import xpr
import xpr.numpy as jnp
import xpr.scipy.linalg
from xpr.core.config import override
from xpr.test_util import check_grads

linalg: Any = xpr.scipy.linalg
HOST: Any = scipy.linalg
RNG = np.random.default_rng(23)
CLOSE: Any = {"rtol": 2e-5, "atol": 2e-5}


def _draw(*shape: int, dtype: str = "float32") -> Any:
    x = RNG.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * RNG.normal(size=shape)
    return x.astype(dtype)


def _adjoint(x: Any) -> Any:
    return np.asarray(x).conj().swapaxes(-1, -2)


def _definite(n: int, dtype: str = "float32") -> Any:
    x = _draw(n, n, dtype=dtype)
    return (x @ _adjoint(x) / n + np.eye(n)).astype(dtype)


def _regular(*shape: int, dtype: str = "float32") -> Any:
    n = shape[-1]
    return (_draw(*shape, dtype=dtype) / n + 2 * np.eye(n)).astype(dtype)


def _same(found: Any, wanted: Any, **tolerance: Any) -> None:
    for f, w in zip(xpr.tree.leaves(found), xpr.tree.leaves(wanted), strict=True):
        assert np.shape(f) == np.shape(w)
        np.testing.assert_allclose(f, w, **(CLOSE | tolerance))


def _both_ways(function: Any, *args: Any) -> list[Any]:
    """The results outside `jit` and, for real numbers, since compiling takes long, inside."""
    found = [function(*args)]
    return found if np.iscomplexobj(args[0]) else [*found, xpr.jit(function)(*args)]


TYPES = pytest.mark.parametrize("dtype", ["float32", "complex64"])


@TYPES
def test_factors_and_solutions_agree_with_scipy(dtype: str) -> None:
    a, definite = _regular(4, 4, dtype=dtype), _definite(4, dtype)
    b, columns = _draw(4, dtype=dtype), _draw(4, 3, dtype=dtype)
    tall, wide = _draw(5, 3, dtype=dtype), _draw(3, 5, dtype=dtype)

    def program(module: Any) -> list[Any]:
        found = [
            module.cholesky(definite),
            module.cholesky(definite, lower=True),
            module.det(a),
            module.inv(a),
            module.svd(tall, compute_uv=False),
            module.solve(a, b),
            module.solve(a, columns),
            module.solve(definite, columns, assume_a="pos"),
            module.solve(definite, b, assume_a="pos", lower=True),
            module.solve(definite, b, assume_a="her"),
            module.hessenberg(a),
            module.hessenberg(a, calc_q=True),
            module.expm(a),
            module.expm_frechet(a, columns @ _adjoint(columns)),
            module.eigh(definite, eigvals_only=True),
        ]
        for lower in (False, True):
            found.append(module.cho_solve(module.cho_factor(definite, lower), b))
            found.append(module.cho_solve(module.cho_factor(definite, lower), columns))
            for trans in (0, 1, 2, "N", "T", "C"):
                found.append(module.solve_triangular(a, columns, trans, lower))
            found.append(module.solve_triangular(a, b, lower=lower, unit_diagonal=True))
        for trans in (0, 1, 2):
            found.append(module.lu_solve(module.lu_factor(a), columns, trans))
            found.append(module.lu_solve(module.lu_factor(a), b, trans))
        for x in (a, tall, wide):
            found += [module.lu(x), module.lu(x, permute_l=True), module.lu_factor(x)[0]]
            found += [module.qr(x, mode=mode) for mode in ("full", "economic", "r")]
            found += [module.qr(x, mode="economic", pivoting=True), module.qr(x, pivoting=True)]
            found.append(module.qr(x, mode="r", pivoting=True))
            for side in ("right", "left"):
                found.append(module.polar(x, side))
        for kind in (1, 2, 3):
            found.append(module.eigh(a + _adjoint(a), definite, eigvals_only=True, type=kind))
        return found

    wanted = program(HOST)
    for f, w in zip(program(linalg), wanted, strict=True):
        _same(f, w)


def test_compiled_programs_agree_with_eager_ones() -> None:
    a, definite, b = _regular(4, 4), _definite(4), _draw(4, 3)
    tall = _draw(5, 3, dtype="complex64")

    def program(a: Any, definite: Any, b: Any, tall: Any) -> Any:
        return (
            linalg.cho_solve(linalg.cho_factor(definite), b),
            linalg.lu_solve(linalg.lu_factor(a), b, 1),
            linalg.lu(a),
            linalg.qr(tall, pivoting=True),
            linalg.polar(tall, "left"),
            linalg.hessenberg(a, calc_q=True),
            linalg.expm_frechet(a, definite),
            linalg.schur(tall[:3], "complex"),
            linalg.eigh(a, definite, eigvals_only=True),
        )

    args = a, definite, b, tall
    _same(xpr.jit(program)(*args), program(*args))


@TYPES
def test_factors_multiply_to_their_matrix(dtype: str) -> None:
    a = _draw(2, 4, 4, dtype=dtype)
    p, low, up = linalg.lu(a)
    np.testing.assert_allclose(p @ low @ up, a, **CLOSE)
    for output in ("real", "complex"):
        t, z = (np.asarray(x) for x in linalg.schur(a, output))
        np.testing.assert_allclose(z @ t @ _adjoint(z), a, **CLOSE)
        assert not np.tril(t, -2).any()
    assert not np.tril(t, -1).any()
    t, z = (np.asarray(x) for x in linalg.rsf2csf(*linalg.schur(a)))
    np.testing.assert_allclose(z @ t @ _adjoint(z), a, **CLOSE)
    np.testing.assert_allclose(np.tril(t, -1), 0, atol=1e-6)
    np.testing.assert_allclose(z @ _adjoint(z), np.broadcast_to(np.eye(4), z.shape), **CLOSE)
    (factors, taus), r = linalg.qr(a, mode="raw")
    for i in range(2):
        (h, t), wanted = HOST.qr(a[i], mode="raw")
        _same([factors[i], taus[i], r[i]], [h, t, wanted])
    for method in ("qdwh", "svd"):
        u, p = (np.asarray(x) for x in linalg.polar(a[:, :, :3], method=method))
        np.testing.assert_allclose(u @ p, a[:, :, :3], **CLOSE)
        np.testing.assert_allclose(_adjoint(u) @ u, np.broadcast_to(np.eye(3), p.shape), **CLOSE)
        p, u = linalg.polar(a[0], "left", method=method)[::-1]
        _same((u, p), HOST.polar(a[0], "left"), rtol=1e-4, atol=1e-4)


def test_generalized_eigenvectors_are_normed() -> None:
    a, b = _draw(4, 4, dtype="complex64"), _definite(4, "complex64")
    a = a + _adjoint(a)
    for kind, left, right in ((1, a, b), (2, a @ b, np.eye(4)), (3, b @ a, np.eye(4))):
        w, v = (np.asarray(x) for x in linalg.eigh(a, b, type=kind))
        np.testing.assert_allclose(left @ v, right @ v * w, rtol=1e-3, atol=1e-4)
        metric = np.linalg.inv(b) if kind == 3 else b
        np.testing.assert_allclose(_adjoint(v) @ metric @ v, np.eye(4), atol=1e-4)


@TYPES
def test_products_with_q(dtype: str) -> None:
    a = _draw(5, 3, dtype=dtype)
    for mode, c in (
        ("right", _draw(2, 5, dtype=dtype)),
        ("right", _draw(5, dtype=dtype)),
        ("left", _draw(3, 2, dtype=dtype)),
        ("left", _draw(3, dtype=dtype)),
    ):
        for options in ({}, {"pivoting": True}, {"conjugate": True}):
            _same(
                linalg.qr_multiply(a, c, mode, **options), HOST.qr_multiply(a, c, mode, **options)
            )


def test_tridiagonal_eigenvalues() -> None:
    d, e = _draw(6), _draw(5)
    _same(linalg.eigh_tridiagonal(d, e, eigvals_only=True), HOST.eigh_tridiagonal(d, e, True))
    w, v = (np.asarray(x) for x in linalg.eigh_tridiagonal(d, e))
    np.testing.assert_allclose((v * w) @ v.T, np.diag(d) + np.diag(e, 1) + np.diag(e, -1), **CLOSE)
    part = linalg.eigh_tridiagonal(d, e, select="i", select_range=(1, 3))
    _same(part, (w[1:4], v[:, 1:4]))


# ---- functions of matrices


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [("float32", 2e-5), ("complex64", 2e-5), ("float64", 1e-13), ("complex128", 1e-13)],
)
def test_the_exponential(dtype: str, tolerance: float) -> None:
    sizes = np.array([0, 1e-4, 0.1, 1, 5, 30])[:, None, None]
    a = (_draw(6, 4, 4, dtype=dtype) * sizes).astype(dtype)
    wanted = HOST.expm(a.astype("complex128"))
    with override("enable_x64", True):
        for found in _both_ways(linalg.expm, a):
            assert found.dtype == dtype
            for f, w in zip(np.asarray(found), wanted, strict=True):
                np.testing.assert_allclose(f, w, atol=tolerance * np.abs(w).max())
        upper = np.triu(a[3])
        np.testing.assert_allclose(
            linalg.expm(upper, upper_triangular=True),
            HOST.expm(upper),
            rtol=0,
            atol=1e3 * tolerance,
        )


def test_the_exponential_of_unusual_matrices() -> None:
    assert np.isnan(np.asarray(linalg.expm(1e6 * np.eye(2, dtype=np.float32)))).all()
    assert np.isnan(np.asarray(linalg.expm(np.full((2, 2), np.inf, np.float32)))).all()
    assert linalg.expm(np.zeros((3, 0, 0), np.float32)).shape == (3, 0, 0)
    np.testing.assert_array_equal(linalg.expm(np.zeros((2, 2), np.int32)), np.eye(2))
    few = linalg.expm(np.float32([[30.0]]), max_squarings=2)
    assert np.isnan(np.asarray(few)).all()


def test_both_methods_give_the_derivative_of_the_exponential() -> None:
    a, e = _draw(3, 3, dtype="float64"), _draw(3, 3, dtype="float64")
    with override("enable_x64", True):
        for method in ("SPS", "blockEnlarge"):
            _same(linalg.expm_frechet(a, e, method=method), HOST.expm_frechet(a, e), rtol=1e-11)
            alone = linalg.expm_frechet(a, e, method=method, compute_expm=False)
            _same(alone, HOST.expm_frechet(a, e, compute_expm=False), rtol=1e-11)


@TYPES
def test_square_roots(dtype: str) -> None:
    a = _regular(2, 5, 5, dtype=dtype)
    for found in _both_ways(linalg.sqrtm, a):
        assert found.dtype == np.complex64
        np.testing.assert_allclose(found @ found, a, **CLOSE)
        np.testing.assert_allclose(found[1], HOST.sqrtm(a[1]), **CLOSE)
    # Negative eigenvalues, equal eigenvalues and zeros.
    for x in (-np.eye(3), np.ones((3, 3)), np.zeros((2, 2)), np.eye(3, k=2) + np.eye(3)):
        root = np.asarray(linalg.sqrtm(x.astype(np.float32)))
        np.testing.assert_allclose(root @ root, x, atol=1e-3)
    assert np.isnan(np.asarray(linalg.sqrtm(np.eye(2, k=1, dtype=np.float32)))).all()


def test_functions_of_matrices_agree_with_their_own_methods() -> None:
    a = _definite(4) + np.triu(_draw(4, 4))
    for function, host, wanted in (
        (jnp.exp, np.exp, HOST.expm(a)),
        (jnp.sqrt, np.sqrt, HOST.sqrtm(a)),
    ):
        for found, error in _both_ways(lambda x, f=function: linalg.funm(x, f, disp=False), a):
            scale = np.abs(wanted).max()
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4 * scale)
            assert found.dtype == np.complex64
            np.testing.assert_allclose(error, HOST.funm(a, host, disp=False)[1], rtol=1)
    np.testing.assert_allclose(linalg.funm(np.eye(2), jnp.exp), np.e * np.eye(2), rtol=1e-6)


@TYPES
def test_sylvester_equations(dtype: str) -> None:
    a, b, c = _regular(4, 4, dtype=dtype), _regular(3, 3, dtype=dtype), _draw(4, 3, dtype=dtype)
    wanted = HOST.solve_sylvester(a, b, c)
    for method in ("schur", "eigen"):
        for found in _both_ways(lambda *x, m=method: linalg.solve_sylvester(*x, method=m), a, b, c):
            assert found.dtype == dtype
            np.testing.assert_allclose(found, wanted, **CLOSE)
        # Of a triangular matrix of whole numbers the eigenvalues are exact.
        t = np.triu(np.arange(1, 17).reshape(4, 4)).astype(dtype)
        assert np.isnan(np.asarray(linalg.solve_sylvester(t, -t, t, method=method))).all()


# ---- derivatives and batches


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_derivatives_agree_with_differences(dtype: str) -> None:
    a, b = _regular(3, 3, dtype=dtype), _draw(3, 2, dtype=dtype)
    definite, tall = _definite(3, dtype), _draw(4, 3, dtype=dtype)

    def positive(x: Any) -> Any:
        return x @ jnp.conj(x.T) + jnp.eye(3)

    with override("enable_x64", True):
        check_grads(linalg.expm, (np.stack([a, b @ _adjoint(b)]),), order=2)
        if dtype == "float64":
            check_grads(xpr.jit(linalg.expm), (a,), order=1)
        check_grads(lambda x, y: linalg.solve(x, y), (a, b), order=2)
        check_grads(lambda x, y: linalg.solve(positive(x), y, assume_a="pos"), (a, b), order=1)
        check_grads(lambda x, y: linalg.solve_triangular(x, y, "C"), (a, b), order=1)
        check_grads(lambda x, y: linalg.lu_solve(linalg.lu_factor(x), y), (a, b), order=1)
        check_grads(lambda x: linalg.lu(x)[1:], (a,), order=1)
        for x in (tall, _adjoint(tall)):
            check_grads(linalg.polar, (x,), order=1)
        # Equal singular values are no obstacle.
        check_grads(linalg.polar, (2 * np.eye(3, dtype=dtype),), order=1)
        check_grads(
            lambda x, y: linalg.eigh(positive(x), positive(y), eigvals_only=True),
            (a, definite),
            order=1,
        )
        check_grads(linalg.toeplitz, (_draw(3, dtype=dtype), _draw(3, dtype=dtype)), order=1)


def test_batches_are_loops() -> None:
    a, b = _regular(3, 4, 4), _draw(3, 4)
    calls: list[tuple[Any, tuple[Any, ...]]] = [
        (linalg.expm, (a,)),
        (lambda x, y: linalg.expm_frechet(x, x, compute_expm=False), (a, b)),
        (linalg.solve_triangular, (a, b)),
        (lambda x, y: linalg.lu_solve(linalg.lu_factor(x), y), (a, b)),
        (lambda x, y: linalg.cho_solve((x, False), y), (a, b)),
        (lambda x: linalg.polar(x)[1], (a,)),
        (linalg.sqrtm, (a,)),
        (lambda x: linalg.funm(x, jnp.exp), (a,)),
        (lambda x, y: linalg.solve_sylvester(x, x, x), (a, b)),
    ]
    for function, args in calls:
        rows = [function(*(x[i] for x in args)) for i in range(3)]
        np.testing.assert_allclose(xpr.vmap(function)(*args), np.stack(rows), **CLOSE)
    # Leading axes without vmap.
    for function, args in (*calls[:1], *calls[2:7]):
        rows = [function(*(x[i] for x in args)) for i in range(3)]
        np.testing.assert_allclose(function(*args), np.stack(rows), **CLOSE)


def test_integers_and_empty_matrices() -> None:
    x = np.array([[4, 1], [1, 3]], np.int32)
    for function in (linalg.cholesky, linalg.inv, linalg.det, linalg.expm):
        assert function(x).dtype == np.float32
    for function in (linalg.polar, linalg.schur, linalg.lu, linalg.eigh):
        assert function(x)[1].dtype == np.float32
    none = np.zeros((0, 0), np.float32)
    for function in (linalg.sqrtm, linalg.inv, linalg.hessenberg, linalg.expm):
        assert function(none).shape == (0, 0)
    assert [v.shape for v in linalg.polar(np.zeros((3, 0), np.float32))] == [(3, 0), (0, 0)]
    assert linalg.solve_sylvester(none, x, np.zeros((0, 2), np.float32)).shape == (0, 2)


A = np.ones((2, 2), np.float32)
X = np.ones((2, 3), np.float32)
V = np.ones(3, np.float32)


@pytest.mark.parametrize(
    ("call", "kind", "match"),
    [
        (lambda: linalg.solve(A, A, assume_a="x"), ValueError, "Expected assume_a to be one of"),
        (lambda: linalg.solve(A, V), ValueError, r"got shapes \(2, 2\) \(a\) and \(3,\) \(b\)"),
        (lambda: linalg.solve_triangular(A, A, 3), ValueError, "'trans' must be 0, 1, 2, 'N'"),
        (lambda: linalg.solve_triangular(A, V), ValueError, "solve_triangular: incompatible shap"),
        (lambda: linalg.lu_solve((A, np.int32([0, 1])), A, "X"), ValueError, "'trans' must be"),
        (lambda: linalg.cho_solve((A, True), V), ValueError, "cho_solve: incompatible shapes"),
        (lambda: linalg.cholesky(X), ValueError, "The input to cholesky must be a square matrix"),
        (lambda: linalg.qr(A, mode="x"), ValueError, "Unsupported QR decomposition mode 'x'"),
        (lambda: linalg.qr(A, mode="raw", pivoting=True), NotImplementedError, "with pivoting"),
        (lambda: linalg.qr_multiply(A, A, "x"), ValueError, "mode must be 'right' or 'left'"),
        (lambda: linalg.qr_multiply(A, V), ValueError, r"c of shape \(3,\) does not fit Q"),
        (lambda: linalg.polar(A, "x"), ValueError, "side must be 'right' or 'left', got 'x'"),
        (lambda: linalg.polar(A, method="y"), ValueError, "Unknown polar decomposition method 'y'"),
        (lambda: linalg.eigh(A, type=4), ValueError, "type must be 1, 2 or 3, got 4"),
        (lambda: linalg.eigh(A, eigvals=(0, 1)), NotImplementedError, "eigvals must be None"),
        (lambda: linalg.eigh_tridiagonal(V, V), ValueError, r"shapes \(3,\) and \(3,\)"),
        (
            lambda: linalg.eigh_tridiagonal(V, V[:2], select="v"),
            NotImplementedError,
            "does not select by values",
        ),
        (
            lambda: linalg.eigh_tridiagonal(V, V[:2], select="i", select_range=(1, 3)),
            ValueError,
            r"two indices in \[0, 3\)",
        ),
        (lambda: linalg.eigh_tridiagonal(V, V[:2], select="x"), ValueError, "must be 'a', 'i' or"),
        (lambda: linalg.schur(A, "x"), ValueError, "Expected 'output' to be either"),
        (lambda: linalg.rsf2csf(A, X[:, :1]), ValueError, "T and Z of one shape"),
        (lambda: linalg.expm(V), ValueError, r"Expected A to be a .* got A.shape=\(3,\)"),
        (lambda: linalg.expm_frechet(A, A, method="x"), ValueError, "'SPS' or 'blockEnlarge'"),
        (lambda: linalg.expm_frechet(A, X), ValueError, "requires A and E of one shape"),
        (lambda: linalg.funm(A[None], jnp.exp), ValueError, "funm requires one square matrix"),
        (lambda: linalg.sqrtm(A, blocksize=2), NotImplementedError, "blocksize must be 1"),
        (lambda: linalg.solve_sylvester(A, A, A, method="x"), ValueError, "'schur' or 'eigen'"),
        (lambda: linalg.solve_sylvester(A, A, X), ValueError, r"\(2, 2\), \(2, 2\) and \(2, 3\)"),
    ],
)
def test_errors_name_the_function(call: Any, kind: type[Exception], match: str) -> None:
    with pytest.raises(kind, match=match):
        call()


@pytest.mark.parametrize("name", ["expm", "sqrtm", "polar", "schur", "svd", "lu", "qr", "det"])
def test_functions_of_matrices_under_strict_promotion(name: str) -> None:
    function = getattr(xpr.scipy.linalg, name)
    with xpr.numpy_dtype_promotion("strict"), xpr.numpy_rank_promotion("raise"):
        for dtype in ("f4", "c8"):
            matrix = (2 * np.eye(3) + np.arange(9).reshape(3, 3) / 10).astype(dtype)
            found, again = xpr.tree.leaves(function(matrix)), xpr.tree.leaves(function(matrix))
            assert all(np.isfinite(x).all() for x in found)
            xpr.tree.map(np.testing.assert_array_equal, found, again)
