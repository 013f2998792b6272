"""Sums over devices that are added up are one collective; those that others read stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import NamedSharding, P, lax
from xpr.sharding import Mesh

MESH = Mesh(np.array(xpr.devices("cpu")[:4]).reshape(2, 2), ("x", "y"))
RNG = np.random.default_rng(0)
# Whole numbers: sums are exact in any order.
A, B, C, D = (RNG.integers(-4, 5, (8, 8)).astype(np.float32) for _ in range(4))


def put(array: np.ndarray, *spec: Any) -> xpr.Array:
    return xpr.device_put(array, NamedSharding(MESH, P(*spec)))


def _twice(a, b, c, d):
    s = a @ c
    return (s + b @ d) * s


def _result(a, b, c, d):
    s = a @ c
    return s, s + b @ d


def _loop(a, b, c, d):
    def step(s, _):
        return s / 8 + (a @ c + b @ d), None

    return lax.scan(step, a @ c * 0, length=3)[0]


SUM = ("all_reduce", 2)
# The function, what NumPy makes of it, and how often the devices meet.
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], int]] = {
    "three terms": (
        lambda a, b, c, d: a @ c + a @ d + b @ c,
        lambda a, b, c, d: a @ c + a @ d + b @ c,
        1,
    ),
    "a difference": (lambda a, b, c, d: a @ c - b @ d, lambda a, b, c, d: a @ c - b @ d, 1),
    "pairs of pairs": (
        lambda a, b, c, d: (a @ c + a @ d) - (b @ c + b @ d),
        lambda a, b, c, d: (a - b) @ (c + d),
        1,
    ),
    "one that is read twice": (_twice, _twice, 2),
    "one with itself": (lambda a, b, c, d: (s := a @ c) + s, lambda a, b, c, d: 2 * (a @ c), 1),
    "one that is a result": (_result, _result, 2),
    "other reductions": (
        lambda a, b, c, d: jnp.max(a, axis=1) + jnp.max(b, axis=1),
        lambda a, b, c, d: np.max(a, axis=1) + np.max(b, axis=1),
        2,
    ),
    "in a loop": (_loop, lambda a, b, c, d: (a @ c + b @ d) * (1 + 1 / 8 + 1 / 64), 2),
}


@pytest.mark.parametrize("name", CASES)
def test_sums_that_are_added_up(name: str) -> None:
    function, expected, times = CASES[name]
    operands = [*(put(m, None, "y") for m in (A, B)), *(put(m, "y", None) for m in (C, D))]
    jitted = xpr.jit(function)
    found = xpr.tree.leaves(jitted(*operands))
    for one, other in zip(found, xpr.tree.leaves(expected(A, B, C, D)), strict=True):
        np.testing.assert_array_equal(np.asarray(one), other)
    transfers = jitted.lower(*operands).communication().transfers
    assert [(t.kind, t.devices) for t in transfers] == [SUM] * times


def test_sums_over_other_devices_stay_apart() -> None:
    a, b = put(A, None, "y"), put(B, "y", None)
    c, d = put(C, None, "x"), put(A, "x", None)
    jitted = xpr.jit(lambda a, b, c, d: a @ b + c @ d)
    np.testing.assert_array_equal(np.asarray(jitted(a, b, c, d)), A @ B + C @ A)
    groups = [t.devices for t in jitted.lower(a, b, c, d).communication().transfers]
    assert groups == [2, 2]


def test_scattered_sums() -> None:
    operands = put(A, None, "y"), put(B, "y", None), put(C, None, "y")
    jitted = xpr.jit(lambda a, b, c: a @ b + c @ b, out_shardings=NamedSharding(MESH, P(None, "y")))
    np.testing.assert_array_equal(np.asarray(jitted(*operands)), (A + C) @ B)
    transfers = jitted.lower(*operands).communication().transfers
    assert [t.kind for t in transfers] == ["reduce_scatter"]
    assert transfers[0].bytes == A.nbytes / 2


def test_the_gradient_of_what_three_products_read_is_one_sum() -> None:
    weights = [put(w, None, "y") for w in (A, B, C)]
    x = put(A.T.copy(), "x")

    def loss(x, weights):
        return sum((k * (x @ w) ** 2).sum() for k, w in enumerate(weights, 1))

    jitted = xpr.jit(xpr.grad(loss))
    expected = sum(2 * k * (A.T @ w) @ w.T for k, w in enumerate((A, B, C), 1))
    np.testing.assert_array_equal(np.asarray(jitted(x, weights)), expected)
    (transfer,) = jitted.lower(x, weights).communication().transfers
    assert (transfer.kind, transfer.devices, transfer.bytes) == ("all_reduce", 2, A.nbytes / 2)
