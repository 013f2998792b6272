"""Programs that compilers and drivers get wrong without the guards of docs/hazards.md."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import xpr
import xpr.numpy as xnp
from benchmarks.gpu.rows import Outcome, Row, Setting
from xpr import lax, nn

Array = np.ndarray[Any, Any]
Guard = tuple[Callable[..., Any], tuple[Array, ...], Any]
"""A program, its operands, and the results that NumPy finds."""

_F32 = np.dtype(np.float32)


def _rng() -> np.random.Generator:
    return np.random.default_rng(20261128)


def _converted_products() -> Guard:
    x, w = np.full((33, 40), 255, np.uint8), np.ones((40, 17), _F32)
    return (lambda x, w: x.astype(_F32) @ w), (x, w), x.astype(_F32) @ w


def _integer_products() -> Guard:
    a, b = _rng().integers(-128, 128, (2, 64, 64)).astype(np.int8)
    wide = a.astype(np.int32) @ b.astype(np.int32)
    return (lambda a, b: a.astype(np.int32) @ b.astype(np.int32)), (a, b), wide


def _byte_products() -> Guard:
    a = np.full((64, 1100), -128, np.int8)

    def product(a: Any, b: Any) -> Any:
        return lax.dot(a, b, preferred_element_type=np.int32)

    return product, (a, a.T.copy()), a.astype(np.int32) @ a.T.astype(np.int32)


def _half_products() -> Guard:
    a, b = _rng().integers(-2, 3, (2, 96, 96)).astype(np.float16)
    return (lambda a, b: (a @ b, a.T @ b, a @ b.T)), (a, b), (a @ b, a.T @ b, a @ b.T)


def _narrow_reductions() -> Guard:
    x = _rng().integers(0, 200, (5, 100)).astype(np.uint8)
    powers = np.exp(x.astype(_F32) - x.max(1, keepdims=True))
    expected = powers / powers.sum(1, keepdims=True)
    return (lambda x: nn.softmax(x.astype(_F32))), (x,), expected


def _broadcast_reductions() -> Guard:
    x = _rng().integers(0, 9, (7, 33)).astype(np.int8)
    wide = x.astype(_F32)

    def pairs(x: Any) -> Any:
        x = x.astype(_F32)
        return (x[:, :, None] * x[:, None]).sum(2), x.min(1)[None] + x.T

    return pairs, (x,), ((wide[:, :, None] * wide[:, None]).sum(2), wide.min(1)[None] + wide.T)


def _differences() -> Guard:
    x = _rng().normal(size=(65, 30)).astype(_F32)
    sums = x.sum(1)
    return (lambda x: (lambda s: s[:, None] - s[None])(x.sum(1))), (x,), sums[:, None] - sums[None]


def _indices_out_of_bounds() -> Guard:
    x, places = np.arange(10, dtype=_F32), np.array([0, 9, 10, -1, 2**31 - 1, -(2**31)], np.int32)
    taken = functools.partial(xnp.take, mode="clip")
    added = x.copy()
    np.add.at(added, [0, 9, -1], 1)  # those beyond either end are dropped
    clipped = x[np.clip(places, 0, 9)]
    return (lambda x, i: (taken(x, i), x.at[i].add(1))), (x, places), (clipped, added)


def _scatters_into_slices() -> Guard:
    x = np.ones((4, 3), np.complex64)
    places, updates = np.array([0, 2]), np.full((2, 3), 2 + 1j, np.complex64)
    expected = x[1:].copy()
    expected[places] += updates
    return (lambda x, i, u: x[1:].at[i].add(u)), (x, places, updates), expected


def _aliased_updates() -> Guard:
    x = np.arange(12, dtype=_F32)
    left, right = x.copy(), x.copy()
    left[3], right[4] = 9, 7
    return (lambda x: (x.at[3].set(9), x.at[4].set(7), x)), (x,), (left, right, x)


def _loops() -> Guard:
    x = _rng().normal(size=(50, 8)).astype(_F32)

    def running(x: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            total, count = carry
            return (total + row, count + 1), total * count

        return lax.scan(step, (xnp.zeros(8), 0), x)

    totals = np.concatenate([np.zeros((1, 8), _F32), np.cumsum(x, 0, dtype=_F32)])
    steps = totals[:-1] * np.arange(50, dtype=_F32)[:, None]
    return running, (x,), (totals[-1], np.int32(50), steps)


def _branches() -> Guard:
    x = np.arange(-4, 4, dtype=_F32)

    def f(x: Any) -> Any:
        big = lax.cond(x.sum() < 0, lambda: x * 2, lambda: x + 100)
        return lax.while_loop(lambda s: s[1] < 7, lambda s: (s[0] + 1, s[1] + 1), (big, 0))[0]

    return f, (x,), x * 2 + 7


def _division() -> Guard:
    x = np.array([-(2**31), 2**31 - 1, -7, 7, 0, 5, -1, 1], np.int32)
    y = np.array([-1, -1, 2, -2, 3, 2, 1, -(2**31)], np.int32)
    wide, by = x.astype(np.int64), y.astype(np.int64)
    quotient = (np.sign(wide) * np.sign(by) * (abs(wide) // abs(by))).astype(np.int32)
    unsigned = x.view(np.uint32) // y.view(np.uint32)
    return (
        lambda x, y, u, v: (lax.div(x, y), lax.rem(x, y), u // v),
        (x, y, x.view(np.uint32), y.view(np.uint32)),
        (quotient, (wide - quotient.astype(np.int64) * by).astype(np.int32), unsigned),
    )


def _rounding() -> Guard:
    x = (_rng().normal(size=257) * 3).astype(_F32)
    half = x.astype(xnp.bfloat16)
    rounded = (half.astype(_F32) * half.astype(_F32)).astype(xnp.bfloat16).astype(_F32)
    return (lambda x: (lambda b: (b * b).astype(_F32))(x.astype(xnp.bfloat16))), (x,), rounded


def _order() -> Guard:
    x = np.array([3, np.nan, -0.0, 0.0, -np.inf, np.inf, 1, -1], _F32)
    top = np.array([3, 2, 1, 0.5], _F32)
    few = np.array([0.5, 1, 3, 2], _F32)
    return (lambda x, y: (xnp.sort(x), lax.top_k(y, 4)[0])), (x, few), (np.sort(x), top)


def _many_operands() -> Guard:
    arrays = tuple(np.full(5, i, _F32) for i in range(40))
    return (lambda *xs: sum(xs[1:], xs[0])), arrays, np.sum(arrays, 0, dtype=_F32)


def _empty() -> Guard:
    x = np.ones((0, 3), _F32)
    return (
        (lambda x: (x.sum(0), x @ xnp.ones((3, 2)), xnp.sort(x, 0))),
        (x,),
        (
            np.zeros(3, _F32),
            np.ones((0, 2), _F32),
            x,
        ),
    )


def _grouped_convolution() -> Guard:
    x = _rng().integers(-3, 4, (2, 6, 5, 4)).astype(_F32)
    kernel = _rng().integers(-3, 4, (3, 3, 1, 4)).astype(_F32)

    def f(x: Any, k: Any) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(
            x, k, (1, 1), "VALID", dimension_numbers=numbers, feature_group_count=4
        )

    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))
    return f, (x, kernel), np.einsum("nhwcij,ijc->nhwc", windows, kernel[:, :, 0])


def _complex_choice() -> Guard:
    x = (_rng().normal(size=(2, 9)) + 1j).astype(np.complex64)
    expected = np.where(x[0].real > 0, x[0], x[1])
    return (lambda a, b: xnp.where(a.real > 0, a, b)), (x[0], x[1]), expected


_GUARDS = (
    *(_converted_products, _integer_products, _byte_products, _half_products, _narrow_reductions),
    *(_broadcast_reductions, _differences, _indices_out_of_bounds, _scatters_into_slices),
    *(_aliased_updates, _loops, _branches, _division, _rounding, _order, _many_operands, _empty),
    *(_grouped_convolution, _complex_choice),
)


def rows() -> Iterator[Row]:
    """One for each program."""
    for guard in _GUARDS:
        yield Row(f"hazards/{guard.__name__[1:]}", functools.partial(_run, guard))


def _run(guard: Callable[[], Guard], setting: Setting) -> Outcome:
    function, operands, expected = guard()
    with xpr.default_device(setting.runtime):
        found = xpr.jit(function)(*operands)
        pairs = zip(
            xpr.tree.leaves(found),
            xpr.tree.leaves(expected) if isinstance(expected, tuple) else [expected],
            strict=True,
        )
        errors = [setting.close(a, b, 1e-5, 1e-5) for a, b in pairs]
    return {"error": max(errors)}
