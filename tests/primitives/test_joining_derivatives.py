"""Cotangents of joined and split arrays, some of whose parts are constant or unused."""

from __future__ import annotations

import numpy as np

import xpr
from xpr import lax
from xpr.transforms.tracing import make_jaxpr

_F32 = np.float32


def test_parts_of_a_join_get_their_own_cotangents() -> None:
    x, y, c = np.ones((2, 1), _F32), np.ones((2, 2), _F32), np.zeros((2, 1), _F32)
    _, pull = xpr.vjp(lambda x, y: lax.concatenate([x, c, y], 1), x, y)
    ct = np.arange(8, dtype=_F32).reshape(2, 4)
    a, b = pull(ct)
    np.testing.assert_array_equal(a, ct[:, :1])
    np.testing.assert_array_equal(b, ct[:, 2:])


def test_one_array_joined_with_itself_gets_the_sum() -> None:
    x = np.ones(2, _F32)
    for join in (lax.concatenate, lax.stack):
        _, pull = xpr.vjp(lambda x, join=join: join([x, x], 0).reshape(-1), x)
        np.testing.assert_array_equal(pull(np.array([1, 2, 30, 40], _F32))[0], [31, 42])


def test_constants_in_a_stack() -> None:
    c = np.zeros(2, _F32)
    _, pull = xpr.vjp(lambda x: lax.stack([c, x], 1), c)
    np.testing.assert_array_equal(pull(np.array([[1, 2], [3, 4]], _F32))[0], [2, 4])


def test_parts_that_are_not_used_get_zeros() -> None:
    x = np.arange(4, dtype=_F32)
    grad = xpr.grad(lambda x: (lax.split(x, (1, 3))[1] * x[1:]).sum())
    np.testing.assert_array_equal(grad(x), [0, 2, 4, 6])
    grad = xpr.grad(lambda x: lax.unstack(x)[2] * x[0])
    np.testing.assert_array_equal(grad(x), [2, 0, 0, 0])


def test_copies_are_summed() -> None:
    _, pull = xpr.vjp(lambda x: lax.tile(x, (3,)), np.ones(2, _F32))
    np.testing.assert_array_equal(pull(np.array([1, 2, 10, 20, 100, 200], _F32))[0], [111, 222])


def test_a_stack_of_batches_moves_no_axis() -> None:
    x = np.zeros((3, 4), _F32)
    closed = make_jaxpr(xpr.vmap(lambda x, y: lax.stack([x, y], 1)))(x, x)
    assert [eqn.primitive.name for eqn in closed.jaxpr.eqns] == ["stack"]
