"""Elementary functions against mpmath, in ulp, over their whole ranges; special values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from tests.harness import run_compiled, run_reference
from tests.primitives.ulp import NdArray, assert_within, exact_values
from xpr.core.config import override
from xpr.primitives import elementary as f
from xpr.primitives import elementwise as e
from xpr.primitives import power as p

_DTYPES = ("float32", "float64")


def _logistic(x: Any) -> Any:
    return 1 / (1 + mpmath.exp(-x))


# The exact function, the largest error allowed in ulp, and where to look: (low, high) for numbers
# spread evenly, or with "log" for sizes spread evenly on a logarithmic scale, of both signs.
_FUNCTIONS: dict[str, tuple[Callable[..., Any], float, list[tuple[Any, ...]]]] = {
    "exp": (mpmath.exp, 1.0, [(-87, 88), (-1, 1), ("log", -30, 0)]),
    "exp2": (lambda x: mpmath.power(2, x), 1.1, [(-126, 127), ("log", -30, 0)]),
    "expm1": (mpmath.expm1, 1.8, [(-5, 88), (-1, 1), ("log", -30, 0)]),
    "log": (mpmath.log, 1.0, [(0.5, 2), ("log+", -37, 38)]),
    "log1p": (mpmath.log1p, 2.0, [(-0.9, 2), ("log+", -30, 30)]),
    "logistic": (_logistic, 2.5, [(-80, 80), (-1, 1), ("log", -30, 0)]),
    "sin": (mpmath.sin, 2.8, [(-10, 10), ("log", -30, 38)]),
    "cos": (mpmath.cos, 2.8, [(-10, 10), ("log", -30, 38)]),
    "tan": (mpmath.tan, 4.5, [(-10, 10), ("log", -30, 38)]),
    "asin": (mpmath.asin, 1.8, [(-1, 1), ("log", -30, -1)]),
    "acos": (mpmath.acos, 1.5, [(-1, 1), ("log", -30, -1)]),
    "atan": (mpmath.atan, 2.2, [(-3, 3), ("log", -30, 38)]),
    "sinh": (mpmath.sinh, 2.8, [(-88, 88), (-1, 1), ("log", -30, 0)]),
    "cosh": (mpmath.cosh, 2.8, [(-88, 88), (-1, 1)]),
    "tanh": (mpmath.tanh, 4.5, [(-10, 10), ("log", -30, 1)]),
    "asinh": (mpmath.asinh, 2.0, [(-3, 3), ("log", -30, 38)]),
    "acosh": (mpmath.acosh, 2.8, [(1, 3), (1, 1.001), (1, 1e30)]),
    "atanh": (mpmath.atanh, 2.4, [(-1, 1), ("log", -30, -1)]),
    "sqrt": (mpmath.sqrt, 0.5, [("log+", -37, 38)]),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), 1.6, [("log+", -37, 38)]),
    "cbrt": (lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), 1.0, [("log", -37, 38)]),
}


def _points(rng: np.random.Generator, dtype: str, ranges: list[tuple[Any, ...]]) -> NdArray:
    pieces = []
    for low, high, *rest in ranges:
        if isinstance(low, str):
            sizes = 10.0 ** rng.uniform(high, rest[0], 40)
            pieces.append(sizes if low == "log+" else sizes * rng.choice([-1.0, 1.0], 40))
        else:
            pieces.append(rng.uniform(low, high, 40))
    return np.concatenate(pieces).astype(dtype)


@pytest.mark.parametrize("dtype", _DTYPES)
def test_within_a_few_ulp(dtype: str, runtime: str) -> None:
    rng = np.random.default_rng(7)
    cases = []
    for name, (_, _, ranges) in _FUNCTIONS.items():
        function = getattr(f, name, None) or getattr(p, name, None) or getattr(e, name)
        cases.append((function, (_points(rng, dtype, ranges),)))
    with override("enable_x64", True):
        compiled, reference = run_compiled(cases, runtime), run_reference(cases)
    rows = zip(_FUNCTIONS.items(), cases, compiled, reference, strict=True)
    for (name, (function, bound, _)), (_, operands), found, expected in rows:
        exact = exact_values(function, *operands)
        assert_within(found[0], exact, bound, operands, f"compiled {dtype} {name}")
        assert_within(expected[0], exact, max(bound, 4.0), operands, f"reference {dtype} {name}")


@pytest.mark.parametrize("dtype", _DTYPES)
def test_trigonometric_functions_reduce_any_argument(dtype: str, runtime: str) -> None:
    """Powers of two, multiples of pi / 2, and the arguments closest to one of them."""
    # The worst cases of the reduction: 16367173 2**72 (float32), 6381956970095103 2**797 (float64).
    hardest = 16367173 * 2.0**72 if dtype == "float32" else 6381956970095103 * 2.0**797
    top = 127 if dtype == "float32" else 1023
    values = np.concatenate(
        [
            2.0 ** np.arange(-20, top, 7),
            np.arange(1, 60) * (np.pi / 2),
            np.array([1e5, 1e10, 1e15, 1e22, 3e30, 1e38, hardest, np.finfo(dtype).max]),
            np.array([np.nextafter(np.pi / 4, 0), np.pi / 4, 1.0, np.nextafter(1.0, 0)]),
        ]
    ).astype(dtype)
    x = np.concatenate([values, -values])
    cases = [(f.sin, (x,)), (f.cos, (x,)), (f.tan, (x,))]
    with override("enable_x64", True):
        found = run_compiled(cases, runtime)
    for (result,), function, bound in zip(
        found, (mpmath.sin, mpmath.cos, mpmath.tan), (2.8, 2.8, 4.5), strict=True
    ):
        assert_within(result, exact_values(function, x), bound, (x,), function.__name__)


@pytest.mark.parametrize("dtype", _DTYPES)
def test_trigonometric_functions_of_infinities_and_nan_are_nan(dtype: str, runtime: str) -> None:
    x = np.array([np.inf, -np.inf, np.nan], dtype)
    with override("enable_x64", True):
        found = run_compiled([(f.sin, (x,)), (f.cos, (x,)), (f.tan, (x,))], runtime)
    assert all(np.isnan(r).all() for (r,) in found)


@pytest.mark.parametrize("dtype", _DTYPES)
def test_pow_within_an_ulp_or_two(dtype: str, runtime: str) -> None:
    rng = np.random.default_rng(11)
    largest = 38 if dtype == "float32" else 300
    x = np.concatenate(
        [
            10.0 ** rng.uniform(-largest, largest, 60),
            rng.uniform(0, 3, 60),
            1 + rng.normal(0, 1e-4, 60),
        ]
    ).astype(dtype)
    y = np.concatenate(
        [rng.uniform(-1, 1, 60), rng.uniform(-60, 60, 60), rng.uniform(-1e5, 1e5, 60)]
    ).astype(dtype)
    a, b = np.abs(x[::-1]).copy(), x.copy()
    cases = [(p.pow, (x, y)), (f.atan2, (b, a)), (f.atan2, (-b, -a))]
    with override("enable_x64", True):
        found = run_compiled(cases, runtime)
    assert_within(found[0][0], exact_values(mpmath.power, x, y), 1.5, (x, y), "pow")
    assert_within(found[1][0], exact_values(mpmath.atan2, b, a), 2.5, (b, a), "atan2")
    assert_within(found[2][0], exact_values(mpmath.atan2, -b, -a), 2.5, (-b, -a), "atan2")


# IEEE 754-2019, section 9.2.1.
_INF, _NAN = math.inf, math.nan
_POW = [
    ((_NAN, 0.0), 1.0),
    ((_NAN, -0.0), 1.0),
    ((_INF, 0.0), 1.0),
    ((0.0, 0.0), 1.0),
    ((1.0, _NAN), 1.0),
    ((1.0, -_INF), 1.0),
    ((_NAN, 1.0), _NAN),
    ((2.0, _NAN), _NAN),
    ((0.0, -3.0), _INF),
    ((-0.0, -3.0), -_INF),
    ((-0.0, -2.0), _INF),
    ((-0.0, -2.5), _INF),
    ((0.0, -_INF), _INF),
    ((-0.0, 3.0), -0.0),
    ((-0.0, 2.0), 0.0),
    ((0.0, 2.5), 0.0),
    ((-1.0, _INF), 1.0),
    ((-1.0, -_INF), 1.0),
    ((0.5, _INF), 0.0),
    ((-0.5, _INF), 0.0),
    ((0.5, -_INF), _INF),
    ((2.0, _INF), _INF),
    ((-2.0, _INF), _INF),
    ((2.0, -_INF), 0.0),
    ((_INF, 0.5), _INF),
    ((_INF, -0.5), 0.0),
    ((-_INF, 3.0), -_INF),
    ((-_INF, 2.0), _INF),
    ((-_INF, 2.5), _INF),
    ((-_INF, -3.0), -0.0),
    ((-_INF, -2.0), 0.0),
    ((-2.0, 3.0), -8.0),
    ((-2.0, -2.0), 0.25),
    ((-2.0, 0.5), _NAN),
    ((-8.0, 1 / 3), _NAN),
]


@pytest.mark.parametrize("dtype", ["float16", *_DTYPES])
def test_pow_of_special_values_follows_ieee_754(dtype: str, runtime: str) -> None:
    x, y = (np.array([v[0][i] for v in _POW], dtype) for i in (0, 1))
    expected = np.array([v[1] for v in _POW], dtype)
    with override("enable_x64", True):
        for run in (lambda c: run_compiled(c, runtime), run_reference):
            ((found,),) = run([(p.pow, (x, y))])
            np.testing.assert_array_equal(found, expected)
            np.testing.assert_array_equal(np.signbit(found)[:-2], np.signbit(expected)[:-2])


def test_pow_takes_the_parity_of_great_integers_from_the_integer(runtime: str) -> None:
    """2**24 + 1 is odd, but even as a float32."""
    exponent = np.array([2**24, 2**24 + 1, -(2**24) - 1, 2**31 - 1], np.int32)
    base = np.full(4, -1.0, np.float32)
    ((found,),) = run_compiled([(p.pow, (base, exponent))], runtime)
    np.testing.assert_array_equal(found, [1.0, -1.0, -1.0, -1.0])


def test_sixteen_bit_floats_are_rounded_once(runtime: str) -> None:
    """The result is the float16 next to the exact value, for numbers of all sizes."""
    x = np.arange(1, 0x7C00, 7, dtype=np.uint16).view(np.float16)
    cases = [(function, (x,)) for function in (f.exp, f.log, f.sin, f.tanh, f.atan, p.cbrt)]
    found = run_compiled(cases, runtime)
    oracles = (np.exp, np.log, np.sin, np.tanh, np.arctan, np.cbrt)
    for (result,), oracle in zip(found, oracles, strict=True):
        with np.errstate(over="ignore"):
            wanted = oracle(x.astype(np.float64)).astype(np.float16)
        different = result.view(np.int16).astype(int) - wanted.view(np.int16)
        # float32 results within 2 ulp round to a neighbour only where they straddle a half.
        assert np.abs(different).max() <= 1
        assert np.count_nonzero(different) <= 0.002 * x.size


def test_denormals_count_as_zero_in_compiled_programs(runtime: str) -> None:
    """Results are those for the number itself or those for 0, never anything else."""
    x = np.array([1e-40, -1e-40, 1e-45, 5e-39], np.float32)
    zero = np.copysign(np.float32(0), x)
    functions = (f.exp, f.sin, f.tan, f.expm1, f.log1p, f.asinh, f.tanh, p.sqrt, f.atan, p.cbrt)
    found = run_compiled([(function, (x,)) for function in functions], runtime)
    exact = run_reference([(function, (x,)) for function in functions])
    flushed = run_reference([(function, (zero,)) for function in functions])
    for (a,), (b,), (c,) in zip(found, exact, flushed, strict=True):
        close = np.isclose(a, b, rtol=1e-6, atol=0, equal_nan=True)
        assert np.all(close | (a == c) | (np.isnan(a) & np.isnan(c)))
