"""Matrices with a structure, against SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import xpr
import xpr.scipy.linalg
from xpr.core.config import override
from xpr.test_util import check_grads

linalg: Any = xpr.scipy.linalg
HOST: Any = scipy.linalg
RNG = np.random.default_rng(31)


def _draw(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
def test_constants(n: int) -> None:
    for name, args in (
        ("hilbert", (n,)),
        ("invhilbert", (n,)),
        ("helmert", (n,)),
        ("helmert", (n, True)),
        *(("dft", (n, scale)) for scale in (None, "sqrtn", "n")),
        *((f, (n, kind)) for f in ("pascal", "invpascal") for kind in ("lower", "upper")),
        *((f, (n, "symmetric")) for f in ("pascal", "invpascal")),
    ):
        found = getattr(linalg, name)(*args)
        wanted = getattr(HOST, name)(*args)
        assert found.shape == wanted.shape
        assert found.dtype == (np.complex64 if name == "dft" else np.float32)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=2e-7, err_msg=name)
    with override("enable_x64", True):
        np.testing.assert_allclose(linalg.dft(n), HOST.dft(n), atol=1e-14)
        assert linalg.hilbert(n).dtype == np.float64


def test_inverses_are_exact_where_rounding_would_lose_all_digits() -> None:
    with override("enable_x64", True):
        for function in (linalg.invhilbert, linalg.invpascal):
            found = np.asarray(function(10))
            np.testing.assert_array_equal(found, np.round(found))
        np.testing.assert_array_equal(
            np.asarray(linalg.pascal(10)) @ np.asarray(linalg.invpascal(10)), np.eye(10)
        )


def test_hadamard() -> None:
    for n in (1, 2, 8):
        np.testing.assert_array_equal(linalg.hadamard(n), HOST.hadamard(n))
    assert linalg.hadamard(2).dtype == np.int32
    assert linalg.hadamard(2, dtype=np.float32).dtype == np.float32
    assert linalg.dft(0).shape == (0, 0)
    assert linalg.pascal(0).shape == (0, 0)


def _calls(a: Any, b: Any) -> list[tuple[str, tuple[Any, ...]]]:
    """Functions of two vectors, of 5 and 4 elements."""
    calls = [
        ("toeplitz", (a,)),
        ("toeplitz", (a, b)),
        ("toeplitz", (a * 1j,)),
        ("hankel", (a,)),
        ("hankel", (a, b)),
        ("circulant", (a,)),
        ("companion", (a,)),
        ("fiedler", (a,)),
        ("fiedler_companion", (a,)),
        ("fiedler_companion", (b,)),
        ("leslie", (a, b)),
    ]
    for mode in ("full", "same", "valid"):
        calls += [("convolution_matrix", (a, n, mode)) for n in (1, 4, 5, 8)]
    return calls


def test_matrices_of_given_elements() -> None:
    a, b = _draw(5), _draw(4)

    def program(module: Any) -> list[Any]:
        return [getattr(module, name)(*args) for name, args in _calls(a, b)]

    wanted = program(HOST)
    for found in (program(linalg), xpr.jit(lambda: program(linalg))()):
        for f, w, (name, _) in zip(found, wanted, _calls(a, b), strict=True):
            assert f.shape == w.shape
            np.testing.assert_allclose(f, w, rtol=1e-6, err_msg=name)


def test_stacks_of_vectors_give_stacks_of_matrices() -> None:
    a, b = _draw(3, 5), _draw(3, 4)
    rows = [[getattr(linalg, n)(*args) for n, args in _calls(a[i], b[i])] for i in range(3)]
    for (name, args), *wanted in zip(_calls(a, b), *rows, strict=True):
        np.testing.assert_array_equal(getattr(linalg, name)(*args), np.stack(wanted), err_msg=name)
    assert linalg.toeplitz(a, b[0]).shape == (3, 5, 4)


def test_a_convolution_is_a_product() -> None:
    a, v = _draw(4), _draw(6)
    for mode in ("full", "same", "valid"):
        found = np.asarray(linalg.convolution_matrix(a, 6, mode)) @ v
        np.testing.assert_allclose(found, np.convolve(a, v, mode), rtol=1e-4, atol=1e-5)


def test_integers_keep_their_type_and_vectors_may_be_short() -> None:
    x = np.arange(1, 4, dtype=np.int32)
    for name in ("toeplitz", "hankel", "circulant", "fiedler"):
        assert getattr(linalg, name)(x).dtype == np.int32
    assert linalg.companion(x).dtype == np.float32
    np.testing.assert_array_equal(linalg.toeplitz(3), [[3]])
    assert linalg.toeplitz(np.zeros(0, np.float32)).shape == (0, 0)
    assert linalg.fiedler_companion(np.float32([2])).shape == (0, 0)


def test_block_diagonals() -> None:
    blocks = [_draw(2, 3), _draw(4), np.float32(3), np.ones((1, 2), np.int32), _draw(0, 2)]
    found = linalg.block_diag(*blocks)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, HOST.block_diag(*blocks))
    assert linalg.block_diag().shape == (1, 0)


def test_elements_have_derivatives() -> None:
    a, b = _draw(4).astype(np.float64) + 3, _draw(3).astype(np.float64)
    with override("enable_x64", True):
        for function in (linalg.toeplitz, linalg.hankel, linalg.leslie, linalg.block_diag):
            check_grads(function, (a, b), order=1)
        for function in (linalg.companion, linalg.fiedler_companion, linalg.circulant):
            check_grads(function, (a,), order=1)


X = np.ones((2, 2), np.float32)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: linalg.hankel(3.0), "hankel: c must be at least 1-dimensional"),
        (lambda: linalg.companion(X[0, :1]), "must be at least 2; got shape"),
        (lambda: linalg.fiedler_companion(X[0, :0]), "to have nonzero length"),
        (lambda: linalg.leslie(X, X), r"got f shape \(2, 2\) and s shape \(2, 2\)"),
        (lambda: linalg.leslie(X[0, :1], X[0, :0]), "at least 2 elements"),
        (lambda: linalg.convolution_matrix(X[0], 0), "n must be a positive integer; got 0"),
        (lambda: linalg.convolution_matrix(X[0], 1, "x"), "mode must be one of 'full', 'valid'"),
        (lambda: linalg.convolution_matrix(X[0, :0], 1), "a must not be empty"),
        (lambda: linalg.dft(2, "x"), "scale must be None, 'sqrtn', or 'n'; got 'x'"),
        (lambda: linalg.hadamard(3), "n must be a positive power of 2; got 3"),
        (lambda: linalg.helmert(0), "n must be a positive integer; got 0"),
        (lambda: linalg.dft(4, dtype="float32"), "dtype must be a complex floating-point type"),
        (lambda: linalg.pascal(3, "x"), "Expected kind to be one of 'symmetric', 'lower', 'upper'"),
        (lambda: linalg.block_diag(X[None]), r"at most 2 axes, got shape \(1, 2, 2\)"),
    ],
)
def test_errors_say_what_is_wrong(call: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        call()
