"""iota, empty, full and full_like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.primitives import creation as c


def test_full_takes_the_dtype_of_its_value() -> None:
    assert c.full((2,), 1).dtype == np.int32
    assert c.full((2,), 1).weak_type
    assert c.full((2,), np.int8(1)).dtype == np.int8
    assert not c.full((2,), np.int8(1)).weak_type
    assert c.full((2,), True).dtype == np.bool_
    exact = c.full((2,), 1, np.float32)
    assert exact.dtype == np.float32
    assert not exact.weak_type
    np.testing.assert_array_equal(np.asarray(c.full((), 2.5)), 2.5)
    np.testing.assert_array_equal(np.asarray(c.full((2,), jnp.array(2.9), np.int32)), [2, 2])


def test_full_like_keeps_what_is_not_given() -> None:
    x = jnp.ones((2, 3), jnp.float16)
    like = c.full_like(x, 3)
    assert (like.shape, like.dtype, like.weak_type) == ((2, 3), np.float16, False)
    assert c.full_like(x, 3, np.int32, (4,)).shape == (4,)
    assert c.full_like(c.full((3,), 1), 7).weak_type
    assert c.full_like(xpr.ShapeDtypeStruct((2,), np.int8), 1).dtype == np.int8
    assert c.full_like(np.zeros(3, np.int16), 1).dtype == np.int16


@pytest.mark.parametrize(
    ("function", "equation"),
    [
        (lambda: c.iota(np.int32, 5),
         "a:i32[5] = iota[dimension=0 dtype=int32 shape=(5,) sharding=None]"),
        (lambda: c.broadcasted_iota(float, (3, 4), 1),
         "a:f32[3,4] = iota[dimension=1 dtype=float32 shape=(3, 4) sharding=None]"),
        (lambda: c.full((2,), 1, "float32"), "a:f32[2] = broadcast_in_dim 1.0:f32[]"),
        (lambda: c.full((2,), 1), "a:i32[2] = broadcast_in_dim 1:i32[]"),
    ],
)  # fmt: skip
def test_equations_print_as_jaxs(function: Callable[..., Any], equation: str) -> None:
    assert equation in " ".join(str(xpr.make_jaxpr(function)()).split())


@pytest.mark.parametrize(
    ("function", "error", "match"),
    [
        (lambda: c.iota(np.bool_, 5), TypeError, "iota does not accept dtype bool"),
        (lambda: c.iota(np.float32, -5), TypeError, r"nonnegative, got \(-5,\)"),
        (lambda: c.broadcasted_iota(np.float32, (2, 3), 2), ValueError, "dimension=2 for shape"),
        (lambda: c.broadcasted_iota(np.float32, (2, 3), -1), ValueError, "between 0 and len"),
        (lambda: c.full((2,), np.ones(3)), TypeError, r"scalar fill_value, .* \(3,\)"),
        (lambda: c.full_like(np.ones(2), np.ones(3)), TypeError, "scalar fill_value"),
        (lambda: c.full((-2,), True), TypeError, "nonnegative"),
        (lambda: c.full((2,), 300, np.uint8), OverflowError, "300 too large to convert to uint8"),
        (lambda: c.empty((-1,), np.float32), TypeError, "nonnegative"),
    ],
)
def test_bad_arguments(function: Callable[..., Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        function()
