"""Programs that run without a runtime in the tests, each with arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xpr
import xpr.numpy as jnp
from xpr import lax

_RNG = np.random.default_rng(37)


def _normal(*shape: int) -> np.ndarray[Any, Any]:
    return _RNG.normal(size=shape).astype(np.float32)


def _attention(q: Any, k: Any, v: Any) -> Any:
    return xpr.nn.softmax(q @ k.T / 4.0, axis=-1) @ v


def _loss(params: Any, x: Any, y: Any) -> Any:
    hidden = jnp.tanh(x @ params["hidden"]["w"] + params["hidden"]["b"])
    return jnp.mean((hidden @ params["out"] - y) ** 2)


def _train(params: Any, x: Any, y: Any) -> Any:
    value, grads = xpr.value_and_grad(_loss)(params, x, y)
    return {"params": xpr.tree.map(lambda p, g: p - 0.1 * g, params, grads), "loss": value}


def _newton(a: Any) -> Any:
    """A loop on the host: its products are too large for one kernel."""

    def body(state: Any) -> Any:
        n, x = state
        return n + 1, x @ (2.0 * jnp.eye(96) - a @ x)

    def goes_on(state: Any) -> Any:
        n, x = state
        return (n < 30) & (jnp.linalg.norm(a @ x - jnp.eye(96)) > 1e-3)

    return lax.while_loop(goes_on, body, (0, a.T / jnp.sum(a * a)))


def _swapping(n: Any, x: Any, y: Any) -> Any:
    """Two arrays that change places in each round."""

    def body(i: Any, pair: Any) -> Any:
        a, b = pair
        return b @ a, jnp.tanh(a) + 0.1 * jnp.eye(80) * i

    return lax.fori_loop(0, n, body, (x, y))


def _branches(which: Any, x: Any) -> Any:
    return lax.switch(
        which, [lambda x: x @ x, lambda x: jnp.sort(x, axis=0), lambda x: jnp.linalg.inv(x)], x
    )


def _nested(n: Any, x: Any) -> Any:
    def outer(i: Any, x: Any) -> Any:
        y = lax.while_loop(lambda y: jnp.max(jnp.abs(y)) > 1.0, lambda y: (y @ y) * 0.001, x + i)
        return lax.cond(y[0, 0] > 0, lambda y: y @ x, lambda y: x - y, y)

    return lax.fori_loop(0, n, outer, x)


def _scanned(x: Any, w: Any) -> Any:
    return lax.scan(lambda c, row: ((jnp.tanh(c @ w + row)), jnp.sum(c)), x[0], x)


def _random(key: Any) -> Any:
    first, second = xpr.random.split(key)
    return xpr.random.normal(first, (5, 7)), xpr.random.randint(second, (9,), 0, 100)


def _image(x: Any, w: Any) -> Any:
    y = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


_TABLE = _normal(50, 8)
_PARAMS = {
    "hidden": {"w": _normal(12, 16) * 0.3, "b": np.zeros(16, np.float32)},
    "out": _normal(16, 3) * 0.3,
}
_SQUARE = _normal(40, 40)

PROGRAMS: dict[str, tuple[Callable[..., Any], Sequence[Any]]] = {
    "tanh": (lambda x: jnp.tanh(2 * x), [_normal(64)]),
    "attention": (_attention, [_normal(24, 16), _normal(30, 16), _normal(30, 8)]),
    "train": (_train, [_PARAMS, _normal(20, 12), _normal(20, 3)]),
    "newton": (_newton, [np.eye(96, dtype=np.float32) * 2 + 0.01 * _normal(96, 96)]),
    "swapping": (_swapping, [np.int32(7), 0.05 * _normal(80, 80), 0.05 * _normal(80, 80)]),
    "branch0": (_branches, [np.int32(0), _SQUARE]),
    "branch1": (_branches, [np.int32(1), _SQUARE]),
    "branch2": (_branches, [np.int32(2), _SQUARE]),
    "nested": (_nested, [np.int32(4), _normal(48, 48)]),
    "scanned": (_scanned, [_normal(10, 64), 0.1 * _normal(64, 64)]),
    "random": (_random, [np.array([3, 4], np.uint32)]),
    "image": (_image, [_normal(2, 12, 12, 3), _normal(3, 3, 3, 4)]),
    "sorted": (lambda x: (jnp.sort(x), jnp.argsort(x)), [_normal(300)]),
    "cumulated": (lambda x: (jnp.cumsum(x), jnp.cumprod(x * 0.1 + 1)), [_normal(200)]),
    "fourier": (lambda x: jnp.abs(jnp.fft.rfft(x)), [_normal(128)]),
    "solved": (
        lambda a, b: jnp.linalg.solve(a @ a.T + jnp.eye(20), b),
        [_normal(20, 20), _normal(20)],
    ),
    "scattered": (
        lambda i, x: jnp.zeros(40).at[i].add(x),
        [np.array([3, 39, 0, 3], np.int32), _normal(4)],
    ),
    "identity": (lambda x, y: (x, y, x), [_normal(3), _normal(2, 2)]),
    "empty": (lambda x: (x * 2, jnp.sum(x)), [np.zeros((0, 3), np.float32)]),
}

ALONE: dict[str, tuple[Callable[..., Any], Sequence[Any]]] = {
    "gathered": (lambda i: jnp.asarray(_TABLE)[i].sum(0), [np.array([3, 49, 0, 3], np.int32)]),
    "constant": (lambda: jnp.asarray(_TABLE) * 2, []),
}
"""Programs with large constants, which several functions of one model would share."""
