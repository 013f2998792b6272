"""Complex elementary functions: accuracy against mpmath, special values against `cmath`."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from tests.harness import run_compiled, run_reference
from xpr.core.config import override
from xpr.primitives import elementary as f
from xpr.primitives import elementwise as e
from xpr.primitives import power as p

_DTYPES = ("complex64", "complex128")


def _sign(z: Any) -> Any:
    return z / abs(z)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sqrt": mpmath.sqrt,
    "rsqrt": lambda z: 1 / mpmath.sqrt(z),
    "exp": mpmath.exp,
    "exp2": lambda z: mpmath.power(2, z),
    "expm1": lambda z: mpmath.exp(z) - 1,
    "log": mpmath.log,
    "log1p": lambda z: mpmath.log(1 + z),
    "logistic": lambda z: 1 / (1 + mpmath.exp(-z)),
    "sign": _sign,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "tanh": mpmath.tanh,
    "asin": mpmath.asin,
    "acos": mpmath.acos,
    "atan": mpmath.atan,
    "asinh": mpmath.asinh,
    "acosh": mpmath.acosh,
    "atanh": mpmath.atanh,
}


def _function(name: str) -> Callable[..., Any]:
    return getattr(f, name, None) or getattr(p, name, None) or getattr(e, name)


def _complex(re: Any, im: Any, dtype: str) -> np.ndarray[Any, Any]:
    out = np.empty(np.shape(re), dtype)
    out.real, out.imag = re, im
    return out


def _points(rng: np.random.Generator, dtype: str) -> np.ndarray[Any, Any]:
    """All over the plane, of all sizes, near 1, near i and near the axes."""
    n = 25
    signs = rng.choice([-1.0, 1.0], (4, n))
    large, small = 10.0 ** rng.uniform(-20, 15, (2, n)), 10.0 ** rng.uniform(-12, -3, (2, n))
    one = 1 + rng.uniform(-1e-4, 1e-4, (2, n))
    parts = [
        (rng.uniform(-3, 3, n), rng.uniform(-3, 3, n)),
        (large[0] * signs[0], large[1] * signs[1]),
        (one[0] * signs[2], small[0] * signs[3]),
        (small[1], one[1]),
        (rng.uniform(-3, 3, n), small[0]),
    ]
    re, im = (np.concatenate(p) for p in zip(*parts, strict=True))
    return _complex(re, im, dtype)


@pytest.mark.parametrize("dtype", _DTYPES)
def test_within_a_few_ulp_of_the_modulus(dtype: str, runtime: str) -> None:
    z = _points(np.random.default_rng(3), dtype)
    cases = [(_function(name), (z,)) for name in _FUNCTIONS]
    with override("enable_x64", True):
        compiled = run_compiled(cases, runtime)
    info = np.finfo(dtype)
    for (name, function), (found,) in zip(_FUNCTIONS.items(), compiled, strict=True):
        for x, value in zip(z.tolist(), found.tolist(), strict=True):
            if name == "exp2" and abs(x) > 4:
                continue  # the product with log(2) is rounded, which a great exponent magnifies
            with mpmath.workdps(120):
                want = function(mpmath.mpc(x))
                if not float(info.tiny) * 1e3 < abs(want) < float(info.max) / 2:
                    continue
                error = float(abs(mpmath.mpc(value) - want) / abs(want) / float(info.eps))
            assert error <= 6.0, f"{name}({x}) is {value}, {error} ulp from {complex(want)}"


@pytest.mark.parametrize("dtype", _DTYPES)
def test_both_parts_are_accurate(dtype: str, runtime: str) -> None:
    """The smaller part too, for the functions whose parts do not cancel."""
    names = ("sqrt", "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos")
    names += ("atan", "asinh", "acosh", "atanh", "log1p")
    z = _points(np.random.default_rng(4), dtype)
    with override("enable_x64", True):
        compiled = run_compiled([(_function(n), (z,)) for n in names], runtime)
    info = np.finfo(dtype)
    for name, (found,) in zip(names, compiled, strict=True):
        for x, value in zip(z.tolist(), found.tolist(), strict=True):
            with mpmath.workdps(120):
                want = _FUNCTIONS[name](mpmath.mpc(x))
                for a, b in ((value.real, want.real), (value.imag, want.imag)):
                    if float(info.tiny) * 1e3 < abs(b) < float(info.max) / 2:
                        error = float(abs(mpmath.mpf(a) - b) / abs(b) / float(info.eps))
                        assert error <= 6.0, f"{name}({x}) is {value}, not {complex(want)}"


_SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.0, math.inf, -math.inf, math.nan)
# C leaves these results' signs open, and sets which are computed differently here.
_OPEN_SIGN = ("sin", "sinh", "asinh", "asin", "acos", "cosh", "cos", "tan", "tanh", "sqrt", "exp")


@pytest.mark.parametrize("runner", ["compiled", "reference"])
@pytest.mark.parametrize("dtype", _DTYPES)
def test_special_values_follow_c99(dtype: str, runner: str, runtime: str) -> None:
    """Python's cmath has the tables of C99, Annex G."""
    grid = [complex(re, im) for re in _SPECIAL for im in _SPECIAL]
    z = _complex([v.real for v in grid], [v.imag for v in grid], dtype)
    names = ("sqrt", "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos")
    names += ("atan", "asinh", "acosh", "atanh")
    cases = [(_function(n), (z,)) for n in names]
    with override("enable_x64", True):
        results = run_compiled(cases, runtime) if runner == "compiled" else run_reference(cases)
    for name, (found,) in zip(names, results, strict=True):
        for x, value in zip(grid, found.tolist(), strict=True):
            try:
                want = getattr(cmath, name)(x)
            except (ValueError, OverflowError):
                continue  # a pole or an invalid operation, which cmath signals by exceptions
            finite = math.isfinite(x.real) and math.isfinite(x.imag)
            for a, b in ((value.real, want.real), (value.imag, want.imag)):
                if math.isnan(b):
                    # C17 gives parts that do not depend on the NaN, where C99 had NaN.
                    if name in ("tan", "tanh") and a == 0:
                        continue
                    if name == "acosh" and a == pytest.approx(math.pi / 2):
                        continue
                    assert math.isnan(a), f"{name}({x}) is {value}, not {want}"
                    continue
                assert a == pytest.approx(b, rel=2e-6, abs=0) or (
                    not finite and name in _OPEN_SIGN and abs(a) == abs(b)
                ), f"{name}({x}) is {value}, not {want}"
                if finite:
                    same = math.copysign(1, a) == math.copysign(1, b)
                    assert same, f"{name}({x}) is {value}, not {want}: sign of zero"


@pytest.mark.parametrize("runner", ["compiled", "reference"])
def test_division_recovers_infinities_and_zeros(runner: str, runtime: str) -> None:
    inf = math.inf
    table = [
        (1 + 1j, 0j, complex(inf, inf)),
        (1 + 1j, complex(inf, 0), 0j),
        (complex(inf, 0), 1 + 1j, complex(inf, -inf)),
        (complex(inf, inf), 1 + 0j, complex(inf, inf)),
        (1 + 0j, complex(inf, inf), 0j),
        (1e300 + 1e300j, 1e300 + 1e300j, 1 + 0j),
        (1e-300 + 1e-300j, 1e-300 + 1e-300j, 1 + 0j),
        (1e300 + 0j, 1e-5 + 1e-5j, complex(5e304, -5e304)),
    ]
    x, y = (np.array([row[i] for row in table]) for i in (0, 1))
    with override("enable_x64", True):
        cases = [(e.div, (x, y))]
        ((found,),) = run_compiled(cases, runtime) if runner == "compiled" else run_reference(cases)
    for (a, b, want), value in zip(table, found.tolist(), strict=True):
        for part, other in ((value.real, want.real), (value.imag, want.imag)):
            assert part == other or part == pytest.approx(other, rel=1e-14), (
                f"{a} / {b} is {value}, not {want}"
            )


def test_modulus_does_not_overflow(runtime: str) -> None:
    z = np.array([3e38 + 1e38j, 3e-38 + 4e-38j, complex(math.inf, math.nan), 3 + 4j], np.complex64)
    ((found,),) = run_compiled([(e.abs, (z,))], runtime)
    np.testing.assert_allclose(found, [3.1622777e38, 5e-38, math.inf, 5.0], rtol=1e-6)


@pytest.mark.parametrize("runner", ["compiled", "reference"])
def test_extremes_of_complex_numbers_are_lexicographic(runner: str, runtime: str) -> None:
    nan = math.nan
    x = np.array([1 + 2j, 1 + 2j, complex(nan, 0), 5 + 0j, complex(0, nan)], np.complex64)
    y = np.array([1 + 1j, 2 - 9j, 1 + 0j, complex(0, nan), complex(nan, 1)], np.complex64)
    cases = [(e.max, (x, y)), (e.min, (x, y))]
    (high,), (low,) = run_compiled(cases, runtime) if runner == "compiled" else run_reference(cases)
    np.testing.assert_array_equal(high[:2], [1 + 2j, 2 - 9j])
    np.testing.assert_array_equal(low[:2], [1 + 1j, 1 + 2j])
    assert np.isnan(high[2:]).all()
    assert np.isnan(low[2:]).all()


def test_powers_of_zero(runtime: str) -> None:
    x = np.zeros(4, np.complex64)
    y = np.array([0, 2, 1 + 1j, -1], np.complex64)
    ((found,),) = run_compiled([(p.pow, (x, y))], runtime)
    np.testing.assert_array_equal(found[:3], [1, 0, 0])
    assert np.isnan(found[3])
