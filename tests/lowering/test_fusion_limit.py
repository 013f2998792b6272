"""Programs of many arrays, of which IREE would fuse more than a dispatch can take.

Loops of many arrays are in `tests/lax/test_loops.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import xpr
from tests.lowering.iree_util import MENDED
from xpr import lax
from xpr.lowering import passes
from xpr.test_util import check_grads

_ARRAYS = [np.linspace(i, i + 1, 24, dtype="f4").reshape(8, 3) for i in range(40)]


def _chain(xs: Sequence[Any]) -> Any:
    total = xs[0]
    for x in xs[1:]:
        total = total * 0.5 + x
    return total


def _in_a_branch(xs: Sequence[Any]) -> Any:
    return lax.cond(xs[0][0, 1] > 0, _chain, lambda xs: xs[0], xs)


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (_chain, _chain),
        (lambda xs: _chain(xs[:20]) + _chain(xs[20:]), None),
        (lambda xs: xpr.jit(lambda a, b: a * b)(_chain(xs[:20]), _chain(xs[20:])), None),
        (lambda xs: sum(_chain(xs[i : i + 8]) for i in range(0, 40, 8)), None),
        (_in_a_branch, _chain),
    ],
    ids=["chain", "two", "call", "several", "branch"],
)
def test_long_sums(f: Callable[[Any], Any], expected: Callable[[Any], Any] | None) -> None:
    found = xpr.jit(f)(_ARRAYS)
    np.testing.assert_allclose(found, (expected or f)(_ARRAYS), rtol=1e-6)


def test_without_the_pass_a_long_sum_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(passes.PASSES, "binding_limit")
    with pytest.raises(IndexError, match="binding count 41 > 32"):
        print(xpr.jit(lambda xs: _chain(xs))(_ARRAYS), MENDED)


def _barriers(f: Callable[[Any], Any], xs: Any) -> int:
    return xpr.jit(f).lower(xs).as_text("iree").count("stablehlo.optimization_barrier")


def test_what_a_loop_or_a_branch_gives_lies_in_memory() -> None:
    """What it was computed from does not count any more."""

    def f(xs: Sequence[Any]) -> Any:
        first = lax.cond(xs[0][0, 1] > 0, _chain, lambda xs: xs[0], xs[:15])
        return _chain([first, *xs[15:30]])

    assert _barriers(f, _ARRAYS[:30]) == 0
    found = xpr.jit(f)(_ARRAYS[:30])
    np.testing.assert_allclose(found, _chain([_chain(_ARRAYS[:15]), *_ARRAYS[15:30]]), rtol=1e-6)


def test_only_what_reads_most_has_a_barrier() -> None:
    """One of 15 arrays, behind which 10 are left, and the other 3."""
    assert _barriers(lambda xs: _chain(xs[:15]) * _chain(xs[15:24]), _ARRAYS[:24]) == 1


def test_constants_are_no_arrays() -> None:
    def f(xs: Sequence[Any]) -> Any:
        return sum(x * k + xpr.numpy.arange(3) for k, x in enumerate([*xs, *xs, *xs], 2))

    assert _barriers(f, _ARRAYS[:10]) == 0


def test_few_arrays_have_no_barriers() -> None:
    text = xpr.jit(lambda xs: _chain(xs) / 2).lower(_ARRAYS[:12]).as_text("iree")
    assert "stablehlo.optimization_barrier" not in text


def test_layers_have_no_barriers_between() -> None:
    """What a product of matrices reads is not fused with what reads its result."""
    layers = [(np.ones((4, 4), "f4"), np.ones(4, "f4"))] * 12

    def gradient(layers: Any, x: Any) -> Any:
        def loss(layers: Any) -> Any:
            y = x
            for w, b in layers:
                y = xpr.numpy.tanh(y @ w + b)
            return y.mean()

        return xpr.grad(loss)(layers)

    text = xpr.jit(gradient).lower(layers, np.ones((4, 4), "f4")).as_text("iree")
    assert "stablehlo.optimization_barrier" not in text


def test_gradients_that_keep_many_arrays() -> None:
    """The loop forwards on registers would have more results than a dispatch can have."""

    def f(x: Any) -> Any:
        def step(carry: Any, t: Any) -> Any:
            for k in range(20):
                carry = xpr.numpy.sin(carry + t * k) * 0.5 + xpr.numpy.cos(carry) * carry
            return carry, None

        return lax.scan(step, x, xpr.numpy.linspace(0.1, 0.2, 3))[0].sum()

    with xpr.enable_x64():
        check_grads(f, (np.linspace(0.1, 0.2, 4),), order=1, modes=["rev"])
