"""Derivatives at points where the usual formulas give NaN, or lose all digits by cancellation.

Expected values are limits known in closed form, or mpmath's derivatives with 50 digits. Many of
these JAX 0.10.2 gets wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import nn
from xpr.core.config import override
from xpr.scipy import special

INF, NAN = np.inf, np.nan


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


def _softplus(x: Any) -> Any:
    return mp.log1p(mp.exp(x))


def _log_sum(x: Any) -> Any:
    return mp.log(1 + mp.exp(x))


# The function, the same with mpmath, and its first two derivatives with mpmath.
_TAILS: dict[str, tuple[Callable[[Any], Any], tuple[Any, Any, Any]]] = {
    "sigmoid": (
        nn.sigmoid,
        (
            _sigmoid,
            lambda x: _sigmoid(x) * _sigmoid(-x),
            lambda x: _sigmoid(x) * _sigmoid(-x) * (_sigmoid(-x) - _sigmoid(x)),
        ),
    ),
    "tanh": (
        jnp.tanh,
        (mp.tanh, lambda x: mp.sech(x) ** 2, lambda x: -2 * mp.tanh(x) * mp.sech(x) ** 2),
    ),
    "expm1": (jnp.expm1, (mp.expm1, mp.exp, mp.exp)),
    "softplus": (nn.softplus, (_softplus, _sigmoid, lambda x: _sigmoid(x) * _sigmoid(-x))),
    "logaddexp": (
        lambda x: jnp.logaddexp(x, 0.0),
        (_log_sum, _sigmoid, lambda x: _sigmoid(x) * _sigmoid(-x)),
    ),
}
_POINTS = np.array([-700.0, -300.0, -40.0, -17.5, -3.0, -0.1, 0.0, 0.25, 2.0, 19.0, 41.0, 350.0])


@pytest.mark.parametrize("compiled", [False, True])
def test_tails_of_float64(compiled: bool) -> None:
    def derivatives(x: Any) -> dict[str, Any]:
        return {
            name: [
                f(x),
                xpr.grad(lambda x, f=f: f(x).sum())(x),
                xpr.vmap(xpr.grad(xpr.grad(f)))(x),
                xpr.jvp(f, (x,), (jnp.ones_like(x),))[1],
            ]
            for name, (f, _) in _TAILS.items()
        }

    with override("enable_x64", True), mp.workdps(700):
        found = (xpr.jit(derivatives) if compiled else derivatives)(jnp.array(_POINTS))
        for name, (_, oracles) in _TAILS.items():
            value, first, second = (
                [float(oracle(mp.mpf(x))) for x in _POINTS] for oracle in oracles
            )
            for order, expected in enumerate((value, first, second, first)):
                np.testing.assert_allclose(
                    found[name][order], expected, rtol=1e-12, err_msg=f"{name}, result {order}"
                )


def test_tails_of_logsumexp() -> None:
    """What small terms add to a sum whose logarithm is near 0."""
    with override("enable_x64", True), mp.workdps(700):
        for tail in ([-50.0], [-40.0, -700.0], [0.0, -60.0], [-1e-20, -45.0]):
            x = jnp.array([0.0, *tail])
            powers = [mp.exp(mp.mpf(v)) for v in [0.0, *tail]]
            expected = mp.log(sum(powers))
            np.testing.assert_allclose(special.logsumexp(x), float(expected), rtol=1e-12)
            shares = [float(p / sum(powers)) for p in powers]
            np.testing.assert_allclose(xpr.grad(special.logsumexp)(x), shares, rtol=1e-12)
        out, sign = special.logsumexp(jnp.array([[0.0, -50.0], [-INF, -INF]]), 1, return_sign=True)
        np.testing.assert_allclose(out, [np.exp(-50.0), -INF], rtol=1e-12)
        np.testing.assert_array_equal(sign, [1.0, 0.0])
        for values in ([INF, 1.0], [-INF, -INF], [-INF, 3.0], [NAN, 1.0], [INF, -INF]):
            with np.errstate(all="ignore"):
                expected = np.logaddexp(values[0], values[1])
            np.testing.assert_array_equal(special.logsumexp(jnp.array(values)), expected)
        masked = special.logsumexp(jnp.array([5.0, 1.0, 2.0]), where=jnp.array([False, True, True]))
        np.testing.assert_allclose(masked, np.logaddexp(1.0, 2.0), rtol=1e-15)


@pytest.mark.parametrize("x64", [False, True])
def test_logsumexp_by_weights_that_are_zero(x64: bool) -> None:
    with override("enable_x64", x64):
        rtol = 1e-14 if x64 else 1e-6
        a = jnp.array([1.0, 2.0])

        def by_weights(b: Any, a: Any = a) -> Any:
            return special.logsumexp(a, b=b)

        slope = xpr.grad(by_weights)(jnp.array([0.0, 1.0]))
        np.testing.assert_allclose(slope, [np.exp(-1.0), 1.0], rtol=rtol)
        np.testing.assert_array_equal(xpr.grad(by_weights)(jnp.array([0.0, 0.0])), [INF, INF])
        mixed = xpr.jacfwd(xpr.grad(by_weights))(jnp.array([0.0, 1.0]))
        np.testing.assert_allclose(mixed, -np.outer(slope, slope), rtol=rtol)
        # The terms without weight count for nothing, however large they are.
        for large in (1e3, INF, NAN):
            huge = jnp.array([large, 2.0])
            assert float(special.logsumexp(huge, b=jnp.array([0.0, 1.0]))) == 2.0
            by_terms = xpr.grad(lambda a: special.logsumexp(a, b=jnp.array([0.0, 1.0])))(huge)
            np.testing.assert_array_equal(by_terms, [0.0, 1.0])
            forward = xpr.jvp(
                lambda b, huge=huge: special.logsumexp(huge, b=b),
                (jnp.array([0.0, 1.0]),),
                (jnp.array([0.0, 1.0]),),
            )[1]
            assert float(forward) == 1.0


def _bessel_derivative(order: int, n: int, x: Any) -> Any:
    """The derivative of order n: DLMF 10.29.5."""
    terms = (mp.binomial(n, k) * mp.besseli(abs(order - n + 2 * k), x) for k in range(n + 1))
    return sum(terms) / 2**n


@pytest.mark.parametrize("compiled", [False, True])
def test_bessel_functions_at_zero(compiled: bool) -> None:
    """I0 and I1 are analytic: I0 = 1 + x**2 / 4 + ..., I1 = x / 2 + x**3 / 16 + ..."""

    def derivatives(x: Any) -> list[list[Any]]:
        rows = []
        for f in (special.i0, special.i1):
            row, g = [], f
            for _ in range(4):
                row.append(xpr.vmap(g)(x))
                g = xpr.grad(g)
            rows.append(row)
        return rows

    points = np.array([0.0, -0.0, 1e-300, -1e-300, 1e-10, -1e-3, 0.7, 0.999, 1.001, -4.0, 30.0])
    with override("enable_x64", True), mp.workdps(50):
        found = (xpr.jit(derivatives) if compiled else derivatives)(jnp.array(points))
        for order, row in enumerate(found):
            for n, column in enumerate(row):
                expected = [float(_bessel_derivative(order, n, mp.mpf(x))) for x in points]
                np.testing.assert_allclose(column, expected, rtol=3e-13, err_msg=f"I{order}, {n}")


@pytest.mark.parametrize("ord", [None, 1.5, 2, 3, 0.5, -1, -2, "fro"])
def test_norms_at_zero(ord: Any) -> None:
    """The derivative of a norm at 0 is 0, one of its subgradients; elsewhere nothing changes."""
    for axis in (None, 0, 1, (0, 1)):
        if (axis in (None, (0, 1))) != (ord == "fro") and ord is not None:
            continue
        f = lambda x, axis=axis: jnp.linalg.norm(x, ord, axis).sum()  # noqa: E731
        zeros = jnp.zeros((2, 3))
        np.testing.assert_array_equal(xpr.grad(f)(zeros), np.zeros((2, 3)))
        np.testing.assert_array_equal(xpr.jvp(f, (zeros,), (zeros + 1,))[1], 0.0)
        hessian = xpr.grad(lambda x, f=f: xpr.grad(f)(x).sum())(zeros)
        np.testing.assert_array_equal(hessian, np.zeros((2, 3)))
        np.testing.assert_array_equal(xpr.grad(lambda z, f=f: f(z).real)(zeros + 0j), zeros)
    if ord not in (None, "fro"):
        g = lambda x: jnp.linalg.norm(x, ord, 1)[0]  # noqa: E731
        x = np.array([[3.0, 4.0], [0.0, 0.0]])
        with np.errstate(all="ignore"):
            total = np.sum(x[0] ** ord) ** (1 / ord)
        expected = [(x[0] / total) ** (ord - 1), [0.0, 0.0]]
        np.testing.assert_allclose(xpr.grad(g)(jnp.array(x)), expected, rtol=1e-6)
    vector = xpr.grad(lambda x: jnp.linalg.vector_norm(x, ord=2 if ord in (None, "fro") else ord))
    np.testing.assert_array_equal(vector(jnp.zeros(3)), [0.0, 0.0, 0.0])


def test_size_of_infinite_complex_numbers() -> None:
    """The derivative of |z| is the direction of z, which infinite numbers have too."""
    half = np.sqrt(0.5)
    cases = [
        (complex(INF, 0), 1),
        (complex(-INF, 5), -1),
        (complex(2, INF), 1j),
        (complex(0, -INF), -1j),
        (complex(INF, INF), half + half * 1j),
        (complex(INF, -INF), half - half * 1j),
        (complex(3, 4), 0.6 + 0.8j),
        (0j, 0),
    ]
    z = jnp.array([c for c, _ in cases])
    directions = np.array([d for _, d in cases])
    slopes = xpr.grad(lambda z: jnp.abs(z).sum())(z)
    np.testing.assert_allclose(slopes, np.conj(directions), rtol=1e-6)
    for step in (1.0, 1j):
        moved = xpr.jvp(jnp.abs, (z,), (jnp.full(z.shape, step, z.dtype),))[1]
        np.testing.assert_allclose(moved, (np.conj(directions) * step).real, rtol=1e-6)
    assert np.isnan(xpr.grad(jnp.abs)(complex(INF, NAN)))


def test_spectral_functions_at_repeated_values() -> None:
    """Functions of the values alone have derivatives where values are repeated."""
    eye = jnp.eye(3)
    for f in (
        lambda a: jnp.linalg.eigvalsh(a).sum(),
        lambda a: jnp.linalg.eigh(a)[0].sum(),
        lambda a: jnp.linalg.svd(a)[1].sum(),
        lambda a: jnp.linalg.norm(a, "nuc"),
        lambda a: jnp.linalg.slogdet(a)[1],
    ):
        np.testing.assert_allclose(xpr.grad(f)(eye), np.eye(3), atol=1e-6)
    squares = lambda a: (jnp.linalg.eigvalsh(a) ** 2).sum()  # noqa: E731
    np.testing.assert_allclose(xpr.grad(squares)(2 * eye), 4 * np.eye(3), atol=1e-6)
