"""Updates of arrays that are used again: what was there before them is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from iree.compiler import ir
from iree.compiler.passmanager import PassManager

import xpr
from tests.harness import assert_same, run_compiled, run_reference
from tests.op_row import np_dtype
from xpr import lax
from xpr.lowering import passes


def _update(x: Any, u: Any, i: Any) -> Any:
    return lax.dynamic_update_slice(x, u, (i,))


def _plain(x: Any, u: Any, i: Any) -> Any:
    return _update(x, u, i) * x


def _scattered(x: Any, u: Any, i: Any) -> Any:
    return lax.optimization_barrier(x).at[xpr.numpy.stack([i, i + 2])].set(u[:2]) * x


def _one(x: Any, u: Any, i: Any) -> Any:
    return x.at[i].add(u[0]) * x


def _behind(x: Any, u: Any, i: Any) -> Any:
    return _update(lax.optimization_barrier(x), u, i) * x


def _reshaped(x: Any, u: Any, i: Any) -> Any:
    y = lax.optimization_barrier(x).reshape(-1, 1)
    return lax.dynamic_update_slice(y, u[:, None], (i, 0))[:, 0] * x


def _looped(x: Any, u: Any, i: Any) -> Any:
    y = lax.optimization_barrier(x)
    return lax.fori_loop(0, 3, lambda k, v: _update(v, u, i + k * 4), y) * x


def _branched(x: Any, u: Any, i: Any) -> Any:
    y = lax.optimization_barrier(x)
    return lax.cond(i > 0, lambda v: _update(v, u, i), lambda v: v, y) * x


def _called(x: Any, u: Any, i: Any) -> Any:
    return xpr.jit(lambda v: _update(v, u, i))(lax.optimization_barrier(x)) * x


def _before(x: Any, u: Any, i: Any) -> Any:
    """What went into the barrier is updated, not what it gave."""
    y = x + 1
    kept = lax.optimization_barrier(y)
    return _update(y, u, i) * kept


def _before_reshaped(x: Any, u: Any, i: Any) -> Any:
    y = x + 1
    kept = lax.optimization_barrier(y.reshape(-1, 1))
    return y.at[i].set(u[0]) * kept[:, 0]


def _before_several(x: Any, u: Any, i: Any) -> Any:
    y = x + 1
    kept, _ = lax.optimization_barrier((y, u))
    return _update(y, u, i) * kept


def _before_called(x: Any, u: Any, i: Any) -> Any:
    y = x + 1
    held = xpr.jit(lambda v: lax.optimization_barrier(v))
    return _update(y, u, i) * held(y) * held(x)


def _called_before(x: Any, u: Any, i: Any) -> Any:
    y = x + 1
    kept = lax.optimization_barrier(y)
    updated = xpr.jit(lambda v: _update(v, u, i))
    return updated(y) * kept * updated(x)


def _taken(x: Any, u: Any, i: Any) -> Any:
    """The barrier is one that the gather puts there."""
    first = x[:1] + 1
    return first.at[i - i].add(u[0]) * xpr.numpy.take(first, 0, axis=0)


_FUNCTIONS: tuple[Callable[..., Any], ...] = (
    *(_plain, _scattered, _one, _behind, _reshaped, _looped, _branched, _called, _taken),
    *(_before, _before_reshaped, _before_several, _before_called, _called_before),
)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "int8", "bfloat16"])
def test_what_was_there_before_an_update_is_kept(dtype: str, runtime: str) -> None:
    rng = np.random.default_rng(1)
    x, u = (rng.integers(1, 5, n).astype(np_dtype(dtype)) for n in (37, 3))
    cases = [(f, (x, u, np.array(5, np.int32))) for f in _FUNCTIONS]
    found, expected = run_compiled(cases, runtime), run_reference(cases)
    for f, (a,), (b,) in zip(_FUNCTIONS, found, expected, strict=True):
        assert_same(a, b, what=f.__name__)


def test_without_the_pass_nothing_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether IREE then overwrites what is read later depends on the order of its dispatches."""
    x, u = np.arange(1, 4097, dtype=np.float32), np.full(3, 100, np.float32)

    def copies(function: Callable[..., Any]) -> int:
        text = (
            xpr.jit(lambda *args: function(*args))
            .lower(x, u, np.array(5, np.int32))
            .as_text("iree")
        )
        return text.count("stablehlo.xor")

    assert (copies(_plain), copies(_behind), copies(_called)) == (0, 1, 1)
    # A function that updates nothing is given what comes from a barrier as it is.
    assert copies(lambda x, u, i: xpr.jit(lambda v: v * 2)(lax.optimization_barrier(x))) == 0
    monkeypatch.delitem(passes.PASSES, "aliasing_updates")
    assert copies(_behind) == 0


def test_a_checkpointed_update_keeps_its_operand(runtime: str) -> None:
    x = np.arange(1, 9, dtype=np.float32)

    def gradient(x: Any) -> Any:
        inner = xpr.checkpoint(lambda x: x.at[2].set(x[3]) * x * x)
        return xpr.grad(lambda x: inner(x).sum() * x.sum())(x)

    cases = [(gradient, (x,))]
    ((found,),) = run_compiled(cases, runtime)
    ((expected,),) = run_reference(cases)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def _two_copies(u: Any, v: Any, i: Any, j: Any) -> Any:
    """Two updates of zeros, of which a barrier lets the compiler think that they are others'."""
    zeros = lax.optimization_barrier(xpr.numpy.zeros(3))
    first = xpr.numpy.zeros(3).at[i].add(u)
    return first, xpr.numpy.zeros(3).at[j].add(v * first), zeros


_TWO_COPIES = (
    np.array([1, 2, 3], "f4"),
    np.array([0.5, 0.25, 2], "f4"),
    np.array([2, 2, 0]),
    np.array([1, 0, 1]),
)


def test_copies_of_one_value_stay_apart() -> None:
    """Also when the compiler has merged what it takes for the same."""
    text = xpr.jit(_two_copies).lower(*_TWO_COPIES).as_text("iree")
    with ir.Context():
        module = ir.Module.parse(text)
        pipeline = "builtin.module(iree-stablehlo-input-transformation-pipeline)"
        PassManager.parse(pipeline).run(module.operation)
        merged = str(module)
    assert text.count("stablehlo.xor") == 2
    assert merged.count("arith.xori") == 2


def test_barriers_of_one_value_are_merged() -> None:
    """Why another kind stands in front of a copy: if this fails, all may be of one kind."""
    text = """
    func.func @f(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
      %a = stablehlo.optimization_barrier %x : tensor<3xf32>
      %b = stablehlo.optimization_barrier %x : tensor<3xf32>
      %c = util.optimization_barrier %x : tensor<3xf32>
      %d = util.optimization_barrier %x : tensor<3xf32>
      %y = stablehlo.add %a, %b : tensor<3xf32>
      %z = stablehlo.add %c, %d : tensor<3xf32>
      return %y, %z : tensor<3xf32>, tensor<3xf32>
    }"""
    with ir.Context():
        module = ir.Module.parse(text)
        PassManager.parse("builtin.module(func.func(cse))").run(module.operation)
        merged = str(module)
    assert merged.count("stablehlo.optimization_barrier") == 1
    assert merged.count("util.optimization_barrier") == 2


def test_two_updates_of_one_value() -> None:
    u, v, i, j = _TWO_COPIES
    first, second = np.zeros(3, "f4"), np.zeros(3, "f4")
    np.add.at(first, i, u)
    np.add.at(second, j, v * first)
    for got, wanted in zip(xpr.jit(_two_copies)(*_TWO_COPIES), (first, second, 0 * u), strict=True):
        np.testing.assert_array_equal(np.asarray(got), wanted)
