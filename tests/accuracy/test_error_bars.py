"""`error_bars`: the exact result is within the proved bounds; estimates are of the right size.

The oracle is the same function in NumPy with float64, from the same float32 arguments; mpmath for
elementary functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax

RNG = np.random.default_rng(39)
X = RNG.normal(size=(6, 5)).astype(np.float32)
Y = RNG.normal(size=(5, 4)).astype(np.float32)
V = RNG.uniform(0.5, 2, 40).astype(np.float32)


class Program(NamedTuple):
    """A function of xpr's or NumPy's module, and its arguments."""

    name: str
    f: Callable[..., Any]
    args: tuple[Any, ...]


def _power_method(np_: Any, a: Any) -> Any:
    v = a[0]
    for _ in range(5):
        v = a.T @ (a @ v)
        v = v / np_.sqrt((v * v).sum())
    return v


def _running(np_: Any, v: Any) -> Any:
    if np_ is np:
        c = v[0]
        for x in v:
            c = np.sin(c) + x * c * 0.3
        return c
    return lax.scan(lambda c, x: (jnp.sin(c) + x * c * 0.3, None), v[0], v)[0]


def _newton(np_: Any, x: Any) -> Any:
    if np_ is np:
        y = x
        for _ in range(6):
            y = 0.5 * (y + x / y)
        return y
    return lax.fori_loop(0, 6, lambda _, y: 0.5 * (y + x / y), x)


def _while(np_: Any, x: Any) -> Any:
    if np_ is np:
        while x < 100:
            x = x * 1.7 + 0.1
        return x
    return lax.while_loop(lambda c: c < 100, lambda c: c * 1.7 + 0.1, x)


def _branch(np_: Any, x: Any) -> Any:
    if np_ is np:
        return np.exp(x) if x > 0 else np.log(-x)
    return lax.cond(x > 0, jnp.exp, lambda v: jnp.log(-v), x)


PROGRAMS = (
    Program("dot", lambda n, x, y: x @ y, (X, Y)),
    Program("layer", lambda n, x, y: n.tanh(x @ y).sum(axis=0), (X, Y)),
    Program("two layers", lambda n, x, y: n.maximum(n.tanh(x @ y) @ y.T, 0).mean(), (X, Y)),
    Program("softmax", lambda n, x: n.exp(x) / n.exp(x).sum(axis=1, keepdims=True), (X,)),
    Program("variance", lambda n, v: (v * v).mean() - v.mean() ** 2, (V,)),
    Program("centred variance", lambda n, v: ((v - v.mean()) ** 2).mean(), (V + 1000,)),
    Program("log sum", lambda n, v: n.log(n.exp(v).sum()), (V,)),
    Program("norm", lambda n, v: n.sqrt((v * v).sum()), (V,)),
    Program("cumulative", lambda n, v: n.cumsum(v) / n.arange(1.0, 41.0), (V,)),
    Program("polynomial", lambda n, v: ((v * 3.0 - 2.0) * v + 0.5) * v - 7.0, (V,)),
    Program("cancel", lambda n, v: (v + 1e6) - v, (V,)),
    Program("expm1 by hand", lambda n, v: n.exp(v * 1e-5) - 1.0, (V,)),
    Program("trig", lambda n, v: n.sin(v * 10) ** 2 + n.cos(v * 10) ** 2, (V,)),
    Program("powers", lambda n, v: v**3 + v**-2 + v**0.3, (V,)),
    Program("extremes", lambda n, x: n.maximum(x, 0.1).max(axis=0) - x.min(), (X,)),
    Program("where", lambda n, x: n.where(x > 0, n.sqrt(n.abs(x)), -x), (X,)),
    Program("reshaped", lambda n, x: n.concatenate([x.T.reshape(3, 10), x.reshape(3, 10)]), (X,)),
    Program("sorted", lambda n, v: n.sort(v)[::-1][:7] * 0.1, (V,)),
    Program("einsum", lambda n, x, y: n.einsum("ij,jk->ki", x, y), (X, Y)),
    Program("inverse functions", lambda n, x: n.arctan(x) + n.arcsinh(x), (X,)),
    Program("hyperbolic", lambda n, x: n.sinh(x) - n.cosh(x), (X,)),
    Program("powers of a matrix", _power_method, (X,)),
    Program("scan", _running, (V,)),
    Program("newton", _newton, (np.float32(7),)),
    Program("while", _while, (np.float32(0.3),)),
    Program("cond", _branch, (np.float32(-0.7),)),
)


def _bars(program: Program, **options: Any) -> Any:
    return xpr.error_bars(lambda *a: program.f(jnp, *a), **options)(*program.args)


def _truth(program: Program) -> Any:
    return program.f(np, *(np.asarray(a, np.float64) for a in program.args))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_the_exact_result_is_within_the_bounds(program: Program) -> None:
    bar, truth = _bars(program), _truth(program)
    # NumPy's own roundings in float64 are far below those in float32.
    slack = 1e-13 * (1 + np.abs(truth))
    assert np.all(bar.low - slack <= truth)
    assert np.all(truth <= bar.high + slack)
    assert np.all(np.abs(bar.value - truth) <= bar.error + slack)
    assert np.all(np.isfinite(bar.error))


def test_estimates_are_within_a_factor_of_ten() -> None:
    near = 0
    for program in PROGRAMS:
        bar, truth = _bars(program, mode="random"), _truth(program)
        true_error = float(np.max(np.abs(bar.value - truth)))
        estimate = float(np.max(bar.error))
        near += true_error / 10 <= estimate <= 10 * true_error or true_error < 1e-12
    assert near >= 0.9 * len(PROGRAMS)


def test_double_is_the_difference_to_float64() -> None:
    for program in PROGRAMS[:12]:
        bar, truth = _bars(program, mode="double"), _truth(program)
        expected = np.abs(np.asarray(bar.value, np.float64) - truth)
        assert np.allclose(bar.error, expected, rtol=1e-6, atol=1e-12 * np.max(np.abs(truth)))


FUNCTIONS = ("exp", "log", "sqrt", "tanh", "sinh", "atan", "asinh", "cbrt", "expm1", "sin", "cos")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_elementary_functions_enclose_what_mpmath_computes(name: str) -> None:
    x = RNG.uniform(0.1, 3, 20).astype(np.float32)
    radius = np.float32(2.0**-12)
    bar = xpr.error_bars(getattr(lax, name))(xpr.uncertain(x, radius))
    with mpmath.workprec(200):
        of = getattr(mpmath, name)
        for i, at in enumerate(x):
            for shift in (-1, -0.37, 0, 0.5, 1):
                exact = of(mpmath.mpf(float(at)) + shift * mpmath.mpf(float(radius)))
                assert mpmath.mpf(float(bar.low[i])) <= exact <= mpmath.mpf(float(bar.high[i]))


def test_uncertain_arguments_widen_the_bounds() -> None:
    bar = xpr.error_bars(lambda x, y: x * y)(xpr.uncertain(2.0, 0.5), 3.0)
    assert 4.5 - 1e-6 <= bar.low <= 4.5
    assert 7.5 <= bar.high <= 7.5 + 1e-6
    with pytest.raises(ValueError, match="must not be negative"):
        xpr.uncertain(1.0, -1.0)
    with pytest.raises(ValueError, match='need mode="interval"'):
        xpr.error_bars(jnp.sin, mode="double")(xpr.uncertain(1.0, 0.1))
    spread = xpr.error_bars(lambda x: x + 1.0, mode="random")(xpr.uncertain(2.0, 0.5))
    assert 0.1 < spread.error < 0.5


def test_results_keep_their_tree() -> None:
    out = xpr.error_bars(lambda x: {"a": x + 1.0, "n": (x > 0).sum()})(jnp.ones(3))
    assert out["n"].error == 0
    assert out["a"].error.shape == (3,)
    assert repr(out["n"]) == "i32[] = 3 +- 0"


def test_what_cannot_be_enclosed_is_refused() -> None:
    with pytest.raises(NotImplementedError, match=r"cholesky at .*test_error_bars.py:\d+"):
        xpr.error_bars(jnp.linalg.cholesky)(jnp.eye(3))
    with pytest.raises(NotImplementedError, match="complex numbers have no order"):
        xpr.error_bars(lambda x: (x * 1j).real)(jnp.ones(3))
    with pytest.raises(ValueError, match="mode must be one of"):
        xpr.error_bars(jnp.sin, mode="exact")
    with xpr.enable_x64(), pytest.raises(NotImplementedError, match="no wider type"):
        xpr.error_bars(jnp.sin, mode="double")(np.float64(1))


def test_float64_programs_are_enclosed() -> None:
    with xpr.enable_x64():
        bar = xpr.error_bars(lambda x: (x + 1e8) - x)(jnp.float64(0.1))
    assert bar.low <= 1e8 <= bar.high
    assert 0 < bar.error < 1e-6


def test_special_values() -> None:
    bar = xpr.error_bars(lambda x: 1 / x)(xpr.uncertain(np.array([0.0, 2.0], np.float32), 1.0))
    assert bar.low[0] == -np.inf
    assert bar.high[0] == np.inf
    assert np.isclose(bar.high[1], 1.0)
    empty = xpr.error_bars(lambda x: x.sum())(jnp.ones((0,)))
    assert empty.error <= 1e-300
    nan = xpr.error_bars(jnp.log)(jnp.float32(-1))
    assert np.isnan(nan.low)
