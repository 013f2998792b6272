"""Derivatives of sorting: equal elements keep their order, and so do their tangents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
from xpr import lax

_X = np.array([2, 1, np.nan, 1, np.inf], np.float32)
_T = np.arange(5, dtype=np.float32)


def test_tangents_follow_their_elements() -> None:
    _, tangent = xpr.jvp(lax.sort, (_X,), (_T,))
    assert np.asarray(tangent).tolist() == [1, 3, 0, 4, 2]
    _, pullback = xpr.vjp(lax.sort, _X)
    assert np.asarray(pullback(_T)[0]).tolist() == [2, 0, 4, 1, 3]


def test_only_operands_with_tangents_get_one() -> None:
    keys = np.array([3, 1, 2], np.int32)

    def second(values: Any) -> Any:
        return lax.sort((keys, values))[1]

    jaxpr = str(xpr.make_jaxpr(lambda v, t: xpr.jvp(second, (v,), (t,)))(_T[:3], _T[:3]))
    assert jaxpr.count(" gather[") == 1
    assert np.asarray(xpr.jacrev(second)(_T[:3])).tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: lax.top_k(x, 3)[0], [2, 3, 1, 0]),
        (lambda x: lax.approx_max_k(x, 3)[0], [2, 3, 1, 0]),
        (lambda x: lax.approx_min_k(x, 2)[0], [1, 2, 0, 0]),
        (lambda x: lax.top_k(x, 0)[0], [0, 0, 0, 0]),
    ],
)
def test_the_first_of_equal_elements_is_chosen(function: Any, wanted: list[float]) -> None:
    x = np.array([1, 1, 5, 1], np.float32)
    out, pullback = xpr.vjp(function, x)
    ct = np.arange(1, out.size + 1, dtype=np.float32)
    assert np.asarray(pullback(ct)[0]).tolist() == wanted
