"""Contexts that change what is traced, and that forbid: `make_user_context`, `no_execution`."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp


def test_functions_are_traced_for_each_value() -> None:
    scale, shift = xpr.make_user_context(1), xpr.make_user_context()
    traced = []

    @xpr.jit
    def f(x: Any) -> Any:
        traced.append((scale.value, shift.value))
        return x * scale.value + (shift.value or 0)

    x = jnp.arange(3)
    assert f(x).tolist() == [0, 1, 2]
    with scale(5):
        assert f(x).tolist() == [0, 5, 10]
        with shift(1), scale(2):
            assert f(x).tolist() == [1, 3, 5]
        assert f(x).tolist() == [0, 5, 10]
        seen: list[Any] = []
        thread = threading.Thread(target=lambda: seen.append(scale.value))
        thread.start()
        thread.join()
        assert seen == [1]
    assert f(x).tolist() == [0, 1, 2]
    assert traced == [(1, None), (5, None), (2, 1)]
    with pytest.raises(TypeError, match="unhashable"):
        with scale([]):
            pass
    with pytest.raises(KeyError, match="inside"):
        with scale(7):
            raise KeyError("inside")
    assert scale.value == 1


def test_nothing_runs() -> None:
    f = xpr.jit(lambda x: x * 2)
    x = jnp.ones(3)
    f(x)
    _ = x + 1
    for call, match in (
        (lambda: f(x), "the program .* was to run, but 'no_execution' is set"),
        (lambda: x + 1, "the operation add was to run"),
        (lambda: jnp.sin(x), "the operation sin was to run"),
        (lambda: xpr.grad(lambda v: v.sum())(x), "was to run"),
    ):
        with xpr.no_execution(), pytest.raises(RuntimeError, match=match):
            call()
    with xpr.no_execution():
        assert f.lower(x).out_info.shape == (3,)
        assert xpr.eval_shape(f, x).shape == (3,)
    np.testing.assert_array_equal(f(x) + 1, [3, 3, 3])


def test_sums_of_half_precision() -> None:
    with xpr.allow_f16_reductions(False):
        for dtype in ("float16", "bfloat16"):
            with pytest.raises(ValueError, match=rf"reduce_sum on operand {dtype}\[2,3\] is not"):
                xpr.lax.reduce_sum(jnp.ones((2, 3), dtype), (1,))
            assert xpr.lax.reduce_sum(jnp.ones((2, 1), dtype), (1,)).shape == (2,)
        assert float(xpr.lax.reduce_sum(jnp.ones(3), (0,))) == 3
        assert float(jnp.sum(jnp.ones(3, "float16"))) == 3
    assert float(xpr.lax.reduce_sum(jnp.ones(3, "float16"), (0,))) == 3


def test_rules_of_two_kinds_on_one_function() -> None:
    @xpr.custom_vjp
    @xpr.custom_batching.custom_vmap
    def f(x: Any) -> Any:
        return x + 1

    f.defvjp(lambda x: (f(x), None), lambda _, ct: (ct * 7,))

    @f.def_vmap
    def rule(size: int, batched: Any, x: Any) -> Any:
        return x + 10, batched[0]

    assert xpr.vmap(f)(jnp.arange(3)).tolist() == [10, 11, 12]
    assert float(xpr.grad(f)(1.0)) == 7
    assert rule(1, [True], 1) == (11, True)
    with pytest.raises(AttributeError, match="custom_vmap first"):
        xpr.custom_vjp(jnp.sin).def_vmap(rule)
