"""`round` to any number of decimal places, against exact decimal arithmetic."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax

NUMBERS = (
    *(0.0, -0.0, 0.5, 1.5, 2.5, -0.5, 1.25, 2.675, 1 / 3, 123.456789, 1e10 / 3, 1e-12, 1e300, 1e38),
    *(65504.0, 12345.678, -7.5, 99.995, 3.4e38, -1e-30),
)
PLACES = (-400, -40, -39, -38, -20, -5, -2, -1, 0, 1, 2, 3, 5, 7, 10, 15, 20, 38, 39, 100, 310, 400)
TYPES: dict[str, Any] = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32,
    "float64": np.float64,
}


def exact(x: float, places: int) -> float:
    """The multiple of a power of ten that is next to a number."""
    with localcontext() as context:
        context.prec = 800
        unit = Decimal(1).scaleb(-places)
        return float((Decimal(x) / unit).to_integral_value(ROUND_HALF_EVEN) * unit)


def near_a_half(x: float, places: int, eps: float) -> bool:
    """Whether the arithmetic of the type decides which of two neighbours it is, as of 2.675."""
    with localcontext() as context:
        context.prec = 800
        scaled = abs(Decimal(x).scaleb(places))
        if scaled > Decimal(10) ** 100:
            return False
        return abs(scaled % 1 - Decimal("0.5")) < Decimal(4 * eps) * max(scaled, Decimal(1))


@pytest.mark.parametrize("name", TYPES)
def test_the_result_is_the_exact_one_or_next_to_it(name: str) -> None:
    with xpr.enable_x64(True), np.errstate(over="ignore"):
        x = np.array(NUMBERS, np.float64).astype(TYPES[name])
        x = x[np.isfinite(x.astype(float))]
        eps = float(jnp.finfo("float32" if x.dtype.itemsize == 2 else name).eps)
        for places in PLACES:
            found = np.asarray(jnp.round(x, places))
            assert found.dtype == x.dtype
            for v, r in zip(x.astype(float).tolist(), found.astype(float).tolist(), strict=True):
                right = float(np.asarray(exact(v, places)).astype(TYPES[name]))
                unit = 10.0**-places if near_a_half(v, places, eps) else 0.0
                step = 2 * float(jnp.finfo(name).eps) * abs(right)
                is_right = r == right or abs(r - right) <= step + 1.01 * unit
                assert is_right, (v, places, r, right)
                assert np.signbit(r) == np.signbit(v), (v, places)


@pytest.mark.parametrize("name", TYPES)
def test_places_beyond_the_digits_change_nothing(name: str) -> None:
    with xpr.enable_x64(True), np.errstate(over="ignore"):
        x = np.array([*NUMBERS, np.inf, -np.inf, np.nan]).astype(TYPES[name])
        large = x[np.abs(x.astype(float)) > 1e-10]
        for places in (30, 38, 39, 300, 309, 400):
            np.testing.assert_array_equal(np.asarray(jnp.round(large, places)), large)


def test_numbers_whose_multiple_overflows_stay() -> None:
    """JAX makes infinities of them."""
    x = np.array([1e38, -3e38, 1e30, 65504.0], np.float32)
    for places in (1, 5, 10, 38):
        np.testing.assert_array_equal(np.asarray(jnp.round(x, places)), x)
    half = np.array([65504.0, 60000.0], np.float16)
    np.testing.assert_array_equal(np.asarray(jnp.round(half, 3)), half)


def test_of_great_powers_of_ten_nothing_is_left() -> None:
    x = np.array([1.5, -3e38, 0.0, np.inf, -np.inf, np.nan], np.float32)
    wanted = np.array([0.0, -0.0, 0.0, np.inf, -np.inf, np.nan], np.float32)
    for places in (-39, -300, -400):
        found = np.asarray(jnp.round(x, places))
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found[:3]), np.signbit(wanted[:3]))


def test_compiled_as_eager_and_without_a_slope() -> None:
    x = np.array([*NUMBERS[:10], 1e38, np.inf, np.nan], np.float32)
    places = (-40, -2, 1, 10, 20, 38)

    def program(x: Any) -> list[Any]:
        return [jnp.round(x, p) for p in places] + [jnp.round(lax.complex(x, x[::-1]), 10)]

    for p, ours, eager in zip((*places, 10), xpr.jit(program)(x), program(x), strict=True):
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(eager), err_msg=str(p))
    slope = xpr.grad(lambda x: jnp.round(x, 3).sum())(np.array([1.5, 1e30], np.float32))
    np.testing.assert_array_equal(np.asarray(slope), [0, 0])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_integers_are_their_own(dtype: str) -> None:
    x = np.array([0, 1, 99, 127], dtype)
    for places in (0, 1, 10, 400):
        np.testing.assert_array_equal(np.asarray(jnp.round(x, places)), x)
    with pytest.raises(NotImplementedError, match=r"integer np\.round not implemented"):
        jnp.round(x, -1)
