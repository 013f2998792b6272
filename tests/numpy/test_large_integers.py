"""Python integers beyond the default dtype: those that an array's own dtype holds, and others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax

_LARGE = 2**32 - 1
_UPDATES = {
    "set": lambda a, v: v,
    "add": lambda a, v: a + v,
    "subtract": lambda a, v: a - v,
    "multiply": lambda a, v: a * v,
    "max": np.maximum,
    "min": np.minimum,
}
_INDICES: list[Any] = [0, slice(0, 1), np.array([0]), np.array([True, False])]


@pytest.mark.parametrize("kind", _UPDATES)
@pytest.mark.parametrize("traced", [False, True], ids=["at once", "traced"])
def test_updates_of_unsigned_integers(kind: str, traced: bool) -> None:
    start = np.array([3, 5], np.uint32)
    expected = start.copy()
    with np.errstate(over="ignore"):
        expected[0] = _UPDATES[kind](start[0], np.uint32(_LARGE))
    for index in _INDICES:

        def update(x: Any, index: Any = index) -> Any:
            return getattr(x.at[index], kind)(_LARGE)

        found = (xpr.jit(update) if traced else update)(jnp.asarray(start))
        assert found.dtype == np.uint32
        np.testing.assert_array_equal(found, expected)


def test_updates_with_64_bits() -> None:
    with xpr.enable_x64():
        x = jnp.zeros(2, jnp.uint64)
        assert int(x.at[0].set(2**64 - 1)[0]) == 2**64 - 1
        assert int(xpr.jit(lambda x: x.at[1].max(2**63))(x)[1]) == 2**63
        assert int(jnp.zeros(1, jnp.int64).at[0].add(-(2**63))[0]) == -(2**63)


def test_other_ways_to_write_a_large_integer() -> None:
    x = jnp.asarray([1, 0], jnp.uint32)
    made = [
        jnp.full(2, _LARGE, jnp.uint32)[0],
        jnp.full_like(x, _LARGE)[0],
        lax.full_like(x, _LARGE)[0],
        lax.full((2,), _LARGE, jnp.uint32)[0],
        jnp.asarray(_LARGE, jnp.uint32),
        jnp.array([_LARGE], jnp.uint32)[0],
        lax.convert_element_type(_LARGE, jnp.uint32),
        jnp.uint32(_LARGE),
    ]
    for found in made:
        assert found.dtype == np.uint32
        assert int(found) == _LARGE


@pytest.mark.parametrize("value", [2**32, -(2**31) - 1, 2**64])
def test_what_no_element_holds_is_refused(value: int) -> None:
    x = jnp.asarray([1, 0], jnp.uint32)
    calls = [
        lambda: x.at[0].set(value),
        lambda: x.at[0].add(value),
        lambda: jnp.full(2, value, jnp.uint32),
        lambda: jnp.asarray(value, jnp.uint32),
        lambda: x + value,
        lambda: jnp.where(x > 0, x, value),
        lambda: jnp.clip(x, max=value),
        lambda: x < value,
        lambda: jnp.maximum(x, value),
    ]
    for call in calls:
        with pytest.raises(OverflowError, match=r"too large|out of bounds|Python int"):
            call()


def test_large_exponents_are_multiplied_out() -> None:
    x = jnp.asarray([1, 0, 2], jnp.int32)
    for f in (lambda x: x**_LARGE, lambda x: jnp.power(x, _LARGE)):
        np.testing.assert_array_equal(f(x), [1, 0, 0])
        np.testing.assert_array_equal(xpr.jit(f)(x), [1, 0, 0])
