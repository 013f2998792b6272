"""Updates of what branches and loops return: arrays from outside of them stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.conftest import first_device
from tests.harness import assert_same, run_compiled, run_reference
from tests.lowering.iree_util import MENDED
from tests.op_row import np_dtype
from xpr import lax
from xpr.lowering import passes

Results = tuple[Any, ...]


def total(x: Any) -> Any:
    """A dispatch that reads `x` behind an update."""
    return jnp.cumsum(x, axis=0)


def argument(x: Any, t: Any) -> Results:
    u = lax.cond(t, lambda: x, lambda: x * 2)
    return u.at[2].set(7), total(x)


def computed(x: Any, t: Any) -> Results:
    y = x * 3
    u = lax.cond(t, lambda: y, lambda: y * 2)
    return u.at[2].set(7), total(y)


def equal(x: Any, t: Any) -> Results:
    """IREE makes one array of two that are computed alike."""
    y = x * 3
    u = lax.cond(t, lambda: y, lambda: x * 2)
    return u.at[2].set(7), total(x * 3)


def scattered(x: Any, t: Any) -> Results:
    u = lax.cond(t, lambda: x, lambda: x * 2)
    return u.at[jnp.array([0, 2])].add(7), total(x)


def switched(x: Any, t: Any) -> Results:
    u = lax.switch(t, [lambda: x * 3, lambda: x, lambda: x * 2])
    return u.at[2].set(7), total(x)


def twice(x: Any, t: Any) -> Results:
    u, w = lax.cond(t, lambda: (x, x), lambda: (x * 2, x * 3))
    return u.at[2].set(7), w


def twice_made(x: Any, t: Any) -> Results:
    def branch() -> Results:
        z = x * 5
        return z, z

    u, w = lax.cond(t, branch, lambda: (x * 2, x * 4))
    return u.at[2].set(7), total(w)


def nested(x: Any, t: Any) -> Results:
    y = x * 3
    u = lax.cond(t, lambda: lax.cond(t < 2, lambda: y, lambda: y - 1), lambda: y * 2)
    return u.at[2].set(7), total(y)


def chained(x: Any, t: Any) -> Results:
    y = x * 3
    u = lax.cond(t, lambda: y, lambda: y * 2)
    w = lax.cond(t, lambda: u, lambda: u + 1)
    return w.at[2].set(7), total(y), total(u)


def reshaped(x: Any, t: Any) -> Results:
    y = x * 3
    u = lax.cond(t, lambda: y.reshape(-1), lambda: y.reshape(-1) * 2)
    w = lax.cond(t, lambda: y, lambda: y * 2)
    return u.at[2].set(7), w.reshape(-1).at[3].set(8), total(y)


def updated_inside(x: Any, t: Any) -> Results:
    y = x * 3
    u = lax.cond(t, lambda: y.at[1].set(7), lambda: y)
    return u.at[2].set(8), total(y)


def called(x: Any, t: Any) -> Results:
    y = x * 3
    choose = xpr.jit(lambda y: lax.cond(t, lambda: y, lambda: y * 2))
    change = xpr.jit(lambda u: u.at[2].set(7))
    return change(choose(y)), total(y)


def in_a_loop(x: Any, t: Any) -> Results:
    y = x * 2

    def step(i: Any, s: Any) -> Any:
        u = lax.cond(i > 0, lambda: s, lambda: y)
        w = lax.cond(i > 0, lambda: y, lambda: s)
        return (u.at[i].set(7) + w.at[2].set(1) + total(s)) % 5

    return (lax.fori_loop(0, t + 2, step, x), y)


def in_a_scan(x: Any, t: Any) -> Results:
    def step(s: Any, i: Any) -> Results:
        u = lax.cond(i > t, lambda: s, lambda: s * 2)
        return u.at[i].set(7), total(s)

    return lax.scan(step, x, jnp.arange(3))


def no_rounds(x: Any, t: Any) -> Results:
    y = x * 3

    def loop(start: Any) -> Any:
        step: Callable[[Any], Any] = lambda s: (s[0] + 1, s[1] * 2 + total(s[1]))  # noqa: E731
        return lax.while_loop(lambda s: s[0] > 3, step, (t, start))[1]

    return loop(x).at[2].set(7), loop(y).at[2].set(7), total(x), total(y)


def handed_on(x: Any, t: Any) -> Results:
    y = x * 3
    step: Callable[[Any], Any] = lambda s: (s[0] + 1, y, s[1])  # noqa: E731
    _, u, w = lax.while_loop(lambda s: s[0] < 3, step, (t, y * 2, y * 4))
    return u.at[2].set(7), w.at[1].set(9), total(y)


def negated(x: Any, t: Any) -> Results:
    u = lax.cond(t, lambda: x, lambda: ~x)
    return u.at[2].set(True), total(x)


FUNCTIONS: tuple[Callable[[Any, Any], Results], ...] = (
    *(argument, computed, equal, scattered, switched, twice, twice_made, nested, chained),
    *(reshaped, updated_inside, called, in_a_loop, in_a_scan, no_rounds, handed_on),
)


@pytest.mark.parametrize("dtype", ["float32", "int8", "complex64", "bool"])
def test_what_branches_and_loops_were_given_stays(dtype: str, runtime: str) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (3, 4)).astype(np_dtype(dtype))
    of_numbers = FUNCTIONS if dtype == "float32" else (argument, twice, nested)
    functions = (negated,) if dtype == "bool" else of_numbers
    cases = [(f, (x, np.array(t, np.int32))) for f in functions for t in (0, 1)]
    found, expected = run_compiled(cases, runtime), run_reference(cases)
    for (f, (_, t)), a, b in zip(cases, found, expected, strict=True):
        for i, (given, wanted) in enumerate(zip(a, b, strict=True)):
            assert_same(given, wanted, what=f"{f.__name__}({t}) result {i}")


@pytest.mark.parametrize("platform", ["cpu", "vulkan"])
def test_arguments_stay(platform: str) -> None:
    x = np.arange(2560, dtype=np.float32).reshape(64, 40)
    device = first_device(platform)
    given, taken = xpr.device_put((x, np.int32(1)), device)
    updated, sums = xpr.jit(argument)(given, taken)
    expected = x.copy()
    expected[2] = 7
    np.testing.assert_array_equal(updated, expected)
    np.testing.assert_array_equal(sums, np.cumsum(x, axis=0))
    np.testing.assert_array_equal(given, x)


def test_without_the_pass_an_array_is_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """When this fails, IREE knows what a branch returns, and the pass can go."""
    monkeypatch.delitem(passes.PASSES, "region_results")
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    _, sums = xpr.jit(lambda x, t: computed(x, t))(x, np.int32(1))
    overwritten = 3 * x
    overwritten[2] = 7
    np.testing.assert_array_equal(sums, np.cumsum(overwritten, axis=0), err_msg=MENDED)


def test_what_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones((64, 40), np.float32)

    def copies(function: Callable[[Any, Any], Any], **options: Any) -> int:
        lowered = xpr.jit(lambda x, t: function(x, t), **options).lower(x, np.int32(1))
        return lowered.as_text("iree").count("stablehlo.xor")

    def alone(x: Any, t: Any) -> Any:
        """Nothing but the branch reads what it returns."""
        y = jnp.sin(x)
        return lax.cond(t, lambda: y, lambda: y + y.sum()).at[2].set(7)

    def made(x: Any, t: Any) -> Any:
        """What the branches return is made in them."""
        y = jnp.sin(x)
        u, w = lax.cond(t, lambda: (y + 1, y), lambda: (y * 2, y))
        return u.at[2].set(7), w, total(y)

    def apart(x: Any, t: Any) -> Any:
        """Each branch returns two arrays, now in this order, now in that."""
        y, z = jnp.sin(x), jnp.cos(x)
        u, w = lax.cond(t, lambda: (y, z), lambda: (z, y))
        return u.at[2].set(7), w.sum()

    def updates(x: Any, t: Any) -> Any:
        return lax.fori_loop(0, t, lambda i, s: s.at[i].set(7), jnp.sin(x)).at[2].set(8)

    def first(x: Any, t: Any) -> Any:
        return lax.cond(t, lambda: x, lambda: x * 2).at[2].set(7)

    assert [copies(f) for f in (argument, computed, alone, made, apart)] == [1, 1, 0, 0, 0]
    assert copies(updates) == 0
    # A donated argument may be overwritten, any other may not.
    assert [copies(first, donate_argnums=given) for given in ((), (0,))] == [1, 0]
    monkeypatch.delitem(passes.PASSES, "region_results")
    assert copies(argument) == 0
