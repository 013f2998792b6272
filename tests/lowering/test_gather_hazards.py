"""Gathers that begin at places known to the compiler, of parts of axes, and of one element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.iree_util import MENDED, compile_with, status_of_compile
from tests.lowering.test_ir import graph_of
from xpr import lax
from xpr.lowering import passes
from xpr.lowering.ir.printer import print_module
from xpr.lowering.targets.flags import ProgramHints, llvm_cpu_flag_sets

_TEXT = """
module @m {
  func.func public @main(%x: tensor<4x64xf32>) -> tensor<3x3x64xf32> {
    %i = stablehlo.constant dense<0> : tensor<64x3x3x1xi32>
    %g = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<
        collapsed_slice_dims = [0], operand_batching_dims = [1], start_indices_batching_dims = [0],
        start_index_map = [0], index_vector_dim = 3>, slice_sizes = array<i64: 1, 1>,
        indices_are_sorted = false}>
      : (tensor<4x64xf32>, tensor<64x3x3x1xi32>) -> tensor<64x3x3xf32>
    %r = stablehlo.transpose %g, dims = [1, 2, 0] : (tensor<64x3x3xf32>) -> tensor<3x3x64xf32>
    return %r : tensor<3x3x64xf32>
  }
}
"""
FAST = llvm_cpu_flag_sets(ProgramHints())[0]
X = np.arange(4 * 64, dtype=np.float32).reshape(4, 64)


def test_known_starts_end_the_compiler() -> None:
    # It depends on what lies behind the compiler's array.
    assert any(status_of_compile(_TEXT) < 0 for _ in range(5)), MENDED


NUMBERS = lax.GatherDimensionNumbers((), (0,), (0,))
WITH_A_PART = lax.GatherDimensionNumbers((2,), (0,), (0,))


def _column(x: Any, i: Any) -> Any:
    return lax.gather(x, i, NUMBERS, (1,), mode="clip")


def _part_of_column(x: Any, i: Any) -> Any:
    """One element of an axis along which there is no start."""
    return lax.gather(x[None], i, WITH_A_PART, (1, 1), mode="clip")[:, :, 0]


def _known_starts(x: Any) -> Any:
    return xpr.vmap(_column, in_axes=(1, 0), out_axes=-1)(x, jnp.zeros((64, 3, 3, 1), int))


def _known_starts_of_parts(x: Any) -> Any:
    return xpr.vmap(_part_of_column, in_axes=(1, 0), out_axes=-1)(x, jnp.zeros((64, 3, 3, 1), int))


def _parts(x: Any) -> Any:
    i = jnp.arange(9 * 64).reshape(3, 3, 1, 64)
    return xpr.vmap(_part_of_column, in_axes=(1, -1), out_axes=-1)(x, i)


@pytest.mark.parametrize("function", [_known_starts, _known_starts_of_parts, _parts])
def test_starts_known_to_the_compiler(function: Callable[[Any], Any]) -> None:
    f = xpr.jit(function)
    text = f.lower(X).as_text("iree")
    assert [status_of_compile(text) for _ in range(3)] == [0] * 3
    np.testing.assert_array_equal(f(X), np.broadcast_to(X[0], (3, 3, 64)))


def test_without_the_pass_parts_end_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(passes.PASSES, "gathers")
    closed = xpr.make_jaxpr(_parts)(X)
    text = print_module(graph_of(closed, "cpu"), "m")
    # It depends on what lies behind the compiler's array.
    assert any(status_of_compile(text) < 0 for _ in range(5)), MENDED


@pytest.mark.usefixtures("plain_loops")
def test_without_the_pass_one_element_beside_a_reduction_does_not_compile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:

    def step(x: Any, _: Any) -> Any:
        return x * 0.5, jnp.median(x)

    closed = xpr.make_jaxpr(lambda x: lax.scan(step, x, None, 5))(X[:3, :4])
    guarded = print_module(graph_of(closed, "cpu"), "m")
    monkeypatch.delitem(passes.PASSES, "gathers")
    module, said = compile_with(print_module(graph_of(closed, "cpu"), "m"), FAST)
    assert module is None, MENDED
    assert any("requires the same type" in d.message for d in said)
    assert compile_with(guarded, FAST)[0] is not None


def test_one_element_is_computed_with_beside_a_reduction() -> None:
    @xpr.jit
    def both(x: Any, i: Any) -> Any:
        one = lax.gather(x, i, NUMBERS, (1,), mode="clip")
        return x.sum() + one * 0.5

    x = np.arange(12, dtype=np.float32)
    for place in range(12):
        found = both(x, np.array([[place]], np.int32))
        np.testing.assert_array_equal(found, [66 + place / 2])
