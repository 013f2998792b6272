"""Windows that reach over an edge: values, cotangents and batches move them inside alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
from xpr import lax
from xpr.transforms.tracing import make_jaxpr

_F32 = np.float32


def _window(x: Any, i: Any) -> Any:
    return lax.dynamic_slice(x, (i,), (2,), allow_negative_indices=False)


def _update(x: Any, u: Any, i: Any) -> Any:
    return lax.dynamic_update_slice(x, u, (i,), allow_negative_indices=False)


@pytest.mark.parametrize(("start", "first"), [(-5, 0), (1, 1), (2, 2), (3, 2), (2**31 - 1, 2)])
def test_cotangents_of_moved_windows(start: int, first: int) -> None:
    x, i = np.zeros(4, _F32), np.int32(start)
    _, pull = xpr.vjp(lambda x: _window(x, i), x)
    wanted = np.zeros(4)
    wanted[first : first + 2] = [1, 2]
    np.testing.assert_array_equal(pull(np.array([1, 2], _F32))[0], wanted)
    _, pull = xpr.vjp(lambda x, u: _update(x, u, i), x, np.ones(2, _F32))
    ct = np.array([1, 2, 3, 4], _F32)
    x_ct, u_ct = pull(ct)
    np.testing.assert_array_equal(u_ct, ct[first : first + 2])
    np.testing.assert_array_equal(x_ct, np.where(np.isin(np.arange(4), [first, first + 1]), 0, ct))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64", "uint32"])
def test_starts_of_a_batch_are_moved_inside(dtype: str) -> None:
    with xpr.enable_x64(True):
        info = np.iinfo(dtype)
        starts = np.array([info.min, 1, info.max], dtype)
        x = np.arange(4, dtype=_F32)
        found = xpr.vmap(_window, in_axes=(None, 0))(x, starts)
        np.testing.assert_array_equal(found, [[0, 1], [1, 2], [2, 3]])
        found = xpr.vmap(_update, in_axes=(None, None, 0))(x, np.full(2, 9, _F32), starts)
        np.testing.assert_array_equal(found, [[9, 9, 2, 3], [0, 9, 9, 3], [0, 1, 9, 9]])


def test_cotangents_of_the_windows_of_a_batch_are_summed() -> None:
    starts = np.array([0, 1, 9], np.int32)
    windows = xpr.vmap(_window, in_axes=(None, 0))
    _, pull = xpr.vjp(lambda x: windows(x, starts), np.zeros(4, _F32))
    ct = np.array([[1, 2], [10, 20], [100, 200]], _F32)
    np.testing.assert_array_equal(pull(ct)[0], [1, 12, 120, 200])


def test_starts_along_axes_that_the_window_fills_do_not_matter() -> None:
    x, starts = np.zeros((3, 4), _F32), np.zeros(5, np.int32)

    def rows(i: Any) -> Any:
        return lax.dynamic_slice(x, (np.int32(1), i), (1, 4), allow_negative_indices=False)

    names = [eqn.primitive.name for eqn in make_jaxpr(xpr.vmap(rows))(starts).jaxpr.eqns]
    assert "gather" not in names


def test_a_slice_with_strides() -> None:
    _, pull = xpr.vjp(lambda x: lax.slice(x, (1,), (6,), (2,)), np.zeros(7, _F32))
    np.testing.assert_array_equal(pull(np.array([1, 2, 3], _F32))[0], [0, 1, 0, 2, 0, 3, 0])
    _, pull = xpr.vjp(lambda x: lax.slice(x, (2,), (2,), (3,)), np.zeros(7, _F32))
    np.testing.assert_array_equal(pull(np.zeros(0, _F32))[0], np.zeros(7))
