"""Derivatives of elementary functions at the ends of their domains and on their branches."""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import xpr
from xpr import lax

_INF, _NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("name", "at"),
    [
        # At 0, 1 and -1.
        ("log", (_INF, 1.0, -1.0)),
        ("log1p", (1.0, 0.5, _INF)),
        ("asin", (1.0, _INF, _INF)),
        ("acos", (-1.0, -_INF, -_INF)),
        ("acosh", (_NAN, _INF, _NAN)),
        ("atanh", (1.0, _INF, _INF)),
        ("asinh", (1.0, math.sqrt(0.5), math.sqrt(0.5))),
        ("logistic", (0.25, 0.19661193, 0.19661193)),
        ("tanh", (1.0, 0.41997434, 0.41997434)),
    ],
)
def test_real(name: str, at: Sequence[float]) -> None:
    slope = xpr.grad(getattr(lax, name))
    found = [slope(x) for x in (0.0, 1.0, -1.0)]
    np.testing.assert_allclose([float(v) for v in found], at, rtol=1e-6)
    assert all(v.weak_type for v in found)


def test_atan2() -> None:
    by_x, by_y = xpr.grad(lax.atan2, (0, 1))(0.0, 2.0)
    assert (float(by_x), float(by_y)) == (0.5, 0.0)
    assert all(math.isnan(v) for v in xpr.grad(lax.atan2, (0, 1))(0.0, 0.0))


@pytest.mark.parametrize("z", [-0.7 + 0.4j, -2.0 - 0.3j, 0.3 - 2.0j, 1.5 + 0.1j])
@pytest.mark.parametrize("name", ["acosh", "asinh", "atanh", "acos", "asin", "atan", "log", "sqrt"])
def test_branches(name: str, z: complex) -> None:
    function: Any = getattr(cmath, name)
    expected = (function(z + 1e-6) - function(z - 1e-6)) / 2e-6
    found = complex(xpr.grad(getattr(lax, name), holomorphic=True)(z))
    assert abs(found - expected) < 1e-5 * abs(expected)


def test_highest_accuracy_reaches_the_tails() -> None:
    highest = lax.AccuracyMode.HIGHEST
    for function, x, expected in (
        (lax.tanh, 9.0, 4 * math.exp(-18)),
        (lax.logistic, 20.0, math.exp(-20)),
        (lax.expm1, -20.0, math.exp(-20)),
    ):
        slope = xpr.grad(lambda x, f=function: f(x, accuracy=highest))(x)
        np.testing.assert_allclose(float(slope), expected, rtol=1e-5)


def test_accuracy_goes_on_to_derivatives() -> None:
    highest = lax.AccuracyMode.HIGHEST
    program = xpr.make_jaxpr(xpr.grad(lambda x: lax.sin(x, accuracy=highest)))(1.0)
    assert program.jaxpr.eqns[0].primitive.name == "cos"
    assert program.jaxpr.eqns[0].params == {"accuracy": highest}
