"""Derivatives of cumulative operations at zeros, ties and infinities, and along long axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
from xpr import lax
from xpr.core.config import override

_INF = np.inf


def _jacobian(name: str, values: Any, reverse: bool = False) -> np.ndarray[Any, Any]:
    function = getattr(lax, name)
    x = np.array(values, np.float32)
    return np.asarray(xpr.jacrev(lambda x: function(x, reverse=reverse))(x))


def _product_jacobian(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    n = len(x)
    return np.array(
        [[np.prod(np.delete(x[: i + 1], j)) if j <= i else 0 for j in range(n)] for i in range(n)]
    )


@pytest.mark.parametrize("values", [[2, 0, 3, 0, 1], [0, 0], [0], [2, 3, 0.5]])
def test_products_with_zeros(values: list[float]) -> None:
    wanted = _product_jacobian(np.array(values))
    np.testing.assert_array_equal(_jacobian("cumprod", values), wanted)
    flipped = _jacobian("cumprod", values[::-1], reverse=True)
    np.testing.assert_array_equal(flipped[::-1, ::-1], wanted)


def test_second_derivatives_of_products_with_zeros() -> None:
    x = np.array([2, 0, 3, 0], np.float32)
    found = xpr.jacfwd(xpr.jacrev(lax.cumprod))(x)
    for i in range(4):
        for j in range(4):
            for k in range(4):
                both = j != k and max(j, k) <= i
                wanted = np.prod(np.delete(x[: i + 1], [j, k])) if both else 0
                assert found[i, j, k] == wanted


# Equal extremes share the tangent equally.
@pytest.mark.parametrize(
    ("name", "values", "wanted"),
    [
        ("cummax", [3, 1, 3], [[1, 0, 0], [1, 0, 0], [0.5, 0, 0.5]]),
        ("cummin", [1, 1, 1], [[1, 0, 0], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]]),
        ("cummax", [1, 2, 0], [[1, 0, 0], [0, 1, 0], [0, 1, 0]]),
        ("cummax", [-_INF, _INF, _INF], [[1, 0, 0], [0, 1, 0], [0, 0.5, 0.5]]),
        (
            "cumlogsumexp",
            [-_INF, -_INF, 0, 0],
            [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0.5, 0.5]],
        ),
        ("cumlogsumexp", [1000, -1000, _INF], [[1, 0, 0], [1, 0, 0], [0, 0, 1]]),
    ],
)
def test_ties_and_infinities(name: str, values: list[float], wanted: Any) -> None:
    np.testing.assert_allclose(_jacobian(name, values), wanted, rtol=1e-6)
    flipped = _jacobian(name, values[::-1], reverse=True)
    np.testing.assert_allclose(flipped[::-1, ::-1], wanted, rtol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("size", [64, 128, 129, 192, 9000])
def test_long_axes_are_scanned_in_blocks(size: int, reverse: bool) -> None:
    rng = np.random.default_rng(size)
    x, t = rng.uniform(0.9, 1.1, size), rng.normal(size=size)
    x[size // 3] = 0
    with override("enable_x64", True):
        _, found = xpr.jvp(lambda x: lax.cumprod(x, reverse=reverse), (x,), (t,))
    value, tangent = 1.0, 0.0
    wanted = np.zeros(size)
    for i in reversed(range(size)) if reverse else range(size):
        value, tangent = value * x[i], tangent * x[i] + value * t[i]
        wanted[i] = tangent
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
