"""Loops on elements that know nothing of each other are cut in parts, and come out the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.core.config import override


@pytest.fixture(autouse=True)
def _in_double_precision() -> Any:
    with override("enable_x64", True), override("enable_checks", True):
        yield


def _workgroups(function: Callable[..., Any], *args: Any) -> list[int]:
    """How many workgroups the hand-written dispatches of a program have."""
    lines = xpr.jit(function).lower(*args).as_text("iree").splitlines()
    return [int(x.split()[3]) for x in lines if x.strip().startswith("%count = ")]


def _newton(np_: Any, root: Any, a: Any, near: Any) -> Any:
    """A number and two arrays, one of them of booleans; another array and a number are read."""
    new = 0.5 * (root + a / root)
    return new, near | (np_.abs(new - root) < 1e-3)


def _for(count: Any) -> Callable[..., Any]:
    def run(a: Any, near: Any, scale: Any) -> Any:
        def step(i: Any, s: Any) -> Any:
            root, near = _newton(jnp, s[0], a * scale, s[1])
            return root, near, s[2] + i

        return lax.fori_loop(0, count, step, (jnp.ones_like(a), near, jnp.int64(0)))

    return run


@pytest.mark.parametrize("shape", [(96, 250), (24_001,), (3, 8000)])
def test_newtons_method_on_many_numbers(shape: tuple[int, ...]) -> None:
    """For known and unknown counts of rounds; 24001 is a prime, and is not cut."""
    random = np.random.default_rng(0)
    a, near = random.uniform(1.0, 9.0, shape), random.uniform(size=shape) < 0.01
    given = a.copy(), near.copy()
    scale = np.float64(1.5)
    unknown = lambda a, near, scale, n: _for(n)(a, near, scale)  # noqa: E731
    cut = [n > 1 for n in _workgroups(_for(20), a, near, scale)]
    assert cut == [shape != (24_001,)]
    assert [n > 1 for n in _workgroups(unknown, a, near, scale, 20)] == cut
    root, reached, total = np.ones(shape), near, 0
    for i in range(20):
        root, reached = _newton(np, root, a * scale, reached)
        total += i
    for found in (xpr.jit(_for(20))(a, near, scale), xpr.jit(unknown)(a, near, scale, 20)):
        np.testing.assert_allclose(found[0], root, rtol=1e-14)
        np.testing.assert_array_equal(found[1], reached)
        assert int(found[2]) == total
    np.testing.assert_array_equal(a, given[0])
    np.testing.assert_array_equal(near, given[1])


def test_what_depends_on_other_elements_is_not_cut() -> None:
    x = np.ones(24_000)

    def step(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: lax.fori_loop(0, 20, lambda _, x: change(x) * 0.5 + x, x)

    assert _workgroups(step(lambda x: x + 1.0), x) == [24]
    assert _workgroups(step(lambda x: jnp.roll(x, 1)), x) == [1]
    assert _workgroups(step(lambda x: x + jnp.sum(x)), x) == [1]
    assert _workgroups(step(lambda x: x + jnp.arange(24_000.0)), x) == [1]


def test_arrays_of_scalars_that_vary() -> None:
    """Rounds that depend on the counter and on numbers carried, and derivatives of them."""
    x = np.linspace(0.5, 1.5, 24_000)

    def run(x: Any) -> Any:
        def step(i: Any, s: Any) -> Any:
            y, k = s
            return y * k + jnp.where(i % 2 == 0, x, 1.0), k * 0.75

        return lax.fori_loop(0, 40, step, (x, jnp.float64(0.5)))[0]

    y, slope, k = x, np.ones_like(x), 0.5
    for i in range(40):
        y, slope, k = y * k + (x if i % 2 == 0 else 1.0), slope * k + (i % 2 == 0), k * 0.75
    found, tangent = xpr.jit(lambda x: xpr.jvp(run, (x,), (jnp.ones_like(x),)))(x)
    np.testing.assert_allclose(found, y, rtol=1e-13)
    np.testing.assert_allclose(tangent, slope, rtol=1e-13)
