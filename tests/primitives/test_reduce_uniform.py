"""Reductions of what the compiler may know to be one number repeated: IREE miscounts it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy
from xpr import lax
from xpr.lowering import passes

jnp: Any = xpr.numpy

X = np.arange(5, dtype=np.int32)
LOWEST, HIGHEST = np.iinfo(np.int32).min, np.iinfo(np.int32).max


def _ones() -> Any:
    return -jnp.ones((3, 20))


def _branched(x: Any, ones: Any) -> Any:
    """A branch of dispatches, so that no choice is made of it."""

    def product() -> Any:
        return jnp.outer(x, x) @ x, ones

    return lax.cond(x.sum() > 0, product, lambda: (jnp.cumsum(x), ones))[1]


def _looped(x: Any, ones: Any) -> Any:
    def step(state: Any) -> Any:
        i, v, _ = state
        return i + 1, jnp.outer(v, v) @ v % 7, _ones()

    return lax.while_loop(lambda s: s[0] < 2, step, (0, x, ones))[2]


# For each program of x = 0..4 (int32) the value it must have.
PROGRAMS: list[tuple[Any, Any]] = [
    (lambda x: jnp.sum(-jnp.ones(3)) + x[0], -3),
    (lambda x: jnp.sum(jnp.abs(jnp.full(8, -0.5))), 4),
    (lambda x: jnp.sum(-jnp.ones((3, 20)), axis=1), [-20] * 3),
    (lambda x: jnp.sum(-jnp.ones((2, 4100)), axis=1), [-4100] * 2),
    (lambda x: jnp.mean(-jnp.ones((2, 3)), axis=1), [-1, -1]),
    (lambda x: jnp.prod(-(jnp.ones(3) + 1)), -8),
    (lambda x: jnp.sum(-jnp.ones(3, np.complex64)), -3),
    (lambda x: jnp.sum(x == x), 5),
    (lambda x: jnp.sum((x + 1) == (x + 1)), 5),
    (lambda x: jnp.sum((x ^ x) + 2), 10),
    (lambda x: jnp.sum((x > 2) | ~(x > 2)), 5),
    (lambda x: jnp.sum(x >= LOWEST), 5),
    (lambda x: jnp.sum(x.astype(np.uint32) >= 0), 5),
    (lambda x: jnp.sum(jnp.maximum(x, HIGHEST) == HIGHEST), 5),
    (lambda x: jnp.sum(x * 0 + 1), 5),
    (lambda x: jnp.sum(jnp.where(x > x, 0.0, 2.0)), 10),
    (lambda x: jnp.sum(xpr.jit(lambda y: -y)(jnp.ones(3))), -3),
    (lambda x: xpr.jit(jnp.sum)(-jnp.ones(3)), -3),
    (lambda x: jnp.sum((-jnp.ones(5))[x]), -5),
    (lambda x: jnp.sum(jnp.concatenate([-jnp.ones(2), -jnp.ones(3)])), -5),
    (lambda x: lax.reduce(-jnp.ones(6), 0.0, lambda a, b: a + b, (0,)), -6),
    (lambda x: lax.reduce_window(-jnp.ones(6), 0.0, lax.add, (3,), (1,), "VALID"), [-3] * 4),
    (lambda x: jnp.cumsum(-jnp.ones(3)), [-1, -2, -3]),
    (lambda x: -jnp.ones(3) @ jnp.ones(3), -3),
    (
        lambda x: lax.fori_loop(
            0, x[3], lambda i, c: (c[0] + c[1].sum(), c[1]), (0.0, -jnp.ones(3))
        )[0],
        -9,
    ),
    (lambda x: lax.cond(x[0] == 0, lambda v: v.sum(), lambda v: v[0], -jnp.ones(3)), -3),
    # What is called, branches and loops may give it.
    (lambda x: xpr.jit(_ones)().sum(1) + x[0], [-20] * 3),
    (lambda x: (-xpr.jit(lambda v: (v + 1, _ones()))(x)[1]).sum(1), [20] * 3),
    (lambda x: _branched(x, _ones()).sum(1), [-20] * 3),
    (lambda x: _looped(x, _ones()).sum(1), [-20] * 3),
    # Nothing is known of these.
    (lambda x: jnp.sum(x > 2), 2),
    (lambda x: jnp.sum((x > 0) & (x < 4)), 3),
    (lambda x: jnp.sum(jnp.where(x > 2, 1.0, 0.0)), 2),
]


def test_every_element_counts() -> None:
    found = xpr.jit(lambda x: [program(x) for program, _ in PROGRAMS])(X)
    for place, (value, (_, expected)) in enumerate(zip(found, PROGRAMS, strict=True)):
        np.testing.assert_array_equal(value, expected, err_msg=f"program {place}")


def test_without_the_pass_few_elements_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(passes.PASSES, "known_values")
    monkeypatch.delitem(passes.PASSES, "constant_arithmetic")  # it would leave one number
    found = xpr.jit(lambda x: jnp.sum(-jnp.ones((3, 20)), axis=1) + x[0])(X)
    assert not np.array_equal(found, [-20] * 3), "IREE has mended this: the pass can go"


def test_what_is_not_known_needs_no_barrier() -> None:
    def barriers(f: Any) -> int:
        # One keeps the argument (see hazard H1).
        return xpr.jit(f).lower(X).as_text("iree").count("barrier") - 1

    for program in (lambda x: jnp.sum(x > 2), lambda x: jnp.sum(x * 2 + 1), jnp.max):
        assert barriers(program) == 0
    assert barriers(lambda x: jnp.sum(x == x)) == 1


def test_two_arrangements_of_one_value_are_two_values() -> None:
    # A barrier in each of the two sorts gave a wrong order.
    x = np.array([3.0, 1.0, 2.0, 5.0, 4.0], np.float32)
    twice = xpr.jit(lambda v: jnp.argsort(jnp.argsort(v)))
    np.testing.assert_array_equal(twice(x), np.argsort(np.argsort(x)))
    # One keeps the argument, and one the first sort's result, which the second reads in two ways.
    assert twice.lower(x).as_text("iree").count("barrier") == 2
