"""xpr.numpy.linalg and xpr.lax.linalg: values, derivatives, NaN and errors."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.core.config import override

REFERENCE: Any = np.linalg
RNG = np.random.default_rng(3)
REAL: Any = RNG.normal(size=(2, 4, 3)).astype(np.float32)
COMPLEX: Any = (RNG.normal(size=(4, 3)) + 1j * RNG.normal(size=(4, 3))).astype(np.complex64)
HERMITIAN: Any = COMPLEX @ COMPLEX.conj().T - np.eye(4, dtype=np.complex64)
DEFINITE: Any = (HERMITIAN + 2 * np.eye(4)).astype(np.complex64)
CLOSE: Any = {"rtol": 1e-5, "atol": 2e-5}


def _adjoint(x: Any) -> Any:
    return np.asarray(x).conj().swapaxes(-1, -2)


@pytest.mark.parametrize("compiled", [False, True])
def test_factors_multiply_to_their_matrix(compiled: bool) -> None:
    def program(real: Any, z: Any, definite: Any, hermitian: Any) -> Any:
        return (
            jnp.linalg.cholesky(definite),
            jnp.linalg.cholesky(definite, upper=True),
            jnp.linalg.qr(real),
            jnp.linalg.qr(z, mode="complete"),
            jnp.linalg.eigh(hermitian),
            jnp.linalg.svd(real, full_matrices=False),
            jnp.linalg.svd(hermitian, hermitian=True),
        )

    function = xpr.jit(program) if compiled else program
    found = function(REAL, COMPLEX, DEFINITE, HERMITIAN)
    low, up, qr, full, eigh, svd, hermitian_svd = found
    np.testing.assert_allclose(low @ _adjoint(low), DEFINITE, **CLOSE)
    np.testing.assert_allclose(up, _adjoint(low), **CLOSE)
    assert qr.Q.shape == (2, 4, 3)
    assert qr.R.shape == (2, 3, 3)
    np.testing.assert_allclose(qr.Q @ qr.R, REAL, **CLOSE)
    np.testing.assert_allclose(qr.R, REFERENCE.qr(REAL).R, **CLOSE)
    assert full.Q.shape == (4, 4)
    np.testing.assert_allclose(full.Q @ full.R, COMPLEX, **CLOSE)
    v, w = eigh.eigenvectors, np.asarray(eigh.eigenvalues)
    np.testing.assert_allclose((v * w) @ _adjoint(v), HERMITIAN, **CLOSE)
    np.testing.assert_allclose((svd.U * svd.S[:, None]) @ svd.Vh, REAL, **CLOSE)
    np.testing.assert_allclose(hermitian_svd.S, np.sort(np.abs(w))[::-1], **CLOSE)
    u, s, vh = hermitian_svd
    np.testing.assert_allclose((u * s) @ vh, HERMITIAN, **CLOSE)
    np.testing.assert_allclose(_adjoint(u) @ u, np.eye(4), **CLOSE)


def test_values_alone() -> None:
    np.testing.assert_allclose(
        jnp.linalg.svdvals(REAL), REFERENCE.svd(REAL, compute_uv=False), **CLOSE
    )
    np.testing.assert_allclose(
        jnp.linalg.eigvalsh(HERMITIAN), REFERENCE.eigvalsh(HERMITIAN), **CLOSE
    )
    np.testing.assert_allclose(
        jnp.linalg.svd(HERMITIAN, hermitian=True, compute_uv=False),
        REFERENCE.svd(HERMITIAN, compute_uv=False),
        **CLOSE,
    )
    np.testing.assert_allclose(jnp.linalg.qr(REAL, mode="r"), REFERENCE.qr(REAL, "r"), **CLOSE)


def test_the_triangle_that_is_read() -> None:
    x = np.array([[2, 5], [1, 3]], np.float32)
    low = np.tril(x) + np.tril(x, -1).T
    np.testing.assert_allclose(
        jnp.linalg.cholesky(x, symmetrize_input=False), REFERENCE.cholesky(low), rtol=1e-6
    )
    for uplo in ("L", "U"):
        np.testing.assert_allclose(
            jnp.linalg.eigh(x, uplo, symmetrize_input=False).eigenvalues,
            REFERENCE.eigvalsh(x, uplo),
            rtol=1e-5,
        )


def test_eigenvalues_of_general_matrices() -> None:
    for x in (REAL[:, :3], COMPLEX[:3], np.arange(4).reshape(2, 2)):
        w, v = jnp.linalg.eig(x)
        v = np.asarray(v)
        np.testing.assert_allclose(x @ v, v * np.asarray(w)[..., None, :], **CLOSE)
        np.testing.assert_allclose(np.linalg.norm(v, axis=-2), 1, rtol=1e-5)
        values = np.asarray(jnp.linalg.eigvals(x))
        for found in (values, np.asarray(w)):
            wanted = REFERENCE.eigvals(x)
            np.testing.assert_allclose(np.sort(found), np.sort(wanted), rtol=1e-4, atol=1e-5)
    with override("enable_x64", True):
        x = REAL[0, :3].astype(np.float64)
        # The sum of squares of eigenvalues is the trace of the square.
        found = xpr.grad(lambda a: (jnp.linalg.eigvals(a) ** 2).sum().real)(x)
        np.testing.assert_allclose(found, 2 * x.T, atol=1e-12)


def test_raw_factors_are_those_of_lapack() -> None:
    for x in (REAL, REAL.swapaxes(-1, -2), COMPLEX):
        found = jnp.linalg.qr(x, mode="raw")
        for a, b in zip(found, REFERENCE.qr(x, mode="raw"), strict=True):
            np.testing.assert_allclose(a, b, **CLOSE)


_VECTOR_ORDERS = (None, 1, 2, 3, 0, -1, np.inf, -np.inf)
_MATRIX_ORDERS = (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)


def test_norms_are_those_of_numpy() -> None:
    for x in (REAL, REAL.astype(np.complex64) * (1 + 2j)):
        for keepdims in (False, True):
            for order in _VECTOR_ORDERS:
                found = jnp.linalg.norm(x, order, axis=1, keepdims=keepdims)
                wanted = REFERENCE.norm(x, order, axis=1, keepdims=keepdims)
                np.testing.assert_allclose(found, wanted, rtol=1e-5)
            for order in _MATRIX_ORDERS:
                for axes in ((0, 2), (2, 1), (-1, 0)):
                    found = jnp.linalg.norm(x, order, axes, keepdims)
                    wanted = REFERENCE.norm(x, order, axes, keepdims)
                    np.testing.assert_allclose(found, wanted, rtol=1e-4)
            found = jnp.linalg.norm(x, keepdims=keepdims)
            np.testing.assert_allclose(found, REFERENCE.norm(x, keepdims=keepdims), rtol=1e-6)
        np.testing.assert_allclose(
            jnp.linalg.vector_norm(x, axis=(0, 2), ord=3),
            REFERENCE.vector_norm(x, axis=(0, 2), ord=3),
            rtol=1e-5,
        )
        np.testing.assert_allclose(
            jnp.linalg.matrix_norm(x, ord=2), REFERENCE.matrix_norm(x, ord=2), rtol=1e-5
        )
    assert jnp.linalg.norm(jnp.array([3, 4])).dtype == np.float32
    for empty in (np.zeros((0, 3), np.float32), np.zeros((3, 0), np.float32)):
        for order in (1, 2, "f", "nuc", np.inf):
            assert float(jnp.linalg.norm(empty, order)) == 0


def test_products_and_diagonals() -> None:
    square, rows = REAL[:, :3], REAL[0, :, 0]
    np.testing.assert_array_equal(jnp.linalg.diagonal(square), REFERENCE.diagonal(square))
    np.testing.assert_allclose(
        jnp.linalg.trace(square, offset=1), REFERENCE.trace(square, offset=1)
    )
    np.testing.assert_array_equal(jnp.linalg.outer(rows, rows), np.outer(rows, rows))
    np.testing.assert_allclose(
        jnp.linalg.cross(REAL[0], REAL[1]), REFERENCE.cross(REAL[0], REAL[1]), rtol=1e-4, atol=1e-6
    )


def test_matrices_without_factors_give_nan() -> None:
    nan = np.full((2, 2), np.nan, np.float32)
    np.testing.assert_array_equal(jnp.linalg.cholesky(-jnp.eye(2)), np.tril(nan))
    for x in jnp.linalg.eigh(nan) + jnp.linalg.svd(nan) + jnp.linalg.qr(nan):
        assert np.isnan(np.asarray(x)[0]).any()
    np.testing.assert_array_equal(
        jnp.linalg.cholesky(-jnp.eye(70)), np.tril(np.full((70, 70), np.nan, np.float32))
    )
    stack = np.stack([np.eye(2, dtype=np.float32), nan])
    assert np.isfinite(np.asarray(jnp.linalg.cholesky(stack))[0]).all()
    assert np.isfinite(np.asarray(jnp.linalg.eigh(stack).eigenvalues)[0]).all()
    found = lax.linalg.triangular_solve(jnp.zeros((2, 2)), jnp.ones((2, 2)), left_side=True)
    assert not np.isfinite(np.asarray(found)).any()


def test_known_derivatives() -> None:
    with override("enable_x64", True):
        x = np.diag([1.0, 4.0, 9.0])
        # Of log det x: the inverse.
        found = xpr.grad(lambda a: 2 * jnp.log(jnp.diagonal(jnp.linalg.cholesky(a))).sum())(x)
        np.testing.assert_allclose(found, REFERENCE.inv(x), atol=1e-14)
        # Of the sum of singular values: U V^H. Of the greatest eigenvalue: v v^T.
        a = REAL[0].astype(np.float64)
        u, _, vh = REFERENCE.svd(a, full_matrices=False)
        np.testing.assert_allclose(
            xpr.grad(lambda a: jnp.linalg.norm(a, "nuc"))(a), u @ vh, atol=1e-13
        )
        found = xpr.grad(lambda a: jnp.linalg.eigvalsh(a)[-1])(x)
        np.testing.assert_allclose(found, np.diag([0.0, 0, 1]), atol=1e-14)
        # |det| is the product of the diagonal of R.
        square = a[:3]
        found = xpr.grad(lambda a: jnp.abs(jnp.diagonal(jnp.linalg.qr(a).R)).prod())(square)
        wanted = abs(REFERENCE.det(square)) * REFERENCE.inv(square).T
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13)


def test_a_full_q_stays_orthogonal() -> None:
    with override("enable_x64", True):
        x, dx = REAL.astype(np.float64)
        (q, r), (dq, dr) = xpr.jvp(lambda a: tuple(lax.linalg.qr(a)), (x,), (dx,))
        np.testing.assert_allclose(dq @ r + q @ dr, dx, atol=1e-13)
        np.testing.assert_allclose(_adjoint(dq) @ q + _adjoint(q) @ dq, 0, atol=1e-13)


def test_a_full_svd_has_no_derivative() -> None:
    with pytest.raises(NotImplementedError, match="svd has no derivative with full_matrices=True"):
        xpr.jvp(lambda a: lax.linalg.svd(a)[1], (REAL,), (REAL,))


def test_many_equations_with_one_matrix_are_one() -> None:
    a, b = np.eye(3, dtype=np.float32), np.ones((5, 3), np.float32)

    def solve(b: Any) -> Any:
        return lax.linalg.triangular_solve(a, b, left_side=True)

    jaxpr = str(xpr.make_jaxpr(xpr.vmap(solve))(b))
    assert jaxpr.count("triangular_solve") == 1
    assert "f32[3,5] = triangular_solve" in jaxpr


X = np.ones((2, 3), np.float32)
SQUARE = np.ones((2, 2), np.float32)


@pytest.mark.parametrize(
    ("call", "kind", "match"),
    [
        (
            lambda: lax.linalg.cholesky(X, symmetrize_input=False),
            ValueError,
            r"input to cholesky must be .* \(2, 3\)",
        ),
        (lambda: lax.linalg.eigh(X), TypeError, "incompatible shapes.*eigh.*square matrices"),
        (lambda: lax.linalg.qr(X[0]), TypeError, "Input 0 to qr must have rank at"),
        (lambda: lax.linalg.svd(X[0]), TypeError, "Input 0 to svd must have rank at"),
        (lambda: lax.linalg.cholesky(SQUARE.astype("i4")), TypeError, "cholesky does not accept"),
        (lambda: jnp.linalg.cholesky(SQUARE.astype("f2")), TypeError, "does not accept dtype flo"),
        (lambda: jnp.linalg.svd(X[0]), TypeError, "Input 0 to svd must have rank at"),
        (
            lambda: lax.linalg.triangular_solve(SQUARE, X),
            ValueError,
            r"triangular_solve: \(2, 2\) and \(2, 3\) with left_side=False",
        ),
        (
            lambda: lax.linalg.triangular_solve(SQUARE, X.astype("f8"), left_side=True),
            TypeError,
            "triangular_solve requires operands of one dtype",
        ),
        (
            lambda: lax.linalg.triangular_solve(SQUARE[None], X, left_side=True),
            TypeError,
            "triangular_solve requires operands with the same leading axes",
        ),
        (lambda: jnp.linalg.qr(X, mode="x"), ValueError, "Unsupported QR decomposition mode 'x'"),
        (lambda: jnp.linalg.eigh(SQUARE, "X"), ValueError, "UPLO must be one of None, 'L', or"),
        (lambda: jnp.linalg.norm(X, "x"), ValueError, "Invalid order 'x' for matrix norm"),
        (lambda: jnp.linalg.norm(X[0], "fro"), ValueError, "Invalid order 'fro' for vector norm"),
        (lambda: jnp.linalg.norm(REAL, 2), ValueError, "Improper number of axes for norm"),
        (lambda: jnp.linalg.outer(X, X), ValueError, "x2.ndim=2 .jnp.linalg.outer"),
        (lambda: jnp.linalg.cross(X[:, :2], X[:, :2]), ValueError, "3-dimensional vectors"),
        (
            lambda: lax.linalg.svd(X, subset_by_index=(0, 1)),
            ValueError,
            "cannot both be set",
        ),
    ],
)
def test_errors_name_the_operation(call: Any, kind: type[Exception], match: str) -> None:
    with override("enable_x64", True), pytest.raises(kind, match=match):
        call()


def test_modules_are_loaded_when_they_are_used() -> None:
    code = (
        "import sys, xpr, xpr.numpy as jnp; before = 'xpr.primitives.linalg' in sys.modules; "
        "jnp.linalg.cholesky, xpr.lax.linalg.qr; "
        "print(before, 'xpr.primitives.linalg' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False True"
