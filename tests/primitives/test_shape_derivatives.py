"""Cotangents of padding, cut edges and stretched axes, and what batching adds to programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
from xpr import lax
from xpr.transforms.tracing import make_jaxpr

_F32 = np.float32


def _primitives(function: Callable[..., Any], *args: Any) -> list[str]:
    return [eqn.primitive.name for eqn in make_jaxpr(function)(*args).jaxpr.eqns]


# The cotangent of element i of the result is 10**i.
@pytest.mark.parametrize(
    ("config", "x_ct", "value_ct"),
    [
        ((1, 2, 0), [10, 100], 11001),
        ((1, 0, 2), [10, 10000], 1101),
        ((-1, 1, 0), [0, 1], 10),
        ((2, -1, 0), [100, 0], 11),
        ((-1, -1, 1), [0, 0], 1),
        ((-2, 3, 0), [0, 0], 111),
    ],
)
def test_padding(config: tuple[int, int, int], x_ct: list[float], value_ct: float) -> None:
    out, pull = xpr.vjp(lambda x, v: lax.pad(x, v, [config]), np.ones(2, _F32), _F32(0))
    found = pull(10.0 ** np.arange(out.size, dtype=_F32))
    np.testing.assert_array_equal(found[0], x_ct)
    assert found[1] == value_ct


def test_an_infinite_cotangent_of_an_element_does_not_reach_the_padding_value() -> None:
    _, pull = xpr.vjp(lambda v: lax.pad(np.ones(1, _F32), v, [(1, 1, 0)]), _F32(0))
    assert pull(np.array([1, np.inf, 2], _F32))[0] == 3
    assert pull(np.array([1, np.nan, 2], _F32))[0] == 3


def test_one_padding_value_for_each_example() -> None:
    pad = xpr.vmap(lambda x, v: lax.pad(x, v, [(1, 0, 1)]), in_axes=(None, 0))
    found = pad(np.array([5, 6], np.int32), np.array([1, 2], np.int32))
    np.testing.assert_array_equal(found, [[1, 5, 1, 6], [2, 5, 2, 6]])


def test_a_stretched_axis_is_summed_and_axes_go_back_to_their_places() -> None:
    def spread(x: Any) -> Any:
        return lax.broadcast_in_dim(x, (2, 4, 3), (2, 1))

    out, pull = xpr.vjp(spread, np.ones((3, 1), _F32))
    ct = np.arange(24, dtype=_F32).reshape(out.shape)
    np.testing.assert_array_equal(pull(ct)[0], ct.sum((0, 1))[:, None])
    _, pull = xpr.vjp(lambda x: lax.broadcast_in_dim(x, (0, 3), (0, 1)), np.ones((1, 3), _F32))
    np.testing.assert_array_equal(pull(np.ones((0, 3), _F32))[0], np.zeros((1, 3)))


def test_a_reshape_of_permuted_axes() -> None:
    x = np.arange(6, dtype=_F32).reshape(2, 3)
    _, pull = xpr.vjp(lambda x: lax.reshape(x, (6,), (1, 0)), x)
    np.testing.assert_array_equal(pull(x.T.ravel())[0], x)


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: lax.broadcast_in_dim(x, (4, 2), (0, 1)), (1, 2)),
        (lambda x: lax.reshape(x, (6,), (1, 0)), (2, 3)),
        (lambda x: lax.transpose(x, (1, 0)), (2, 3)),
        (lambda x: lax.squeeze(x, (0,)), (1, 3)),
        (lambda x: lax.rev(x, (1,)), (2, 3)),
        (lambda x: lax.pad(x, _F32(0), [(1, 1, 0), (0, 0, 1)]), (2, 3)),
        (lambda x: lax.slice(x, (0, 1), (2, 3)), (2, 3)),
        (lambda x: lax.tile(x, (2, 1)), (2, 3)),
    ],
)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_no_batch_axis_is_moved_without_need(
    function: Callable[..., Any], shape: tuple[int, ...], axis: int
) -> None:
    batch = np.zeros((*shape[:axis], 5, *shape[axis:]), _F32)
    one = _primitives(function, np.zeros(shape, _F32))
    found = _primitives(xpr.vmap(function, axis), batch)
    # Only the result's batch axis may have to move, to the front.
    assert found[: len(one)] == one
    assert found[len(one) :] in ([], ["transpose"])
