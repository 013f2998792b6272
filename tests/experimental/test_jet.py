"""Taylor series of functions beside those of mpmath, polynomials and derivatives of derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
import xpr.scipy.special as sp
from xpr import lax
from xpr.experimental.jet import fact, jet

Function = Callable[..., Any]
ORDER = 5

# A function, that of mpmath, and the point.
ELEMENTARY: dict[str, tuple[Function, Function, float]] = {
    "exp": (jnp.exp, mpmath.exp, 0.3),
    "exp2": (jnp.exp2, lambda x: 2**x, 0.3),
    "expm1": (jnp.expm1, mpmath.expm1, 0.3),
    "log": (jnp.log, mpmath.log, 0.7),
    "log1p": (jnp.log1p, mpmath.log1p, 0.7),
    "sin": (jnp.sin, mpmath.sin, 0.4),
    "cos": (jnp.cos, mpmath.cos, 0.4),
    "tan": (jnp.tan, mpmath.tan, 0.4),
    "asin": (jnp.arcsin, mpmath.asin, 0.3),
    "acos": (jnp.arccos, mpmath.acos, 0.3),
    "atan": (jnp.arctan, mpmath.atan, 0.3),
    "sinh": (jnp.sinh, mpmath.sinh, 0.3),
    "cosh": (jnp.cosh, mpmath.cosh, 0.3),
    "tanh": (jnp.tanh, mpmath.tanh, 0.3),
    "asinh": (jnp.arcsinh, mpmath.asinh, 0.3),
    "acosh": (jnp.arccosh, mpmath.acosh, 1.7),
    "atanh": (jnp.arctanh, mpmath.atanh, 0.3),
    "erf": (sp.erf, mpmath.erf, 0.3),
    "erfc": (sp.erfc, mpmath.erfc, 0.3),
    "erf_inv": (sp.erfinv, mpmath.erfinv, 0.3),
    "logistic": (lax.logistic, lambda x: 1 / (1 + mpmath.exp(-x)), 0.3),
    "square": (jnp.square, lambda x: x * x, 0.7),
    "sqrt": (jnp.sqrt, mpmath.sqrt, 0.7),
    "rsqrt": (lax.rsqrt, lambda x: 1 / mpmath.sqrt(x), 0.7),
    "cbrt": (jnp.cbrt, mpmath.cbrt, 0.7),
    "integer_pow": (lambda x: x**-3, lambda x: x**-3, 0.7),
    "integer_pow at 0": (lambda x: x**5, lambda x: x**5, 0.0),
    "pow": (lambda x: x**1.7, lambda x: x**1.7, 0.7),
    "pow of both": (lambda x: x**x, lambda x: x**x, 0.7),
    "constant to a power": (lambda x: 2.5**x, lambda x: mpmath.mpf(2.5) ** x, 0.7),
    "atan2": (
        lambda x: jnp.arctan2(jnp.sin(x), x + 1),
        lambda x: mpmath.atan2(mpmath.sin(x), x + 1),
        0.3,
    ),
    "div": (lambda x: jnp.sin(x) / (x + 1), lambda x: mpmath.sin(x) / (x + 1), 0.3),
    "1 / x": (lambda x: 1 / x, lambda x: 1 / x, 0.7),
    # By derivatives of derivatives.
    "lgamma": (sp.gammaln, mpmath.loggamma, 1.7),
    "digamma": (sp.digamma, mpmath.digamma, 1.3),
    # Of several operations.
    "softplus": (xpr.nn.softplus, lambda x: mpmath.log(1 + mpmath.exp(x)), 0.3),
    "piecewise": (lambda x: jnp.maximum(x * x, jnp.abs(x - 1)), lambda x: 1 - x, 0.3),
}


def unit(x: Any, order: int = ORDER) -> tuple[Any, ...]:
    """The curve x + t."""
    one = jnp.ones_like(jnp.asarray(x, float))
    return (one, *[jnp.zeros_like(one)] * (order - 1))


@pytest.mark.parametrize("name", ELEMENTARY)
def test_elementary_functions(name: str) -> None:
    function, reference, x = ELEMENTARY[name]
    with xpr.enable_x64(True), mpmath.workdps(30):
        expected = [float(mpmath.re(c)) for c in mpmath.taylor(reference, x, ORDER)]
        value, series = jet(function, (x,), (unit(x),), factorial_scaled=False)
        # Each coefficient is a sum of at most `ORDER` products of earlier ones.
        np.testing.assert_allclose([value, *series], expected, rtol=1e-11, atol=1e-13)
        _, derivatives = jet(function, (x,), (unit(x),))
        scaled = [c * math.factorial(k) for k, c in enumerate(expected)][1:]
        np.testing.assert_allclose(derivatives, scaled, rtol=1e-11, atol=1e-11)


def nested(function: Function, curves: list[list[Any]], order: int) -> list[Any]:
    """The derivatives at t = 0 along curves given by their derivatives, by `jvp` of `jvp`."""

    def at(t: Any) -> Any:
        points = [
            sum(c * t**k / math.factorial(k) for k, c in enumerate(curve)) for curve in curves
        ]
        return function(*points)

    found = []
    for _ in range(order + 1):
        found.append(at(jnp.zeros(())))
        at = (lambda f: lambda t: xpr.jvp(f, (t,), (jnp.ones(()),))[1])(at)
    return found


RNG = np.random.default_rng(0)


def A(*shape: int) -> Any:
    return RNG.standard_normal(shape)


def looped(x: Any, y: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        return jnp.sin(carry) * row, carry * 2

    carry, rows = lax.scan(step, x[0], y.T)
    count, total = lax.while_loop(
        lambda state: state[0] < 3, lambda state: (state[0] + 1, state[1] * x[0]), (0, y[:, 0])
    )
    counted = lax.fori_loop(0, 3, lambda i, c: c * x[0, i] + 1, 1.0)
    return carry + rows.sum(0) + total * count + counted


def branched(x: Any, y: Any) -> Any:
    chosen = lax.cond(x[0, 0] > 10, jnp.sin, lambda v: v * v, x)
    return lax.switch(1, [lambda v, w: v, lambda v, w: v * w.T], chosen, y)


ruled = xpr.custom_jvp(lambda x: jnp.sin(x) * x)
ruled.defjvp(lambda p, t: (ruled(p[0]), t[0] * 0))

PROGRAMS: dict[str, Function] = {
    "products": lambda x, y: (x @ y) * jnp.sum(x, 1)[:, None] - jnp.einsum("ij,kj->k", x, x),
    "shapes": lambda x, y: jnp.concatenate([x.T[::-1], y.reshape(4, 3)], 1)[1:, ::2] ** 2,
    "indices": lambda x, y: (x[jnp.array([0, 2])] * y.T[jnp.array([1, 1])]).at[0].multiply(2.0),
    "updates": lambda x, y: (
        lax.dynamic_update_slice(x, y[:2, :2] ** 2, (1, 0)).at[0, 1].add(x[1, 1] * y[0, 0])
    ),
    "sums": lambda x, y: jnp.cumsum(x * x, 0) + jnp.mean(y * y) / x.std() + jnp.linalg.norm(x),
    "where": lambda x, y: jnp.where(x > 0, jnp.exp(x), x * y.T) + jnp.clip(x, -0.5, 0.5),
    "extrema": lambda x, y: jnp.maximum(x, y.T) * jnp.minimum(x, 0.1) + jnp.max(x * x) + jnp.abs(x),
    "sorted": lambda x, y: jnp.sort(x * x, axis=0) * jnp.prod(y, axis=1),
    "solved": lambda x, y: jnp.linalg.solve(x[:, :3] + 5 * jnp.eye(3), y[:3]),
    "functions": lambda x, y: xpr.nn.softmax(x, axis=1) * jnp.logaddexp(x, y.T) + xpr.nn.gelu(x),
    "convolved": lambda x, y: jnp.convolve(x[0], y[:, 0]) * jnp.convolve(x[1], x[2])[:7],
    "transformed": lambda x, y: jnp.abs(jnp.fft.fft(x * x)) + jnp.angle(x + 1j * y.T),
    "jitted": xpr.jit(lambda x, y: xpr.checkpoint(jnp.tanh)(x) * xpr.vmap(jnp.sin)(y.T)),
    "loops": looped,
    "branches": branched,
    "integers": lambda x, y: x * jnp.floor(y.T) * jnp.round(x).astype(int) * jnp.argmax(x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    with xpr.enable_x64(True):
        curves = [[A(3, 4) for _ in range(4)], [A(4, 3) for _ in range(4)]]
        function = PROGRAMS[name]
        expected = nested(function, curves, 3)
        x, y = curves
        for run in (jet, xpr.jit(jet, static_argnums=0)):
            value, series = run(function, (x[0], y[0]), (x[1:], y[1:]))
            for found, wanted in zip([value, *series], expected, strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_polynomials_exactly() -> None:
    """(1 + 2 t)^2 (3 + t) and its integral parts, in float32."""
    value, series = jet(lambda x, y: x * x * y, (1, 3), ((2, 0, 0), (1, 0, 0)))
    expected = np.polynomial.Polynomial([1, 2]) ** 2 * np.polynomial.Polynomial([3, 1])
    assert float(value) == 3.0
    for k, found in enumerate(series, 1):
        assert float(found) == expected.deriv(k)(0)
        assert found.dtype == np.float32


def test_structures_and_constants() -> None:
    def function(x: Any) -> Any:
        return {"a": x**2, "b": (jnp.ones(2), 3)}, jnp.argmax(x)

    value, series = jet(function, (jnp.arange(2.0),), ((jnp.ones(2), jnp.zeros(2)),))
    assert value[0]["a"].tolist() == [0.0, 1.0]
    assert [d.tolist() for d in series[0]["a"]] == [[0.0, 2.0], [2.0, 2.0]]
    assert [d.tolist() for d in series[0]["b"][0]] == [[0.0, 0.0]] * 2
    assert [float(d) for d in series[0]["b"][1]] == [0.0, 0.0]
    assert int(value[1]) == 1
    assert jet(jnp.sin, (1.0,), ((),))[1] == []


def test_other_transformations() -> None:
    def second(x: Any) -> Any:
        return jet(jnp.sin, (x,), ((1.0, 0.0),))[1][1]

    np.testing.assert_allclose(xpr.grad(second)(0.5), -np.cos(0.5), rtol=1e-6)
    points = jnp.arange(3.0)
    np.testing.assert_allclose(xpr.vmap(second)(points), -np.sin(np.arange(3)), atol=1e-6)
    np.testing.assert_allclose(second(jnp.float32(0.5)), -np.sin(0.5), rtol=1e-6)
    # The function itself counts, not the derivative that its author gave.
    _, (first,) = jet(ruled, (0.5,), ((1.0,),))
    np.testing.assert_allclose(first, np.sin(0.5) + 0.5 * np.cos(0.5), rtol=1e-6)


def test_where_there_is_no_derivative() -> None:
    _, (first, second) = jet(jnp.sqrt, (0.0,), ((1.0, 0.0),))
    assert float(first) == np.inf
    assert not np.isfinite(second)
    _, series = jet(lambda x: jnp.maximum(x, 0.0), (0.0,), ((1.0, 0.0),))
    assert [float(d) for d in series] == [0.5, 0.0]
    empty = jnp.zeros((0, 2))
    value, (first,) = jet(lambda x: jnp.exp(x) @ jnp.ones(2), (empty,), ((empty,),))
    assert value.shape == first.shape == (0,)


@pytest.mark.parametrize(
    ("primals", "series", "error", "message"),
    [
        ((1.0, 2.0), ((1.0,), (1.0, 2.0)), ValueError, "inconsistent lengths for different"),
        ((1.0, 2.0), ((1.0,),), ValueError, "got 2 primals and 1 series"),
        (
            (np.ones(2), 2.0),
            ((np.ones(3),), (1.0,)),
            ValueError,
            r"shape \(3,\), its primal \(2,\)",
        ),
        (({"a": 1.0}, 2.0), (({"a": 1.0},), (1.0,)), ValueError, "position 0 is not an array"),
    ],
)
def test_errors(primals: Any, series: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        jet(jnp.multiply, primals, series)
    with pytest.raises(TypeError, match="callable"):
        jet(3, (), ())  # pyright: ignore[reportArgumentType]


def test_divisors_of_a_series() -> None:
    numbers = np.arange(6)
    expected = [math.factorial(n) for n in numbers.tolist()]
    np.testing.assert_allclose(fact(numbers), expected, rtol=1e-6)
    np.testing.assert_allclose([fact(n) for n in range(6)], expected, rtol=1e-6)
