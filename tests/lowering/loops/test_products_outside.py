"""Products of a loop's steps that are done for all steps at once, before or behind the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.iree_util import needs_product_kernels
from xpr import lax

RNG = np.random.default_rng(5)
STEPS, ROWS, WIDTH = 24, 16, 160


def array(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)


X, W, U = array(STEPS, ROWS, WIDTH), array(WIDTH, WIDTH), array(WIDTH, WIDTH)


def recurrent(x: Any, w: Any, u: Any, *, reverse: bool = False, unroll: int = 1) -> Any:
    def step(h: Any, x: Any) -> tuple[Any, Any]:
        h = jnp.tanh(x @ w + h @ u)
        return h, h

    start = jnp.zeros((x.shape[1], w.shape[1]), x.dtype)
    return lax.scan(step, start, x, reverse=reverse, unroll=unroll)[1]


def in_numpy(x: np.ndarray, w: np.ndarray, u: np.ndarray) -> np.ndarray:
    h, found = np.zeros((x.shape[1], w.shape[1])), []
    for row in x.astype(np.float64):
        h = np.tanh(row @ w.astype(np.float64) + h @ u.astype(np.float64))
        found.append(h)
    return np.stack(found)


def gradients(
    x: np.ndarray, w: np.ndarray, u: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of the sum of squares, by the chain rule, step by step."""
    x, w, u = (v.astype(np.float64) for v in (x, w, u))
    states = [np.zeros((x.shape[1], w.shape[1])), *in_numpy(x, w, u)]
    d_x, d_w, d_u = np.zeros_like(x), np.zeros_like(w), np.zeros_like(u)
    d_h = np.zeros_like(states[0])
    for t in range(len(x) - 1, -1, -1):
        after = states[t + 1]
        d_z = (2 * after + d_h) * (1 - after**2)
        d_w += x[t].T @ d_z
        d_u += states[t].T @ d_z
        d_x[t] = d_z @ w.T
        d_h = d_z @ u.T
    return d_x, d_w, d_u


def close(found: Any, wanted: np.ndarray) -> None:
    bound = 1e-5 * np.abs(wanted).max()
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-4, atol=bound)


def text(function: Callable[..., Any], *args: Any) -> str:
    return xpr.jit(function).lower(*args).as_text("iree")


@needs_product_kernels
@pytest.mark.parametrize("unroll", [1, 5])
@pytest.mark.parametrize("reverse", [False, True])
def test_products_of_slices_come_before_the_loop(reverse: bool, unroll: int) -> None:
    def program(x: Any, w: Any, u: Any) -> Any:
        return recurrent(x, w, u, reverse=reverse, unroll=unroll)

    assert "@xpr_product_f32[" in text(program, X, W, U)
    found = xpr.jit(program)(X, W, U)
    wanted = in_numpy(X[::-1], W, U)[::-1] if reverse else in_numpy(X, W, U)
    close(found, wanted)


@needs_product_kernels
def test_sums_of_products_come_behind_the_loop() -> None:
    def loss(x: Any, w: Any, u: Any) -> Any:
        return jnp.sum(recurrent(x, w, u) ** 2)

    gradient = xpr.grad(loss, argnums=(0, 1, 2))
    # One before the first loop, two behind the second one.
    assert text(gradient, X, W, U).count("@xpr_product_f32[") == 3
    for found, wanted in zip(xpr.jit(gradient)(X, W, U), gradients(X, W, U), strict=True):
        close(found, wanted)


def total(outer: bool) -> Callable[[Any, Any], Any]:
    """Sums of products by a loop, one way or the other."""

    def by_loop(x: Any, y: Any) -> Any:
        def step(carry: Any, pair: Any) -> tuple[Any, Any]:
            a, b = pair
            scaled = jnp.sin(b)
            return carry + a.T @ scaled, scaled

        return lax.scan(step, jnp.ones((WIDTH, WIDTH)), (x, y))

    def at_once(x: Any, y: Any) -> Any:
        scaled = np.sin(y.astype(np.float64))
        return 1 + np.einsum("tij,tik->jk", x.astype(np.float64), scaled), scaled

    return by_loop if outer else at_once


@needs_product_kernels
def test_factors_may_be_results_and_slices() -> None:
    y = array(STEPS, ROWS, WIDTH)
    # Rows enough that the sum's products are large.
    assert "@xpr_product_f32[" in text(total(True), X, y)
    found = xpr.jit(total(True))(X, y)
    for one, other in zip(found, total(False)(X, y), strict=True):
        close(one, other)


def stays(kind: str) -> Callable[..., Any]:
    """Steps whose products must not leave the loop."""

    def program(x: Any, w: Any) -> Any:
        def step(carry: Any, a: Any) -> tuple[Any, Any]:
            product = a.T @ a
            if kind == "read":  # the sum is read in the loop
                return carry + product, carry[0, 0]
            if kind == "used twice":
                return carry + product, product[0, 0]
            if kind == "result":  # each sum is a result
                return carry + product, carry + product
            if kind == "scaled":
                return 0.5 * carry + product, None
            return carry + w.T @ w, None  # "constant"

        return lax.scan(step, jnp.zeros((WIDTH, WIDTH)), x)

    return program


@pytest.mark.parametrize("kind", ["read", "used twice", "result", "scaled", "constant"])
def test_other_sums_are_right(kind: str) -> None:
    final, ys = xpr.jit(stays(kind))(X, W)
    carry, seen = np.zeros((WIDTH, WIDTH)), []
    for a in X.astype(np.float64):
        product = a.T @ a
        if kind == "read":
            seen.append(carry[0, 0])
        if kind == "used twice":
            seen.append(product[0, 0])
        if kind == "constant":
            product = W.T.astype(np.float64) @ W
        carry = (0.5 * carry if kind == "scaled" else carry) + product
        if kind == "result":
            seen.append(carry)
    close(final, carry)
    if seen:
        close(ys, np.stack(seen))


@needs_product_kernels
def test_a_loop_with_a_large_product_and_stacked_results_is_one_dispatch() -> None:
    # IREE would lay the product and the stack into one buffer, and copy the stack in each step.
    def program(h: Any, u: Any) -> Any:
        return lax.scan(lambda h, _: (h @ u, h), h, None, length=STEPS)

    h = array(64, 256)
    u = array(256, 256)
    lowered = text(program, h, u)
    assert "stablehlo.while" not in lowered
    final, stack = xpr.jit(program)(h, u)
    state, states = h.astype(np.float64), []
    for _ in range(STEPS):
        states.append(state)
        state = state @ u.astype(np.float64)
    close(final, state)
    close(stack, np.stack(states))
