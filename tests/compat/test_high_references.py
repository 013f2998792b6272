"""References to arrays, in programs that have primitives on high values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.compat import modules
from xpr.compat.boxes import Box
from xpr.compat.modules.experimental import hijax


class Double(hijax.VJPHiPrimitive):
    def __init__(self, aval: Any) -> None:
        self.in_avals = (aval,)
        self.out_aval = aval
        self.params = {}
        super().__init__()

    def expand(self, x: Any) -> Any:
        return x * 2


def double(x: Any) -> Any:
    return Double(modules.typeof(x))(x)


@pytest.mark.parametrize("run", [lambda f: f, xpr.jit])
def test_what_a_function_closes_over(run: Callable[[Any], Any]) -> None:
    ref = xpr.new_ref(jnp.float32(1))

    def f(x: Any) -> Any:
        ref[...] += double(x)
        return ref[...]

    call = run(f)
    assert float(call(jnp.float32(2))) == 5
    assert float(call(jnp.float32(3))) == 11
    assert float(ref[...]) == 11


@pytest.mark.parametrize("run", [lambda f: f, xpr.jit])
def test_loops_and_branches(run: Callable[[Any], Any]) -> None:
    ref = xpr.new_ref(jnp.float32(1))

    def body(c: Any, x: Any) -> Any:
        ref[...] += double(x)
        return c + x, ref[...]

    total, seen = run(lambda xs: xpr.lax.scan(body, jnp.float32(0), xs))(jnp.arange(3.0))
    assert float(total) == 3
    np.testing.assert_array_equal(seen, [1, 3, 7])
    assert float(ref[...]) == 7

    def write(x: Any) -> None:
        ref[...] = double(x)

    def keep(x: Any) -> None:
        del x

    branched = run(lambda p, x: xpr.lax.cond(p, write, keep, x))
    branched(False, jnp.float32(4))
    assert float(ref[...]) == 7
    branched(True, jnp.float32(4))
    assert float(ref[...]) == 8

    def step(i: Any) -> Any:
        ref[...] = double(ref[...])
        return i + 1

    assert int(run(lambda i: xpr.lax.while_loop(lambda i: i < 3, step, i))(0)) == 3
    assert float(ref[...]) == 64


def test_arguments_of_jit() -> None:
    @xpr.jit
    def f(ref: Any, x: Any) -> Any:
        ref[...] = double(x)
        return x + 1

    ref = xpr.new_ref(jnp.zeros(2))
    np.testing.assert_array_equal(f(ref, jnp.arange(2.0)), [1, 2])
    np.testing.assert_array_equal(ref[...], [0, 2])


@pytest.mark.parametrize("run", [lambda f: f, xpr.jit])
def test_with_a_box(run: Callable[[Any], Any]) -> None:
    @xpr.jit
    def f(box: Any, ref: Any, x: Any) -> Any:
        ref[...] += box.get() * x
        box.set(ref[...])
        return ref[...]

    box, ref = Box(jnp.float32(3)), xpr.new_ref(jnp.float32(1))
    assert float(run(f)(box, ref, jnp.float32(2))) == 7
    assert [float(box.get()), float(ref[...])] == [7, 7]
    assert float(run(lambda x: f(box, ref, x))(jnp.float32(2))) == 21
    assert [float(box.get()), float(ref[...])] == [21, 21]


def test_references_that_are_made_inside() -> None:
    def f(xs: Any) -> Any:
        ref = xpr.new_ref(jnp.float32(0))

        def body(c: Any, x: Any) -> Any:
            ref[...] += double(x)
            return c, None

        xpr.lax.scan(body, 0.0, xs)
        return ref[...]

    assert float(xpr.jit(f)(jnp.arange(3.0))) == 6
    assert float(f(jnp.arange(3.0))) == 6
