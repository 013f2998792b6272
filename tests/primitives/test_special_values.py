"""Special functions against mpmath, and their values at the borders of their domains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from tests.harness import run_compiled, run_reference
from tests.primitives.ulp import NdArray, assert_within, exact_values
from xpr.core.config import override
from xpr.primitives import special as s

_DTYPES = ["float32", "float64"]
_INF, _NAN = float("inf"), float("nan")


def _log_gamma(x: Any) -> Any:
    return mpmath.log(abs(mpmath.gamma(x)))


def _bessel(order: int) -> Callable[[Any], Any]:
    return lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(order, x)


def _inverse_erf(x: Any) -> Any:
    """By Newton's method from a start good to some digits."""
    complement = 1 - abs(x)
    y = mpmath.sqrt(-mpmath.log(complement * (1 + abs(x))))
    for _ in range(60):
        step = (mpmath.erfc(y) - complement) * mpmath.exp(y * y) * mpmath.sqrt(mpmath.pi) / 2
        y += step / (1 - y * step)
        if abs(step) < mpmath.mpf(10) ** -60:
            break
    return y * mpmath.sign(x)


_ONE: dict[str, tuple[Callable[..., Any], float, list[tuple[float, float]]]] = {
    "erf": (mpmath.erf, 2.6, [(-4, 4), (-0.1, 0.1)]),
    "erfc": (mpmath.erfc, 3.2, [(-4, 9), (-0.1, 0.1)]),
    "erf_inv": (_inverse_erf, 3.0, [(-0.9, 0.9), (0.9, 0.999), (0.9999, 0.999999)]),
    "lgamma": (_log_gamma, 6.0, [(0.01, 3), (0.9, 1.1), (1.9, 2.1), (3, 200)]),
    "digamma": (mpmath.digamma, 3.5, [(0.01, 3), (1.45, 1.47), (3, 200), (-0.4, -0.01)]),
    "bessel_i0e": (_bessel(0), 4.5, [(-10, 10), (10, 80)]),
    "bessel_i1e": (_bessel(1), 4.5, [(-10, 10), (10, 80)]),
}


@pytest.mark.parametrize("dtype", _DTYPES)
def test_functions_of_one_argument_are_within_a_few_ulp(dtype: str, runtime: str) -> None:
    rng = np.random.default_rng(17)
    cases = []
    for name, (_, _, ranges) in _ONE.items():
        points = np.concatenate([rng.uniform(low, high, 25) for low, high in ranges])
        cases.append((getattr(s, name), (points.astype(dtype),)))
    with override("enable_x64", True):
        found = run_compiled(cases, runtime)
    with mpmath.workdps(60):
        for (name, (function, bound, _)), (_, operands), (result,) in zip(
            _ONE.items(), cases, found, strict=True
        ):
            exact = [function(mpmath.mpf(float(v))) for v in operands[0]]
            assert_within(result, exact, bound, operands, f"{dtype} {name}")


@pytest.mark.parametrize("dtype", _DTYPES)
def test_gamma_functions_of_negative_numbers(dtype: str, runtime: str) -> None:
    """Between the poles; near the zeros there only the absolute error is small."""
    x = -np.concatenate([np.linspace(0.02, 0.98, 20) + k for k in range(6)]).astype(dtype)
    with override("enable_x64", True):
        (log_gamma,), (psi,) = run_compiled([(s.lgamma, (x,)), (s.digamma, (x,))], runtime)
    exact = exact_values(_log_gamma, x), exact_values(mpmath.digamma, x)
    eps = float(np.finfo(dtype).eps)
    for found, wanted in zip((log_gamma, psi), exact, strict=True):
        values = np.array([float(v) for v in wanted])
        np.testing.assert_allclose(found, values, rtol=20 * eps, atol=20 * eps)


def _relative(found: NdArray, exact: list[float], bound: float, what: str) -> None:
    wanted = np.array(exact)
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=bound, err_msg=what)


@pytest.mark.parametrize(("dtype", "bound"), [("float32", 2e-5), ("float64", 2e-13)])
def test_incomplete_gamma_functions(dtype: str, bound: float, runtime: str) -> None:
    rng = np.random.default_rng(5)
    large = 10.0 ** rng.uniform(1, 4, 20)
    a = np.concatenate([rng.uniform(0.05, 8, 40), large]).astype(dtype)
    near = large + rng.normal(0, 1, 20) * np.sqrt(large)
    x = np.concatenate([rng.uniform(0.02, 15, 40), near]).astype(dtype)
    cases = [(s.igamma, (a, x)), (s.igammac, (a, x)), (s.igamma_grad_a, (a[:40], x[:40]))]
    cases.append((s.random_gamma_grad, (a[:40], x[:40])))
    with override("enable_x64", True):
        (lower,), (upper,), (slope,), (sample,) = run_compiled(cases, runtime)
    pairs = list(zip(a.tolist(), x.tolist(), strict=True))
    with mpmath.workdps(40):
        below = [mpmath.gammainc(p, 0, q, regularized=True) for p, q in pairs]
        above = [mpmath.gammainc(p, q, mpmath.inf, regularized=True) for p, q in pairs]
        step = mpmath.mpf(10) ** -12
        slopes, samples = [], []
        for p, q in pairs[:40]:
            ends = [mpmath.gammainc(p + e, 0, q, regularized=True) for e in (-step, step)]
            rate = (ends[1] - ends[0]) / (2 * step)
            density = mpmath.exp((p - 1) * mpmath.log(q) - q) / mpmath.gamma(p)
            slopes.append(float(rate))
            samples.append(float(-rate / density))
    _relative(lower, [float(v) for v in below], bound, "igamma")
    _relative(upper, [float(v) for v in above], bound, "igammac")
    _relative(slope, slopes, bound, "igamma_grad_a")
    _relative(sample, samples, bound, "random_gamma_grad")


@pytest.mark.parametrize("runner", ["compiled", "reference"])
def test_upper_incomplete_gamma_of_small_arguments_does_not_cancel(
    runner: str, runtime: str
) -> None:
    a, x = np.array([1e-30, 1e-10, 0.01, 0.3]), np.array([0.5, 1e-3, 1.05, 0.01])
    with override("enable_x64", True):
        cases = [(s.igammac, (a, x))]
        ((found,),) = run_compiled(cases, runtime) if runner == "compiled" else run_reference(cases)
    with mpmath.workdps(80):
        exact = [
            float(mpmath.gammainc(p, q, mpmath.inf, regularized=True))
            for p, q in zip(a.tolist(), x.tolist(), strict=True)
        ]
    _relative(found, exact, 1e-13, "igammac")


@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-5), ("float64", 2e-13)])
def test_incomplete_beta_function(dtype: str, bound: float, runtime: str) -> None:
    rng = np.random.default_rng(6)
    a, b = rng.uniform(0.1, 20, (2, 50)).astype(dtype)
    x = rng.uniform(0.02, 0.98, 50).astype(dtype)
    with override("enable_x64", True):
        ((found,),) = run_compiled([(s.betainc, (a, b, x))], runtime)
    rows = zip(a.tolist(), b.tolist(), x.tolist(), strict=True)
    with mpmath.workdps(40):
        exact = [float(mpmath.betainc(p, q, 0, z, regularized=True)) for p, q, z in rows]
    _relative(found, exact, bound, "betainc")


@pytest.mark.parametrize(("dtype", "bound"), [("float32", 4e-6), ("float64", 8e-15)])
def test_zeta_and_polygamma(dtype: str, bound: float, runtime: str) -> None:
    rng = np.random.default_rng(8)
    power, start = rng.uniform(1.01, 15, 30).astype(dtype), rng.uniform(0.1, 30, 30).astype(dtype)
    order = rng.integers(1, 9, 40).astype(dtype)
    x = np.concatenate([rng.uniform(0.3, 20, 20), -rng.uniform(0.2, 0.8, 20)]).astype(dtype)
    x[20:] -= np.arange(20).astype(dtype) % 4
    with override("enable_x64", True):
        cases = [(s.zeta, (power, start)), (s.polygamma, (order, x))]
        (sums,), (derivatives,) = run_compiled(cases, runtime)
    _relative(sums, [float(v) for v in exact_values_of(mpmath.zeta, power, start)], bound, "zeta")
    exact = exact_values_of(lambda m, v: mpmath.polygamma(int(m), v), order, x)
    _relative(derivatives, [float(v) for v in exact], 8 * bound, "polygamma")


def exact_values_of(function: Callable[..., Any], *operands: NdArray) -> list[Any]:
    """As `exact_values`, with 60 digits, which suffice where no argument is huge."""
    with mpmath.workdps(60):
        rows = zip(*(a.astype(np.float64).tolist() for a in operands), strict=True)
        return [function(*(mpmath.mpf(v) for v in row)) for row in rows]


_BORDERS = [
    (s.erf, (_INF,), 1.0),
    (s.erf, (-_INF,), -1.0),
    (s.erfc, (_INF,), 0.0),
    (s.erfc, (-_INF,), 2.0),
    (s.erf_inv, (1.0,), _INF),
    (s.erf_inv, (-1.0,), -_INF),
    (s.erf_inv, (1.5,), _NAN),
    (s.lgamma, (0.0,), _INF),
    (s.lgamma, (-3.0,), _INF),
    (s.lgamma, (_INF,), _INF),
    (s.lgamma, (-_INF,), _INF),
    (s.lgamma, (1.0,), 0.0),
    (s.lgamma, (2.0,), 0.0),
    (s.digamma, (0.0,), -_INF),
    (s.digamma, (-0.0,), _INF),
    (s.digamma, (-2.0,), _NAN),
    (s.digamma, (_INF,), _INF),
    (s.bessel_i0e, (0.0,), 1.0),
    (s.bessel_i0e, (_INF,), 0.0),
    (s.bessel_i1e, (0.0,), 0.0),
    (s.zeta, (1.0, 2.0), _INF),
    (s.zeta, (0.5, 2.0), _NAN),
    (s.zeta, (2.0, 0.0), _INF),
    (s.zeta, (2.0, -1.0), _INF),
    (s.zeta, (2.5, -0.5), _NAN),
    (s.polygamma, (1.0, -1.0), _INF),
    (s.polygamma, (1.5, 1.0), _NAN),
    (s.polygamma, (-1.0, 1.0), _NAN),
    (s.igamma, (2.0, 0.0), 0.0),
    (s.igamma, (2.0, _INF), 1.0),
    (s.igamma, (0.0, 1.0), 1.0),
    (s.igamma, (0.0, 0.0), _NAN),
    (s.igamma, (_INF, 1.0), 0.0),
    (s.igamma, (-1.0, 1.0), _NAN),
    (s.igamma, (1.0, -1.0), _NAN),
    (s.igammac, (2.0, 0.0), 1.0),
    (s.igammac, (2.0, _INF), 0.0),
    (s.betainc, (1.0, 2.0, 0.0), 0.0),
    (s.betainc, (1.0, 2.0, 1.0), 1.0),
    (s.betainc, (0.0, 2.0, 0.5), 1.0),
    (s.betainc, (2.0, 0.0, 0.5), 0.0),
    (s.betainc, (0.0, 0.0, 0.5), _NAN),
    (s.betainc, (1.0, 2.0, 1.5), _NAN),
    (s.betainc, (-1.0, 2.0, 0.5), _NAN),
    (s.random_gamma_grad, (2.0, 0.0), 0.0),
    (s.igamma_grad_a, (2.0, -1.0), _NAN),
]


@pytest.mark.parametrize("runner", ["compiled", "reference"])
def test_borders_of_the_domains(runner: str, runtime: str) -> None:
    cases = [
        (function, tuple(np.array([v], np.float32) for v in arguments))
        for function, arguments, _ in _BORDERS
    ]
    results = run_compiled(cases, runtime) if runner == "compiled" else run_reference(cases)
    for (function, arguments, wanted), (found,) in zip(_BORDERS, results, strict=True):
        name = getattr(function, "__name__", "")
        np.testing.assert_array_equal(found, [np.float32(wanted)], err_msg=f"{name}{arguments}")


@pytest.mark.parametrize(
    ("function", "arity"), [(s.erf, 1), (s.lgamma, 1), (s.igamma, 2), (s.zeta, 2), (s.betainc, 3)]
)
def test_other_dtypes_are_refused(function: Callable[..., Any], arity: int) -> None:
    with pytest.raises(TypeError, match="does not accept dtype int32"):
        function(*([np.ones(2, np.int32)] * arity))
    with pytest.raises(TypeError, match="does not accept dtype complex64"):
        function(*([np.ones(2, np.complex64)] * arity))


def test_operands_of_two_dtypes_are_refused() -> None:
    with pytest.raises(TypeError, match="requires arguments to have the same dtypes"):
        s.igamma(np.ones(2, np.float32), np.ones(2, np.float16))
