"""Behaviours at the edges of NumPy's interface, with the results of JAX 0.10.2 as golden values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_lists_in_index_tuples() -> None:
    x = jnp.asarray(X)
    assert x[([0, 1], [1, 0])].tolist() == [1.0, 3.0]
    assert x.at[([0, 1], [1, 0])].set(9.0).tolist() == [[0.0, 9.0, 2.0], [9.0, 4.0, 5.0]]


def test_none_has_the_shape_of_a_scalar() -> None:
    for function, expected in ((jnp.shape, ()), (jnp.ndim, 0), (jnp.size, 1)):
        with pytest.warns(DeprecationWarning, match=f"^{function.__name__} requires ndarray or"):
            assert function(None) == expected


def test_bincount_of_booleans() -> None:
    x = jnp.array([True, False, True])
    assert jnp.bincount(x).tolist() == [1, 2]
    weights = jnp.array([1.0, 2.0, 3.0])
    assert jnp.bincount(x, weights, length=4).tolist() == [2.0, 4.0, 0.0, 0.0]
    assert xpr.jit(lambda x: jnp.bincount(x, length=3))(x).tolist() == [1, 2, 0]


def test_orders_of_tobytes() -> None:
    x = jnp.asarray(X)
    orders: tuple[str | None, ...] = ("C", "F", "A", "K", None)
    for order in orders:
        expected = [0, 3, 1, 4, 2, 5] if order == "F" else [0, 1, 2, 3, 4, 5]
        assert np.frombuffer(x.tobytes(order), np.float32).tolist() == expected
    with pytest.raises(ValueError, match="order must be one of 'C', 'F', 'A', or 'K'"):
        x.tobytes("x")


@pytest.mark.parametrize(
    ("indices", "axis", "expected"),
    [
        ([[2, 0], [-1, 7]], 1, [[2, 0], [5, 0]]),
        ([[1, 0, -1]], 0, [[3, 1, 5]]),
        ([3, -1, 9], None, [3, 5, 0]),
        ([[2, 0, 1]], 1, [[2, 0, 1], [5, 3, 4]]),
    ],
)
def test_take_along_axis_as_a_product(indices: Any, axis: int | None, expected: Any) -> None:
    def take(x, i):
        return jnp.take_along_axis(x, i, axis=axis, mode="one_hot")

    for run in (take, xpr.jit(take)):
        assert run(jnp.asarray(X), jnp.array(indices)).tolist() == expected
    assert take(jnp.asarray(X), jnp.array(indices, np.int8)).tolist() == expected


def test_integers_by_a_product() -> None:
    x = jnp.take_along_axis(jnp.arange(5), jnp.array([3, -1, 9]), axis=0, mode="one_hot")
    assert (x.tolist(), x.dtype) == ([3, 4, 0], np.int32)


@pytest.mark.parametrize("mode", ["one_hot", lax.GatherScatterMode.ONE_HOT])
def test_where_one_hot_is_no_mode(mode: str | lax.GatherScatterMode) -> None:
    x, i = jnp.asarray(X), jnp.array([0, 1, 5])
    with pytest.raises(ValueError, match=r"(?i)Invalid mode .*one_hot"):
        jnp.take(x, i, axis=1, mode=mode)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="gather has no mode one_hot"):
        x.at[i].get(mode=mode)
    assert x.at[i].set(1.0, mode=mode).tolist() == [[1.0] * 3] * 2
    assert x.at[i].add(1.0, mode=mode).tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def test_complex_ranges_and_masked_arrays_are_refused() -> None:
    with pytest.raises(ValueError, match="arange"):
        jnp.arange(3j)
    with pytest.raises(ValueError, match="masked arrays are not supported"):
        jnp.asarray(np.ma.masked_array([1.0, 2.0], [True, False]))
    with pytest.raises(TypeError, match="object"):
        jnp.asarray(np.array([object()]))


def test_prefixes_of_truth_values() -> None:
    x, y = jnp.array([0, 2, -2, 0]), jnp.array([2, 0, 1])
    for cumulative in (jnp.cumsum, jnp.nancumsum, jnp.cumulative_sum):
        assert cumulative(x, dtype=bool).tolist() == [False, True, True, True]
        assert cumulative(x, dtype=bool).dtype == bool
    for cumulative in (jnp.cumprod, jnp.nancumprod, jnp.cumulative_prod):
        assert cumulative(y, dtype=bool).tolist() == [True, False, False]
    assert jnp.cumsum(jnp.array([True, True])).tolist() == [1, 2]


def test_arrays_full_of_keys() -> None:
    key = xpr.random.key(7)
    data = xpr.random.key_data
    assert data(jnp.full((2,), 3, key.dtype)).tolist() == [[3, 3], [3, 3]]
    assert data(jnp.full_like(key, 3)).tolist() == [3, 3]
    assert data(jnp.full((2,), key, key.dtype)).tolist() == [[0, 7], [0, 7]]
