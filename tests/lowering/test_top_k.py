"""The greatest elements of rows on the CPU, found in one loop over the rows."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
from xpr import lax

DTYPES = ("float32", "bfloat16", "float16", "int32", "uint32", "int8", "uint16")
# Rows that are cut into blocks and such that are not, with and without a rest; many rows and one.
SHAPES = ((40, 64), (5, 125), (3, 600), (2, 3, 777), (1, 5000), (9, 2048))


def operand(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """Random values with many equal ones, and special ones."""
    rng = np.random.default_rng(len(shape) * 1000 + shape[-1])
    x = rng.integers(-90, 90, shape).astype(np.float32) / 2
    x = (np.abs(x) if dtype.kind == "u" else x).astype(dtype)
    flat = x.reshape(-1)
    if dtype.kind in "iu":
        flat[::53], flat[5::131] = np.iinfo(dtype).max, np.iinfo(dtype).min
    else:
        flat[::97], flat[::31], flat[::37] = np.nan, 0.0, -0.0
        flat[5::131], flat[9::131] = np.inf, -np.inf
    return x


def places(x: np.ndarray[Any, Any], k: int) -> np.ndarray[Any, Any]:
    """NaN first, then the greatest, equal ones in order."""
    wide = x.astype(np.float64)
    nan = np.isnan(wide)
    position = np.broadcast_to(np.arange(x.shape[-1]), x.shape)
    return np.lexsort((position, -np.where(nan, 0, wide), ~nan))[..., :k]


@pytest.mark.parametrize("name", DTYPES)
def test_the_greatest_elements_of_rows(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    arrays = [operand(shape, dtype) for shape in SHAPES]

    def program(*arrays: Any) -> Any:
        return [lax.top_k(x, k) for x in arrays for k in (1, 3, 8)]

    found = iter(xpr.jit(program)(*arrays))
    for x in arrays:
        for k in (1, 3, 8):
            values, indices = next(found)
            expected = places(x, k)
            np.testing.assert_array_equal(indices, expected)
            assert np.asarray(values).tobytes() == np.take_along_axis(x, expected, -1).tobytes()


def test_other_axes() -> None:
    x = operand((3, 600), np.dtype("float32")).T.copy()
    values, indices = xpr.jit(lambda x: lax.top_k(x, 4, axis=0))(x)
    expected = places(x.T, 4)
    np.testing.assert_array_equal(indices, expected.T)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected.T, 0))


@pytest.mark.parametrize("shape", [(256, 10000), (1000, 64), (1, 1 << 20)])
def test_it_takes_two_dispatches(shape: tuple[int, ...]) -> None:
    spec = xpr.ShapeDtypeStruct(shape, "float32")
    found = xpr.debug.explain(lambda x: lax.top_k(x, 8), spec)
    assert found.dispatches is not None
    assert found.dispatches <= 2


def test_more_than_one_core_should_do_is_cut_into_dispatches() -> None:
    text = (
        xpr.jit(lambda x: lax.top_k(x, 8))
        .lower(np.zeros((1 << 16, 64), np.float32))
        .as_text("iree")
    )
    assert "flow.dispatch.region" not in text
