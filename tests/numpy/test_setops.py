"""Set operations against NumPy over dtypes and shapes, with NaN, signed zeros and nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.numpy.cases import jnp

NAN, INF = np.nan, np.inf
PAIRS: list[tuple[Any, Any]] = [
    (np.array([3, 1, 2, 3], "i4"), np.array([2, 5, 3], "i4")),
    (np.array([[3, 1], [2, 3]], "i4"), np.array([[2, 5, 3]], "i4")),
    (np.array([], "i4"), np.array([2, 1], "i4")),
    (np.array([2, 1], "i4"), np.array([], "i4")),
    (np.array([], "f4"), np.array([], "f4")),
    (np.array([[]], "f4"), np.array([1.0], "f4")),
    (np.array([0, 255, 7], "u1"), np.array([255, 1], "u1")),
    (np.array([-128, 127, 0], "i1"), np.array([0, -128], "i1")),
    (np.array([True, False, True]), np.array([True])),
    (np.array([1.5, NAN, -INF, 0.0], "f4"), np.array([INF, NAN, -0.0, 1.5], "f4")),
    (np.array([NAN, NAN], "f4"), np.array([NAN], "f4")),
    (np.array([1.5, 2.5], "f2"), np.array([2.5], "f2")),
    (np.array([1 + 2j, 2, 1 - 2j], "c8"), np.array([2, 1 - 2j], "c8")),
    (np.array([1, 2], "i4"), np.array([1.0, 2.5], "f4")),
]
FUNCTIONS = ["intersect1d", "union1d", "setdiff1d", "setxor1d", "isin"]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_two_sets(name: str, number: int) -> None:
    a, b = PAIRS[number]
    found = np.asarray(getattr(jnp, name)(jnp.asarray(a), jnp.asarray(b)))
    expected = getattr(np, name)(a, b)
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_one_set(number: int) -> None:
    for a in PAIRS[number]:
        for name in ("unique_values", "unique_counts", "unique_inverse", "unique_all"):
            found, expected = getattr(jnp, name)(jnp.asarray(a)), getattr(np, name)(a)
            if name == "unique_values":
                np.testing.assert_array_equal(np.sort(found), np.sort(expected))
                continue
            for field in expected._fields:
                np.testing.assert_array_equal(
                    np.asarray(getattr(found, field)), getattr(expected, field), err_msg=field
                )


def test_inverted_and_assumed_options() -> None:
    a, b = np.array([[1, 2], [3, 4]], "i4"), np.array([4, 1, 9], "i4")
    np.testing.assert_array_equal(jnp.isin(a, b, invert=True), np.isin(a, b, invert=True))
    for name in ("intersect1d", "setdiff1d", "setxor1d"):
        found = getattr(jnp, name)(a.ravel(), b, assume_unique=True)
        np.testing.assert_array_equal(found, getattr(np, name)(a.ravel(), b, assume_unique=True))
    found = jnp.intersect1d(a, b, return_indices=True)
    for mine, theirs in zip(found, np.intersect1d(a, b, return_indices=True), strict=True):
        np.testing.assert_array_equal(mine, theirs)
