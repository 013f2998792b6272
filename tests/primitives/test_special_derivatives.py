"""Derivatives of special functions: at the ends of their domains, and where there are none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import xpr
from xpr import lax
from xpr.core.config import override
from xpr.test_util import check_grads

_INF = math.inf
_EULER = 0.5772156649015329
_ZETA3 = 1.2020569031595942


@pytest.mark.parametrize(
    ("function", "operand", "operands", "expected"),
    [
        (lax.erf, 0, (0.0,), 2 / math.sqrt(math.pi)),
        (lax.erfc, 0, (0.0,), -2 / math.sqrt(math.pi)),
        (lax.erf_inv, 0, (0.0,), math.sqrt(math.pi) / 2),
        (lax.erf_inv, 0, (1.0,), _INF),
        (lax.lgamma, 0, (1.0,), -_EULER),
        (lax.digamma, 0, (1.0,), math.pi**2 / 6),
        (lax.polygamma, 1, (1.0, 1.0), -2 * _ZETA3),
        (lax.zeta, 1, (2.0, 1.0), -2 * _ZETA3),
        # The density at 0 is 0 to the power of a - 1.
        (lax.igamma, 1, (1.0, 0.0), 1.0),
        (lax.igamma, 1, (2.0, 0.0), 0.0),
        (lax.igamma, 1, (0.5, 0.0), _INF),
        (lax.igamma, 0, (2.0, 0.0), 0.0),
        (lax.igammac, 1, (2.0, 1.0), -math.exp(-1)),
        (lax.betainc, 2, (2.0, 3.0, 0.5), 1.5),
        (lax.betainc, 2, (1.0, 1.0, 0.0), 1.0),
        (lax.betainc, 2, (1.0, 1.0, 1.0), 1.0),
        (lax.betainc, 2, (2.0, 1.0, 0.0), 0.0),
        (lax.betainc, 2, (2.0, 1.0, 1.0), 2.0),
        (lax.bessel_i0e, 0, (0.0,), 0.0),
        (lax.bessel_i0e, 0, (-1.0,), 0.25784917),
        (lax.bessel_i1e, 0, (0.0,), 0.5),
        (lax.bessel_i1e, 0, (-1.0,), 0.04993878),
        (lax.bessel_i1e, 0, (1e-4,), 0.4999),
    ],
)
def test_values(function: Any, operand: int, operands: Sequence[float], expected: float) -> None:
    found = xpr.grad(function, operand)(*operands)
    np.testing.assert_allclose(float(found), expected, rtol=2e-6, atol=1e-7)
    assert found.weak_type


def test_shape_parameters_of_the_gamma_distribution() -> None:
    with override("enable_x64", True):
        a, x = np.array([0.7, 1.0, 2.5, 9.0]), np.array([0.5, 2.0, 2.5, 7.0])
        for function in (lax.igamma, lax.igammac):
            check_grads(function, (a, x), order=1)
        # Samples keep their quantile: dx/da is minus the ratio of igamma's derivatives.
        by_a, by_x = (xpr.vmap(xpr.grad(lax.igamma, i))(a, x) for i in (0, 1))
        np.testing.assert_allclose(
            np.asarray(lax.random_gamma_grad(a, x)), np.asarray(-by_a / by_x), rtol=1e-12
        )


@pytest.mark.parametrize(
    ("function", "operand", "operands", "name"),
    [
        (lax.polygamma, 0, (1.0, 3.0), "m"),
        (lax.zeta, 0, (2.0, 3.0), "x"),
        (lax.igamma_grad_a, 0, (2.0, 3.0), "a"),
        (lax.random_gamma_grad, 0, (2.0, 3.0), "a"),
        (lax.betainc, 0, (2.0, 3.0, 0.5), "a"),
        (lax.betainc, 1, (2.0, 3.0, 0.5), "b"),
    ],
)
def test_operands_without_derivative_are_named(
    function: Any, operand: int, operands: Sequence[float], name: str
) -> None:
    with pytest.raises(NotImplementedError, match=f"with respect to {name} not implemented"):
        xpr.grad(function, operand)(*operands)
