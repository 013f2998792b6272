"""Zeros of polynomials and least squares fits, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy
from xpr.core.config import override
from xpr.test_util import check_grads

jnp: Any = xpr.numpy
RNG = np.random.default_rng(5)


def _sorted(x: Any) -> Any:
    return np.sort_complex(np.round(np.asarray(x), 3))


@pytest.mark.parametrize(
    "p",
    [
        [1, 2, 3],
        [1.0, -6, 11, -6],
        [0, 0, 1, 2, 0],
        [0.0, 0, 2, 0, 0],
        [3.0, 1j, 2],
        [0.0, 0],
        [5.0],
        [],
        [1e-3, 1.0, 1.0, 2.0, 3.0],
    ],
)
def test_roots_are_those_of_numpy(p: Any) -> None:
    x = np.asarray(p)
    x = x.astype({"i": np.int32, "f": np.float32, "c": np.complex64}[x.dtype.kind])
    found = jnp.roots(x)
    wanted = np.roots(x)
    assert found.dtype == np.complex64
    assert found.shape == wanted.shape
    np.testing.assert_allclose(_sorted(found), _sorted(wanted), rtol=1e-3, atol=1e-3)


def test_roots_of_unknown_degree_end_with_nan() -> None:
    # The second has two roots, of which one is 0.
    p = np.array([[1, 2, -3, 4], [0, 1, 2, 0], [0, 0, 0, 3], [0, 0, 0, 0]], np.float32)
    function = xpr.jit(lambda x: jnp.roots(x, strip_zeros=False))
    for row in p:
        found = np.asarray(function(row))
        wanted = np.roots(row)
        assert found.shape == (3,)
        np.testing.assert_array_equal(np.isnan(found), np.arange(3) >= wanted.size)
        np.testing.assert_allclose(
            _sorted(found[: wanted.size]), _sorted(wanted), rtol=1e-3, atol=1e-3
        )
    batch = np.asarray(xpr.vmap(lambda x: jnp.roots(x, strip_zeros=False))(p))
    np.testing.assert_array_equal(np.isnan(batch).sum(-1), [0, 1, 3, 3])


def test_the_polynomial_of_a_matrix_is_the_characteristic_one() -> None:
    a = RNG.normal(size=(4, 4)).astype(np.float32)
    found = jnp.poly(a)
    assert found.dtype == np.complex64
    np.testing.assert_allclose(found, np.poly(a), rtol=1e-3, atol=1e-4)


def _points(dtype: str = "float32") -> tuple[Any, Any, Any]:
    x = np.linspace(-1, 2, 9)
    y = RNG.normal(size=(9, 2)) + x[:, None] ** 2
    return x.astype(dtype), y.astype(dtype), RNG.uniform(0.5, 2, 9).astype(dtype)


def test_fits_are_those_of_numpy() -> None:
    x, y, w = _points()
    fit: Any = np.polyfit
    for values in (y, y[:, 0]):
        for options in (
            {},
            {"w": w},
            {"cov": True},
            {"cov": "unscaled", "w": w},
            {"full": True},
            {"rcond": 0.2, "full": True},
        ):
            found, wanted = jnp.polyfit(x, values, 3, **options), fit(x, values, 3, **options)
            found = found if isinstance(found, tuple) else (found,)
            wanted = wanted if isinstance(wanted, tuple) else (wanted,)
            for f, e in zip(found, wanted, strict=True):
                # Of a lower rank NumPy gives no sums.
                if np.shape(e) != (0,):
                    np.testing.assert_allclose(f, e, rtol=1e-3, atol=1e-4, err_msg=str(options))
    compiled = xpr.jit(lambda x, y: jnp.polyfit(x, y, 2))(x, y)
    np.testing.assert_allclose(compiled, fit(x, y, 2), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(
        jnp.polyfit(np.arange(4), np.arange(4) ** 2, 2), [1, 0, 0], atol=1e-5
    )


def test_fits_have_derivatives() -> None:
    x, y, w = _points("float64")
    with override("enable_x64", True):
        check_grads(lambda x, y, w: jnp.polyfit(x, y, 2, w=w), (x, y, w), order=1)


X = np.arange(4, dtype=np.float32)


@pytest.mark.parametrize(
    ("call", "kind", "match"),
    [
        (lambda: jnp.roots(np.ones((2, 2))), ValueError, "rank-1 array, got shape"),
        (lambda: jnp.roots([1.0, 2.0]), TypeError, "roots requires ndarray or scalar"),
        (
            lambda: xpr.jit(jnp.roots)(X),
            xpr.errors.ConcretizationTypeError,
            "jnp.roots with strip_zeros=True",
        ),
        (lambda: jnp.polyfit(X, X, -1), ValueError, "expected deg >= 0, got -1"),
        (lambda: jnp.polyfit(X[None], X, 1), TypeError, "expected 1D array for x"),
        (lambda: jnp.polyfit(X[:0], X[:0], 1), TypeError, "expected non-empty vector"),
        (lambda: jnp.polyfit(X, X[:, None, None], 1), TypeError, "expected 1D or 2D array for y"),
        (lambda: jnp.polyfit(X, X[:2], 1), TypeError, "expected x and y to have same length"),
        (lambda: jnp.polyfit(X, X, 1, w=X[:2]), TypeError, "expected x and w to have same length"),
        (lambda: jnp.polyfit(X, X, 3, cov=True), ValueError, "must exceed the number of coeffic"),
    ],
)
def test_errors_say_what_is_wrong(call: Any, kind: type[Exception], match: str) -> None:
    with pytest.raises(kind, match=match):
        call()
