"""Powers whose exponents are written in the program, some of which are computed by roots."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.primitives.ulp import assert_within
from xpr import lax
from xpr.core.config import override

# The greatest error in ulp that is allowed. A root is right to half a place, which is up to one
# place of what is then multiplied or divided, and that is rounded too.
_EXPONENTS = {0.25: 0.8, 0.5: 0.5, 1 / 3: 1.3, 1.5: 1.2, -0.5: 1.5, 0.3: 1.1, -1 / 3: 1.1}


@pytest.fixture(autouse=True)
def _in_double_precision() -> Any:
    with override("enable_x64", True), override("enable_checks", True):
        yield


def _powers(x: Any) -> list[Any]:
    return [x**y for y in _EXPONENTS]


def _in_a_loop(x: Any) -> list[Any]:
    """The same in registers, where the error of a product is one operation."""
    return lax.scan(lambda c, row: (c, _powers(row)), 0, x.reshape(-1, 40))[1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_they_are_exact_to_about_one_place(dtype: str) -> None:
    span = 120 if dtype == "float32" else 1000
    x = np.exp2(np.random.default_rng(0).uniform(-span, span, 400)).astype(dtype)
    x[:4] = 1.0, 8.0, 0.125, 4.0
    for found in (xpr.jit(_powers)(x), xpr.jit(_in_a_loop)(x)):
        for (y, bound), values in zip(_EXPONENTS.items(), found, strict=True):
            exponent = mpmath.mpf(float(np.asarray(y, dtype)))
            with mpmath.workprec(150):
                exact = [mpmath.power(mpmath.mpf(float(v)), exponent) for v in x]
            assert_within(np.asarray(values).ravel(), exact, bound, (x,), f"power {y:.3g} of ")


def test_special_values_are_those_of_the_standard() -> None:
    """IEEE 754-2019, section 9.2.1; `x**0.5` is not `sqrt(x)` for -0 and -inf."""
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, -1e300, 1.0])
    up = [0.0, 0.0, np.inf, np.inf, np.nan, np.nan, np.nan, 1.0]
    down = [np.inf, np.inf, 0.0, 0.0, np.nan, np.nan, np.nan, 1.0]
    for function in (_powers, lambda x: lax.scan(lambda c, r: (c, _powers(r)), 0, x[None])[1]):
        for y, values in zip(_EXPONENTS, xpr.jit(function)(jnp.array(x)), strict=True):
            found = np.asarray(values).ravel()
            np.testing.assert_array_equal(found, up if y > 0 else down, err_msg=str(y))
            assert not np.signbit(found[found == 0.0]).any()
