"""Slices whose neighbours are none in memory, read or written element by element.

IREE's code generator for processors does not get through with a gather, a reversal or a running sum
in one loop with such a slice; that for SPIR-V ends the process at a scatter into one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.conftest import skip_unless_usable
from tests.harness import run_compiled, run_reference
from tests.lowering.iree_util import MENDED, compile_with, status_of_compile
from tests.lowering.test_ir import graph_of
from xpr import lax
from xpr.lowering import passes
from xpr.lowering.ir.alignment import is_strided_part
from xpr.lowering.ir.printer import print_module
from xpr.lowering.targets import get_target
from xpr.lowering.targets.flags import ProgramHints, llvm_cpu_flag_sets

_REVERSED = """
func.func public @main(%x: tensor<8x6x5xf32>) -> tensor<8x6xf32> {
  %s = stablehlo.slice %x [0:8, 0:6, 1:2] : (tensor<8x6x5xf32>) -> tensor<8x6x1xf32>
  %m = stablehlo.reshape %s : (tensor<8x6x1xf32>) -> tensor<8x6xf32>
  %r = stablehlo.reverse %m, dims = [0] : tensor<8x6xf32>
  return %r : tensor<8x6xf32>
}"""
_SCATTERED = """
func.func public @main(%x: tensor<8x6x5xf32>, %i: tensor<4x1xi32>) -> tensor<8x6xf32> {
  %s = stablehlo.slice %x [0:8, 0:6, 1:2] : (tensor<8x6x5xf32>) -> tensor<8x6x1xf32>
  %m = stablehlo.reshape %s : (tensor<8x6x1xf32>) -> tensor<8x6xf32>
  %u = stablehlo.constant dense<0.0> : tensor<4x6xf32>
  %r = "stablehlo.scatter"(%m, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
      update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
      index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      stablehlo.return %b : tensor<f32>
  }) : (tensor<8x6xf32>, tensor<4x1xi32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  return %r : tensor<8x6xf32>
}"""


def test_a_reversed_slice_does_not_compile() -> None:
    module, said = compile_with(_REVERSED, llvm_cpu_flag_sets(ProgramHints())[0])
    assert module is None, MENDED
    assert "unrealized_conversion_cast" in said[0].message


def test_without_the_pass_a_reversed_slice_does_not_compile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(passes.PASSES, "strided_slices")
    closed = xpr.make_jaxpr(lambda x: x[:, :, 1][::-1])(np.ones((8, 6, 5), np.float32))
    text = print_module(graph_of(closed, "cpu"), "m")
    module, said = compile_with(text, llvm_cpu_flag_sets(ProgramHints())[0])
    assert module is None, MENDED
    assert "unrealized_conversion_cast" in said[0].message


def test_a_scatter_into_a_slice_ends_the_compiler_for_vulkan() -> None:
    target = get_target("vulkan")
    module = f"module @m attributes {{{target.module_attributes}}} {{{_SCATTERED}\n}}"
    assert status_of_compile(module, base=target.flag_sets(ProgramHints())[0]) < 0, MENDED


@pytest.mark.parametrize(
    ("whole", "part", "expected"),
    [
        ((8, 6, 5), (8, 6, 1), True),
        ((8, 6, 5), (8, 1, 5), False),
        ((8, 6, 5), (8, 6, 2), False),
        ((8, 6, 5), (8, 1, 1), True),
        ((8, 6, 1), (8, 6, 1), False),
        ((8, 6, 5), (1, 1, 1), False),
        ((8, 6, 5), (8, 6, 0), True),
        ((8, 6, 5), (0, 6, 5), False),
        ((), (), False),
    ],
)
def test_what_lies_apart(whole: tuple[int, ...], part: tuple[int, ...], expected: bool) -> None:
    assert is_strided_part(whole, part) is expected


Function = Callable[[Any, Any], Any]
PLACES = np.array([1, 5, 2, 2])

# Functions of NumPy's module, or ours, and an array of 8 x 6 x 5 elements.
PROGRAMS: dict[str, Function] = {
    "reversed rows": lambda m, x: x[:, :, 1][::-1],
    "reversed columns": lambda m, x: x[:, :, 1:2][:, ::-1],
    "reversed vector": lambda m, x: x[:, 1, 1][::-1],
    "transposed": lambda m, x: x.T[1][::-1],
    "transposed twice": lambda m, x: x.transpose(2, 0, 1)[1][::-1, PLACES],
    "rows": lambda m, x: x[:, :, 1][PLACES],
    "columns": lambda m, x: x[:, :, 1][:, PLACES],
    "elements": lambda m, x: x[..., 1][PLACES[:, None], PLACES[None]],
    "broadcast": lambda m, x: m.broadcast_to(x[:, :, 1][:, None], (8, 3, 6))[::-1, PLACES % 3],
    "along": lambda m, x: m.take_along_axis(x[..., 1], m.argsort(x[..., 2], 1), 1),
    "steps": lambda m, x: x[:, ::2, 1][::-1],
    "complex": lambda m, x: (x + 1j * x)[:, :, 1][::-1].imag,
    "bytes": lambda m, x: x.astype("uint8")[:, :, 1][PLACES],
    "running": lambda m, x: m.cumsum(x[..., 1][:, ::-1], 1)[:, ::-1],
    "joined": lambda m, x: m.concatenate([x[:, :, 1], x[:, :, 2]])[::-1],
    "rotated": lambda m, x: m.rot90(x[..., 1]),
    "interpolated": lambda m, x: m.interp(x[:, 2, 0], x[0, :, 1], x[0, :, 2]),
    "found": lambda m, x: m.searchsorted(x[0, :, 1], x[:, 2, 0]),
}


def _at_found_place(x: Any) -> Any:
    place = (x[0, 0, 1] % 5).astype(int)
    return x[:, :, place][::-1], x[:, :, place][PLACES]


@xpr.jit
def _taken(x: Any) -> Any:
    return x[:, PLACES[:3], :][::-1]


@xpr.jit
def _column(x: Any) -> Any:
    return x[:, :, 1:2]


# Others, which the reference runtime's numbers are compared with.
OWN: dict[str, Callable[[Any], Any]] = {
    "found place": _at_found_place,
    "set": lambda x: x[:, :, 1].at[PLACES].set(0),
    "added": lambda x: x[:, :, 1].at[:, PLACES].add(x[:, :4, 2]),
    "gradient": xpr.grad(lambda x: (x[:, :, 1][PLACES] * x[:, :, 2][PLACES]).sum()),
    "mapped": xpr.vmap(lambda v: v[:, 1][PLACES]),
    "mapped gradient": xpr.vmap(xpr.grad(lambda v: (v[:, 1][PLACES] ** 2).sum())),
    "reversed sum": lambda x: lax.cumsum(x[..., 1], 1, reverse=True),
    "argument of a function": lambda x: _taken(x[:, :, 1:2]) + 1,
    "result of a function": lambda x: _column(x)[PLACES] + _taken(_column(x))[:1, :1],
    "scanned": lambda x: lax.scan(lambda c, v: (c, v[:, 1][::-1]), 0, x)[1],
    "looped": lambda x: lax.fori_loop(0, 3, lambda k, y: y.at[:, :, 1].add(y[:, :, k][::-1]), x),
    "solved": lambda x: jnp.linalg.solve(x[:5, :5, 1] + 500 * jnp.eye(5), x[:5, 1, 1]),
}


@pytest.mark.parametrize("runtime", ["cpu", "vulkan"])
def test_programs_of_slices(runtime: str) -> None:
    skip_unless_usable(runtime)
    x = np.arange(240, dtype=np.float32).reshape(8, 6, 5)
    cases = [(lambda x, f=f: f(jnp, x), (x,)) for f in PROGRAMS.values()]
    for (name, f), (found,) in zip(PROGRAMS.items(), run_compiled(cases, runtime), strict=True):
        np.testing.assert_allclose(found, f(np, x), rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("runtime", ["cpu", "vulkan"])
def test_our_own_programs_of_slices(runtime: str) -> None:
    skip_unless_usable(runtime)
    x = np.arange(240, dtype=np.float32).reshape(8, 6, 5)
    cases = [(lambda x, f=f: xpr.tree.leaves(f(x)), (x,)) for f in OWN.values()]
    results = run_compiled(cases, runtime), run_reference(cases)
    for name, found, expected in zip(OWN, *results, strict=True):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5, err_msg=name)
