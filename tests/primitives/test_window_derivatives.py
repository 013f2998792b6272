"""Derivatives of windows: ties, padding, and general folds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
from xpr import lax

_F32 = np.float32
_ONE = _F32(1)


def _pool(init: float, fold: Any, padding: str) -> Any:
    return lambda x: lax.reduce_window(x, _F32(init), fold, (2, 2), (1, 1), padding).sum()


# The first of equal elements takes the whole tangent.
@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (_pool(-np.inf, lax.max, "VALID"), [[1, 0], [0, 0]]),
        (_pool(-np.inf, lax.max, "SAME"), [[1, 1], [1, 1]]),
        (_pool(np.inf, lax.min, "SAME"), [[0, 0], [0, 4]]),
    ],
)
def test_ties_of_pooled_elements(function: Any, wanted: Any) -> None:
    x = np.array([[2, 2], [2, 1]], _F32)
    assert np.asarray(xpr.grad(function)(x)).tolist() == wanted


def test_windows_of_padding_only_have_no_tangent() -> None:
    def pooled(x: Any) -> Any:
        return lax.reduce_window(x, _F32(-np.inf), lax.max, (2,), (2,), ((2, 2),))

    _, tangent = xpr.jvp(pooled, (np.zeros(2, _F32),), (np.ones(2, _F32),))
    assert np.asarray(tangent).tolist() == [0, 1, 0]


def test_no_windows_and_no_elements() -> None:
    def sums(x: Any) -> Any:
        return lax.reduce_window(x, _F32(0), lax.add, (3,), (1,), "VALID").sum()

    assert np.asarray(xpr.grad(sums)(np.ones(2, _F32))).tolist() == [0, 0]
    assert np.asarray(xpr.grad(sums)(np.ones(0, _F32))).tolist() == []


def _products(x: Any, init: Any = _ONE) -> Any:
    return lax.reduce_window(x, init, lambda a, b: a * b + 0, (2,), (1,), "VALID")


def test_general_reductions_in_both_modes() -> None:
    x = np.array([2, 0, 3], _F32)
    _, tangent = xpr.jvp(_products, (x,), (np.ones(3, _F32),))
    assert np.asarray(tangent).tolist() == [2, 3]
    assert np.asarray(xpr.grad(lambda x: _products(x).sum())(x)).tolist() == [0, 5, 0]


def test_initial_values_may_be_batched() -> None:
    x = np.array([2, 0.5, 3], _F32)
    found = xpr.vmap(_products, (None, 0))(x, np.array([1, 2], _F32))
    assert np.asarray(found).tolist() == [[1, 1.5], [2, 3]]
