"""Derivatives of arithmetic at ties, kinks and poles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import xpr
from xpr import lax


@pytest.mark.parametrize(
    ("function", "operands", "expected"),
    [
        (lax.max, (1.0, 1.0), (0.5, 0.5)),
        (lax.min, (1.0, 1.0), (0.5, 0.5)),
        (lax.max, (2.0, 1.0), (1.0, 0.0)),
        (lax.min, (2.0, 1.0), (0.0, 1.0)),
        (lax.max, (math.nan, 1.0), (0.0, 0.0)),
        (lax.div, (1.0, 0.0), (math.inf, -math.inf)),
        (lax.rem, (-7.0, 2.0), (1.0, 3.0)),
        (lax.rem, (7.0, -2.5), (1.0, 2.0)),
        (lax.abs, (0.0,), (1.0,)),
        (lax.abs, (-0.0,), (1.0,)),
        (lax.abs, (-2.0,), (-1.0,)),
        (lax.sign, (2.0,), (0.0,)),
    ],
)
def test_real(function: Any, operands: Sequence[float], expected: Sequence[float]) -> None:
    found = xpr.grad(function, tuple(range(len(operands))))(*operands)
    assert [float(x) for x in found] == list(expected)
    assert all(x.weak_type for x in found)


def test_modulus_and_direction_of_complex_numbers() -> None:
    assert complex(xpr.grad(lax.abs)(0j)) == 0
    np.testing.assert_allclose(complex(xpr.grad(lax.abs)(3 + 4j)), 0.6 - 0.8j, rtol=1e-6)
    # Only the part of the tangent across the number turns its direction.
    out, along = xpr.jvp(lax.sign, (3 + 4j,), (3 + 4j,))
    _, across = xpr.jvp(lax.sign, (3 + 4j,), (-4 + 3j,))
    np.testing.assert_allclose(complex(out), 0.6 + 0.8j, rtol=1e-6)
    assert abs(complex(along)) < 1e-6
    np.testing.assert_allclose(complex(across), (-4 + 3j) / 5, rtol=1e-6)
    assert complex(xpr.jvp(lax.sign, (0j,), (1j,))[1]) == 0


def test_neighbours_have_no_derivative() -> None:
    with pytest.raises(NotImplementedError, match="neighbouring number"):
        xpr.grad(lax.nextafter)(1.0, 2.0)
