"""What is computed of many windows of arrays: stencils and filters, against NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.core.config import override

Formula = Callable[..., Any]
SHAPES = [(61, 97), (97, 61), (200, 3), (130, 128)]


@pytest.fixture(autouse=True)
def _in_double_precision() -> Any:
    with override("enable_x64", True), override("enable_checks", True):
        yield


def _five_points(n: Any, u: Any) -> Any:
    return u[1:-1, 1:-1] / 2 + (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]) / 8


def _gradient(n: Any, u: Any) -> Any:
    x, y = u[1:-1, 2:] - u[1:-1, :-2], u[2:, 1:-1] - u[:-2, 1:-1]
    return n.sqrt(x * x + y * y), n.arctan2(y, x)


def _bilateral(n: Any, u: Any) -> Any:
    """A mean of 49 neighbours, weighted by the distance in place and in value."""
    rows, columns = u.shape
    padded = n.pad(u, 3, mode="edge")
    total = weights = n.zeros_like(u)
    for i in range(7):
        for j in range(7):
            q = padded[i : i + rows, j : j + columns]
            w = n.exp(-((i - 3) ** 2 + (j - 3) ** 2) / 8 - (q - u) ** 2 / 0.02)
            total, weights = total + w * q, weights + w
    return total / weights


def _filter(n: Any, u: Any) -> Any:
    """Twenty-five windows, with weights that the program computes."""
    weights = n.outer(n.arange(1.0, 6), n.arange(1.0, 6)) * u[0, 0]
    padded = n.pad(u, 2)
    rows, columns = u.shape
    windows = [
        weights[i, j] * padded[i : i + rows, j : j + columns] for i in range(5) for j in range(5)
    ]
    return sum(windows)


def _median(n: Any, u: Any) -> Any:
    """Of three rows, and the integers of four windows."""
    a, b, c = u[:-2], u[1:-1], u[2:]
    first = n.maximum(n.minimum(a, b), n.minimum(n.maximum(a, b), c))
    k = (u * 100).astype("i8")
    return first, k[1:, 1:] + k[:-1, 1:] - 3 * k[1:, :-1] * k[:-1, :-1]


FORMULAS: dict[str, Formula] = {
    "five points": _five_points,
    "gradient": _gradient,
    "bilateral": _bilateral,
    "filter": _filter,
    "median": _median,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_windows(name: str) -> None:
    formula = FORMULAS[name]
    arrays = [np.random.default_rng(k).random(shape) for k, shape in enumerate(SHAPES)]
    given = [u.copy() for u in arrays]
    found = xpr.jit(lambda arrays: [formula(jnp, u) for u in arrays])(arrays)
    for u, before, result in zip(arrays, given, found, strict=True):
        wanted = formula(np, u)
        results = result if isinstance(wanted, tuple) else (result,)
        for x, y in zip(results, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(u, before)


def _dispatches(function: Callable[..., Any], *args: Any) -> int:
    return xpr.jit(function).lower(*args).as_text("iree").count("flow.dispatch @")


def test_one_pass_for_each_result() -> None:
    u = np.random.default_rng(0).random((97, 211))
    assert _dispatches(lambda u: _five_points(jnp, u), u) == 1
    # The padded array is stored once, and not made again for each of its 49 windows.
    assert _dispatches(lambda u: _bilateral(jnp, u), u) <= 2
    assert len(xpr.jit(lambda u: _bilateral(jnp, u)).lower(u).as_text("iree")) < 400_000


def _erosion(n: Any, u: Any) -> Any:
    """The least of 25 neighbours: little is computed, so that the edges are not stored first."""
    rows, columns = u.shape
    padded, least = n.pad(u, 2, constant_values=n.inf), u
    for i in range(5):
        for j in range(5):
            least = n.minimum(least, padded[i : i + rows, j : j + columns])
    return least


def test_few_operations_on_many_windows() -> None:
    u = np.random.default_rng(0).random((97, 211))
    lowered = xpr.jit(lambda u: _erosion(jnp, u)).lower(u).as_text("iree")
    assert lowered.count("flow.dispatch @") == 1
    assert "stablehlo.pad" not in lowered
    np.testing.assert_array_equal(xpr.jit(lambda u: _erosion(jnp, u))(u), _erosion(np, u))


def test_what_others_read_is_left_to_be_fused() -> None:
    u = np.random.default_rng(0).random((97, 211))
    v = np.random.default_rng(1).random((209, 5))
    assert _dispatches(lambda u: _five_points(jnp, u).sum(), u) == 0
    # What two results share is not computed for each of them.
    assert _dispatches(lambda u: (jnp.exp(_five_points(jnp, u)), _five_points(jnp, u) + 1), u) == 2

    def shared(u: Any) -> Any:
        x = _five_points(jnp, u)
        return jnp.exp(x), x + 1, x @ v

    assert _dispatches(shared, u) == 0
    wanted = _five_points(np, u)
    for x, y in zip(xpr.jit(shared)(u), (np.exp(wanted), wanted + 1, wanted @ v), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


def test_a_program_called_by_another_one() -> None:
    u = np.random.default_rng(0).random((97, 211))
    inner = xpr.jit(lambda u: _five_points(jnp, u))
    found = xpr.jit(lambda u: jnp.cos(inner(u)) + inner(u)[:1])(u)
    wanted = _five_points(np, u)
    np.testing.assert_allclose(found, np.cos(wanted) + wanted[:1], rtol=1e-12)


def test_a_donated_array() -> None:
    u = np.random.default_rng(0).random((64, 64))

    def f(u: Any) -> Any:
        return lax.pad(_five_points(jnp, u), 0.0, ((1, 1, 0), (1, 1, 0)))

    def g(n: Any, u: Any) -> Any:
        w = n.pad(u, 1)
        return u + w[2:, 1:-1] * w[:-2, 1:-1] - w[1:-1, 2:] + w[1:-1, :-2]

    found = xpr.jit(f, donate_argnums=0)(jnp.asarray(u))
    np.testing.assert_allclose(found, np.pad(_five_points(np, u), 1), rtol=1e-12)
    found = xpr.jit(lambda u: g(jnp, u), donate_argnums=0)(jnp.asarray(u))
    np.testing.assert_allclose(found, g(np, u), rtol=1e-12)
