"""Derivatives of powers and roots where they are singular."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax

_INF, _NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("x", "y", "by_base", "by_exponent"),
    [
        (0.0, 0.0, 0.0, 0.0),
        (0.0, 0.5, _INF, 0.0),
        (0.0, 1.0, 1.0, 0.0),
        (0.0, 2.0, 0.0, 0.0),
        (0.0, -1.0, -_INF, -_INF),
        (1.0, 0.0, 0.0, 0.0),
        (-2.0, 2.0, -4.0, _NAN),
        (-2.0, 0.0, 0.0, _NAN),
        (_INF, -1.0, 0.0, 0.0),
        (_INF, 0.0, 0.0, _INF),
        (0.5, 2000.0, 0.0, 0.0),
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


_POWERS = [
    ("operator", lambda x, k: x**k),
    ("power", jnp.power),
    ("pow", jnp.pow),
    ("float_power", jnp.float_power),
    ("lax.pow", lax.pow),
]


@pytest.mark.parametrize("compiled", [False, True])
def test_exponents_of_traced_arrays_at_zero(compiled: bool) -> None:
    """d/dx, d2/dx2 and d3/dx3 of x**k at 0 are those of the monomial, by each mode and function."""
    exponents = np.arange(5)
    expected = [np.where(exponents == n, math.factorial(n), 0.0) for n in (1, 2, 3)]

    def slopes(f: Any, x: Any, k: Any) -> list[Any]:
        by_row = lambda g: xpr.vmap(g, (None, 0))(x, k)  # noqa: E731
        first = xpr.grad(f)
        column = lambda x: f(xpr.numpy.full(k.shape, x), k)  # noqa: E731
        return [
            by_row(first),
            by_row(xpr.grad(first)),
            by_row(xpr.grad(xpr.grad(first))),
            xpr.jacfwd(column)(x),
            xpr.jacrev(column)(x),
            xpr.jacfwd(xpr.jacrev(column))(x),
            xpr.jvp(column, (x,), (1.0,))[1],
        ]

    def all_slopes(x: Any, *kinds: Any) -> list[Any]:
        return [slopes(f, x, k) for _, f in _POWERS for k in kinds]

    run = xpr.jit(all_slopes) if compiled else all_slopes
    kinds = [jnp.array(exponents, t) for t in ("int32", "uint8", "float32")]
    rows = iter(run(0.0, *kinds))
    a, b, c = expected
    for name, _ in _POWERS:
        for k in kinds:
            for found, want in zip(next(rows), (a, b, c, a, a, b, a), strict=True):
                np.testing.assert_array_equal(found, want, err_msg=f"{name} {k.dtype}")


def test_integer_exponents_of_floats_keep_their_dtype() -> None:
    odd = jnp.array([2**24 + 1, 2**24 + 2])
    np.testing.assert_array_equal(jnp.array(-1.0) ** odd, [-1.0, 1.0])
    np.testing.assert_array_equal(
        xpr.jit(jnp.power)(jnp.full((2, 2), -1.0), odd), [[-1.0, 1.0]] * 2
    )
    program = xpr.make_jaxpr(jnp.power)(jnp.ones((2, 2)), odd)
    assert "convert_element_type" not in str(program)


def test_slope_by_the_exponent_where_it_is_zero() -> None:
    """d/dy d/dx x**y is 1 / x at y = 0: what guards x = 0 does not touch it."""
    for x in (0.5, -4.0):
        mixed = xpr.grad(xpr.grad(lambda x, y: jnp.abs(x) ** y, 0), 1)
        assert float(mixed(x, 0.0)) == 1 / x


def test_known_exponents_need_no_guard() -> None:
    program = xpr.make_jaxpr(xpr.grad(lambda x: x**2.5))(1.0)
    assert "select" not in str(program)


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
