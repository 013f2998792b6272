"""Derivatives of powers and roots where they are singular."""

from __future__ import annotations

import math

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax

_INF, _NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("x", "y", "by_base", "by_exponent"),
    [
        (0.0, 0.0, _NAN, 0.0),
        (0.0, 0.5, _INF, 0.0),
        (0.0, 1.0, 1.0, 0.0),
        (0.0, 2.0, 0.0, 0.0),
        (0.0, -1.0, -_INF, _NAN),
        (1.0, 0.0, 0.0, 0.0),
        (-2.0, 2.0, -4.0, _NAN),
        (-2.0, 0.0, 0.0, _NAN),
    ],
)
def test_pow(x: float, y: float, by_base: float, by_exponent: float) -> None:
    found = xpr.grad(lax.pow, (0, 1))(x, y)
    np.testing.assert_array_equal([float(v) for v in found], [by_base, by_exponent])
    assert all(v.weak_type for v in found)


@pytest.mark.parametrize("kind", [jnp.int32, jnp.uint8])
def test_pow_to_integers_at_zero_to_every_order(kind: type) -> None:
    for y in range(5):
        slope = lambda x, y=y: lax.pow(x, kind(y))  # noqa: E731
        for order in range(1, 5):
            slope = xpr.grad(slope)
            expected = math.factorial(y) if order == y else 0.0
            assert float(slope(0.0)) == expected, (y, order)


def test_pow_to_negative_integers() -> None:
    slope = xpr.grad(lax.pow)
    assert float(slope(0.0, jnp.int32(-1))) == -_INF
    assert float(slope(-2.0, jnp.int32(3))) == 12.0
    # The parity of an exponent that float32 cannot hold.
    assert float(slope(-1.0, jnp.int32(2**24 + 1))) == 2.0**24


def test_complex_pow_at_zero() -> None:
    by_base, by_exponent = xpr.grad(lax.pow, (0, 1), holomorphic=True)(0j, 1 + 0j)
    assert (complex(by_base), complex(by_exponent)) == (1.0, 0.0)


@pytest.mark.parametrize("x", [0.0, -1.0])
@pytest.mark.parametrize("y", [0, 1, 2, 3, -1])
def test_integer_pow(x: float, y: int) -> None:
    with np.errstate(all="ignore"):
        expected = y * float(np.float64(x) ** (y - 1)) if y else 0.0
    assert float(xpr.grad(lambda x: lax.integer_pow(x, y))(x)) == expected


def test_low_powers_make_no_powers() -> None:
    for y in (0, 1, 2):
        program = xpr.make_jaxpr(xpr.grad(lambda x, y=y: lax.integer_pow(x, y)))(1.0)
        assert "pow" not in str(program)


@pytest.mark.parametrize(
    ("name", "at_zero", "at_minus_one"),
    [("sqrt", _INF, _NAN), ("rsqrt", -_INF, _NAN), ("cbrt", _INF, 1 / 3), ("square", 0.0, -2.0)],
)
def test_roots(name: str, at_zero: float, at_minus_one: float) -> None:
    slope = xpr.grad(getattr(lax, name))
    found = [float(slope(0.0)), float(slope(-1.0))]
    np.testing.assert_allclose(found, [at_zero, at_minus_one], rtol=1e-6)
