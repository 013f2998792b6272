"""numpy.top_k and numpy.minmax against stable sorting and reductions of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp

RNG = np.random.default_rng(41)
BORDERS = np.array([3, np.nan, 1, -0.0, 0.0, np.inf, -np.inf, 1, np.nan, -2.5], "f4")


def expected_top_k(x: Any, k: int, axis: int, mode: str) -> tuple[Any, Any]:
    """By a stable sort; the greatest of a reversed array, so that the first of equals is first."""
    if mode == "smallest":
        order = np.argsort(x, axis, kind="stable")
    else:
        backwards = np.argsort(np.flip(x, axis), axis, kind="stable")
        order = x.shape[axis] - 1 - np.flip(backwards, axis)
    order = np.take(order, np.arange(k), axis)
    return np.take_along_axis(x, order, axis), order


@pytest.mark.parametrize("mode", ["largest", "smallest"])
def test_top_k(mode: str) -> None:
    matrix = RNG.integers(0, 5, (4, 6))
    cases: list[tuple[Any, int, int]] = [(BORDERS, k, 0) for k in (0, 3, 10)]
    cases += [(matrix.astype(t), 3, axis) for t in ("int8", "uint32", "f4") for axis in (0, -1)]
    cases += [(matrix > 2, 4, -1), (np.zeros((0, 3), "f4"), 2, 1), (np.zeros((0,), "f4"), 0, 0)]
    for x, k, axis in cases:
        values, indices = jnp.top_k(x, k, axis=axis, mode=mode)
        wanted = expected_top_k(x, k, axis, mode)
        np.testing.assert_array_equal(values, wanted[0])
        np.testing.assert_array_equal(indices, wanted[1])
        assert (values.dtype, indices.dtype) == (x.dtype, np.int32)


@pytest.mark.parametrize("mode", ["largest", "smallest"])
def test_top_k_is_differentiated_and_batched(mode: str) -> None:
    x = RNG.normal(size=(3, 5)).astype(np.float32)
    weights = np.array([1.0, 10.0], np.float32)

    def total(row: Any) -> Any:
        return jnp.dot(jnp.top_k(row, 2, mode=mode, sorted=False)[0], weights)

    expected = np.zeros_like(x)
    order = expected_top_k(x, 2, 1, mode)[1]
    np.put_along_axis(expected, order, np.broadcast_to(weights, (3, 2)), 1)
    np.testing.assert_array_equal(xpr.jit(xpr.vmap(xpr.grad(total)))(x), expected)


def test_what_top_k_refuses() -> None:
    x = np.arange(4.0)
    untyped: Any = "greatest"
    with pytest.raises(ValueError, match="'largest' or 'smallest', got 'greatest'"):
        jnp.top_k(x, 1, mode=untyped)
    with pytest.raises(ValueError, match="not compatible with complex"):
        jnp.top_k(x + 1j, 1)
    for k in (-1, 5):
        with pytest.raises(ValueError, match=rf"top_k requires k in 0 \.\. 4.*got {k}"):
            jnp.top_k(x, k, mode="smallest")
    with pytest.raises(ValueError, match="must be nonnegative, got -1"):
        jnp.top_k(x, -1)
    with pytest.raises(ValueError, match="out of bounds"):
        jnp.top_k(x, 1, axis=1)


def test_minmax() -> None:
    x = RNG.normal(size=(3, 4, 2)).astype(np.float32)
    where = RNG.integers(0, 2, x.shape).astype(bool)
    keywords: list[dict[str, Any]] = [
        {},
        {"axis": (0, 2)},
        {"axis": 1, "keepdims": True},
        {"axis": 1, "initial": 0.5},
        {"axis": 0, "initial": 0.25, "where": where},
    ]
    for kw in keywords:
        low, high = jnp.minmax(x, **kw)
        np.testing.assert_array_equal(low, np.min(x, **kw))
        np.testing.assert_array_equal(high, np.max(x, **kw))
    low, high = jnp.minmax(np.zeros((0, 2), "i4"), axis=0, initial=(7, -7))
    np.testing.assert_array_equal([low, high], [[7, 7], [-7, -7]])
    np.testing.assert_array_equal(jnp.minmax(BORDERS), [np.nan, np.nan])
    spread = xpr.grad(lambda x: jnp.subtract(*jnp.minmax(x)))(np.array([2.0, 5.0, 1.0], "f4"))
    np.testing.assert_array_equal(spread, [0, -1, 1])


def test_what_minmax_refuses() -> None:
    with pytest.raises(ValueError, match="zero-size array to reduction operation minmax"):
        jnp.minmax(np.zeros(0))
    with pytest.raises(ValueError, match="initial"):
        jnp.minmax(np.ones(2), where=np.ones(2, bool))
    short: Any = (1.0,)
    with pytest.raises(ValueError, match="a pair as the tuple `initial`"):
        jnp.minmax(np.ones(2), initial=short)
