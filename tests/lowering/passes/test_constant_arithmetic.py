"""Numbers made of numbers are computed when a program is lowered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.iree_util import MENDED
from xpr import lax
from xpr.lowering import passes
from xpr.lowering.iree import driver, jobs
from xpr.lowering.targets import get_target

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def loss(x: Any) -> Any:
    return -jnp.mean(jnp.sum(xpr.nn.log_softmax(x) * x, -1))


def text_of(function: Callable[..., Any], *args: Any) -> str:
    return xpr.jit(function).lower(*args).as_text("iree")


def has_globals(function: Callable[..., Any], *args: Any) -> bool:
    """Whether something is computed when the module is loaded."""
    lowered = xpr.jit(function).lower(*args)
    job = jobs.new_job(lowered.as_text("iree"), get_target("cpu"), lowered._module.hints)
    text, said = driver.text_at("global-optimization", job.text, job.flag_sets[0], job.changes())
    assert text is not None, said
    return "util.initializer" in text


def test_the_gradient_of_a_mean_has_no_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    gradient = xpr.grad(loss)
    assert not has_globals(gradient, X)
    e = np.exp(X) / np.exp(X).sum(-1, keepdims=True)
    wanted = (e * X.sum(-1, keepdims=True) - X - np.log(e)) / len(X)
    np.testing.assert_allclose(xpr.jit(gradient)(X), wanted, rtol=1e-5, atol=1e-6)
    monkeypatch.delitem(passes.PASSES, "constant_arithmetic")
    assert has_globals(gradient, X), MENDED


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_are_computed_in_their_own_precision(dtype: type[np.floating]) -> None:
    with xpr.enable_x64(True):
        x = X.astype(dtype)

        def function(x: Any) -> Any:
            a, b = (lax.full_like(x, v, shape=()) for v in (0.1, 0.7))
            c = lax.div(lax.neg(lax.mul(a, b)), lax.sub(a, lax.add(b, b)))
            return x * c, lax.mul(lax.broadcast(c, (3, 4)), lax.full_like(x, 3.0)) - x

        found = xpr.jit(function)(x)
        text = text_of(function, x)
    a, b = dtype(0.1), dtype(0.7)
    c = -(a * b) / (a - (b + b))
    for got, wanted in zip(found, (x * c, c * dtype(3) - x), strict=True):
        np.testing.assert_array_max_ulp(np.asarray(got), wanted, maxulp=1)
    assert text.count("stablehlo.multiply") == 1
    assert text.count("stablehlo.subtract") == 1
    assert not any(f"stablehlo.{name}" in text for name in ("add", "divide", "negate"))


def test_what_is_not_finite_is_left_to_the_program() -> None:
    def function(x: Any) -> Any:
        zero, large = lax.full_like(x, 0.0, shape=()), lax.full_like(x, 3e38, shape=())
        return x * (zero / zero), x * (large * large), x / (large - large)

    found = xpr.jit(function)(X)
    with np.errstate(all="ignore"):
        wanted = [X * np.nan, X * np.float32(np.inf), X / np.float32(0)]
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    assert "stablehlo.divide" in text_of(function, X)


def test_integers_and_narrow_floats_stay() -> None:
    def function(x: Any) -> Any:
        a = lax.full_like(x, 3, shape=())
        return x + a * a

    for dtype in (np.int32, np.float16, jnp.bfloat16):
        x = X.astype(dtype)
        np.testing.assert_array_equal(xpr.jit(function)(x), x + np.asarray(9, dtype))
