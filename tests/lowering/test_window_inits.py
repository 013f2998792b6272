"""Several reductions over windows that begin with the same number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering import iree_util
from tests.lowering.iree_util import MENDED, Call
from tests.lowering.test_ir import graph_of
from xpr import lax
from xpr.lowering import passes
from xpr.lowering.ir.printer import print_module
from xpr.lowering.targets import flags

BARRIER = "stablehlo.optimization_barrier"
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
Y = 10 * X + 1
SIZE, STRIDES = (1, 1, 3), (1, 2, 3)


def windows(x: Any, size: Any = SIZE, strides: Any = STRIDES) -> Any:
    """The windows of an array of three axes, as axes behind those of the results."""
    view = np.lib.stride_tricks.sliding_window_view(x, size)
    return view[:: strides[0], :: strides[1], :: strides[2]]


def sums(x: Any, size: Any = SIZE, strides: Any = STRIDES) -> Any:
    return lax.reduce_window(x, np.float32(0), lax.add, size, strides, "VALID")


def test_two_sums_over_windows_share_an_array_with_the_plainest_flags() -> None:
    window = (
        "<{window_dimensions = array<i64: 1, 3>, window_strides = array<i64: 1, 3>, "
        "window_dilations = array<i64: 1, 1>, padding = dense<0> : tensor<2x2xi64>}>"
        + iree_util.region(
            "ab",
            "f32",
            "%s = stablehlo.add %a, %b : tensor<f32>\nstablehlo.return %s : tensor<f32>",
        )
        + ": (tensor<4x3xf32>, tensor<f32>) -> tensor<4x1xf32>\n"
    )
    text = iree_util.function(
        "main",
        "%x: tensor<4x3xf32>, %y: tensor<4x3xf32>",
        "tensor<4x1xf32>, tensor<4x1xf32>",
        "%zero = stablehlo.constant dense<0.0> : tensor<f32>\n"
        f'%u = "stablehlo.reduce_window"(%x, %zero) {window}'
        f'%v = "stablehlo.reduce_window"(%y, %zero) {window}'
        "%u, %v",
    )
    module, _ = iree_util.compile_with(text, flags._PLAIN)
    assert module is not None
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    _, (answer,) = iree_util.run(module, [Call("main", [x, 10 * x])])
    sums_ = x.sum(1, keepdims=True)
    assert not all(map(np.array_equal, answer.results, [sums_, 10 * sums_])), MENDED


@pytest.fixture
def plainest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flags, "_FAST", flags._PLAIN)
    monkeypatch.setenv("XPR_CACHE", "0")


def many(x: Any, y: Any, n: Any) -> list[Any]:
    """Sums of as many elements, also of other shapes, and in a loop's body."""
    highest = [lax.reduce_window(v, -jnp.inf, lax.max, SIZE, STRIDES, "VALID") for v in (x, y)]
    looped = lax.fori_loop(0, n, lambda i, a: a + sums(y + i) - sums(x), sums(x))
    return [sums(x), sums(y), sums(x, (2, 1, 1), (1, 1, 1))[:, 2:], *highest, looped]


def test_many_reductions_over_windows(plainest: None) -> None:
    found = xpr.jit(many)(X, Y, 3)
    x, y = (windows(v).sum((3, 4, 5)) for v in (X, Y))
    expected = [
        x,
        y,
        windows(X, (2, 1, 1), (1, 1, 1)).sum((3, 4, 5))[:, 2:],
        *(windows(v).max((3, 4, 5)) for v in (X, Y)),
        x + sum(windows(Y + i).sum((3, 4, 5)) - x for i in range(3)),
    ]
    for i, (one, other) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_array_equal(one, other, err_msg=str(i))


def test_without_the_pass_two_sums_are_wrong(
    plainest: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(passes.PASSES, "window_inits")
    found = xpr.jit(lambda x, y: (sums(x), sums(y)))(X, Y)
    expected = [windows(v).sum((3, 4, 5)) for v in (X, Y)]
    assert not all(map(np.array_equal, found, expected)), MENDED


def test_a_number_that_is_a_result_and_the_init_of_a_single_one(plainest: None) -> None:
    def whole(x: Any) -> Any:
        return sums(x, (2, 3, 4), (1, 1, 1))

    zero = np.float32(0)
    found = xpr.jit(
        lambda x, y: (whole(x), lax.convert_element_type(zero, jnp.float32), whole(y), jnp.zeros(4))
    )(X, Y)
    expected = X.sum().reshape(1, 1, 1), zero, Y.sum().reshape(1, 1, 1), np.zeros(4)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    found = xpr.jit(lambda x, y: (sums(x), jnp.zeros(4), sums(y)))(X, Y)
    np.testing.assert_array_equal(found[1], np.zeros(4))


def _barriers(function: Callable[..., Any], *args: Any) -> int:
    def count() -> int:
        return print_module(graph_of(xpr.make_jaxpr(function)(*args), "cpu"), "m").count(BARRIER)

    with pytest.MonkeyPatch.context() as patch:
        with_pass = count()
        patch.delitem(passes.PASSES, "window_inits")
        return with_pass - count()


def test_where_barriers_are_put() -> None:
    assert _barriers(lambda x, y: (sums(x), sums(y)), X, Y) == 1
    assert _barriers(lambda x, y: (sums(x), sums(y), sums(x + y)), X, Y) == 2
    assert _barriers(lambda x, y: (sums(x), y), X, Y) == 0
    # Another number of elements, and another number to begin with.
    assert _barriers(lambda x, y: (sums(x), sums(y, (1, 1, 1))), X, Y) == 0
    highest = lambda y: lax.reduce_window(y, -jnp.inf, lax.max, SIZE, STRIDES, "VALID")  # noqa: E731
    assert _barriers(lambda x, y: (sums(x), highest(y)), X, Y) == 0
