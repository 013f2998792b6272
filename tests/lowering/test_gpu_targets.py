"""Programs compile for GPUs that are not here: a dozen rows of the table in one module."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xpr
from tests.harness import trace_cases
from tests.lowering.iree_util import status_of_compile
from tests.op_runs import Pair, cases_of
from tests.op_table import rows_of
from xpr.core.config import override
from xpr.dispatch.compiling import compile_module, lower
from xpr.lowering.targets import get_target
from xpr.lowering.targets.flags import ProgramHints
from xpr.runtimes import registry

_ROWS = {
    "elementwise": ("add", "max"),
    "elementary": ("exp", "sin"),
    "compare": ("select_n-select",),
    "shape": ("transpose-rank3",),
    "reduce": ("reduce_sum-(2, 3, 4) over (0, 2)",),
    "dot_general": ("dot_general-matrices",),
    "gather": ("gather-clip-values0",),
    "cumulative": ("cumsum-vector",),
    "sort": ("sort-vector",),
    "random": ("random_bits-32-bits",),
}


def _chosen() -> list[Pair]:
    found: list[Pair] = []
    for family, wanted in _ROWS.items():
        rows = {row.id: row for row in rows_of(family)}
        for row in (rows[name] for name in wanted):
            found.append((row, "float32" if "float32" in row.dtypes else row.dtypes[0]))
    return found


@pytest.mark.parametrize("platform", ["cuda", "rocm", "metal"])
def test_rows_compile_for_gpus(platform: str) -> None:
    target = get_target(platform)
    with override("enable_x64", True):
        closed = trace_cases(cases_of(_chosen()))[0]
    assert compile_module(lower(closed, target, "rows"), target)


def test_a_program_for_another_platform_is_compiled_and_saved(tmp_path: Path) -> None:
    try:
        registry.devices("cuda")
    except RuntimeError:
        pass
    else:
        pytest.skip("there is a CUDA device here")
    x = np.arange(4, dtype=np.float32)
    double = xpr.jit(lambda x: x * 2)
    lowered = double.lower(x, platform="cuda")
    assert lowered.as_text("iree") == double.trace(x).lower(lowering_platforms=("cuda",)).as_text(
        "iree"
    )
    program = lowered.compile()
    assert program.memory_analysis()["generated_code_size_in_bytes"] > 0
    program.save(tmp_path / "twice.vmfb")
    assert (tmp_path / "twice.vmfb").stat().st_size > 0
    with pytest.raises(RuntimeError, match="was compiled for cuda, and no such device works here"):
        program(x)


def test_an_argument_called_platform_is_the_function_s_own() -> None:
    x = np.arange(4, dtype=np.float32)
    own = xpr.jit(lambda x, platform: x * platform)
    assert len(own.lower(x, platform=x).in_avals[1]) == 1
    with pytest.raises(ValueError, match=r"unknown target .nonesuch."):
        xpr.jit(lambda x: x * 2).lower(x, platform="nonesuch")


_SCATTER = """
module @m {
  func.func public @main(%x: tensor<4x3xcomplex<f32>>, %k: tensor<2x1xi32>,
                         %u: tensor<2x3xcomplex<f32>>) -> tensor<3x3xcomplex<f32>> {
    %s = stablehlo.slice %x [1:4, 0:3] : (tensor<4x3xcomplex<f32>>) -> tensor<3x3xcomplex<f32>>
    %r = "stablehlo.scatter"(%s, %k, %u) <{
      scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
        inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>,
      indices_are_sorted = false, unique_indices = false}> ({
      ^bb0(%a: tensor<complex<f32>>, %b: tensor<complex<f32>>):
        %c = stablehlo.add %a, %b : tensor<complex<f32>>
        stablehlo.return %c : tensor<complex<f32>>
    }) : (tensor<3x3xcomplex<f32>>, tensor<2x1xi32>, tensor<2x3xcomplex<f32>>)
      -> tensor<3x3xcomplex<f32>>
    return %r : tensor<3x3xcomplex<f32>>
  }
}"""


def test_a_scatter_into_a_slice_of_complex_numbers_ends_the_compiler() -> None:
    """When this fails, the copy in `lowering/passes/strided_slices.py` can go."""
    flags = get_target("cuda").flag_sets(ProgramHints())[0]
    assert status_of_compile(_SCATTER, base=flags) < 0


@pytest.mark.parametrize("platform", ["cuda", "rocm", "metal", "vulkan"])
def test_updates_of_a_slice_of_complex_numbers_compile(platform: str) -> None:
    x, u = np.ones((4, 3), np.complex64), np.ones((2, 3), np.complex64)
    places = np.array([0, 2])
    f = xpr.jit(lambda x, u: x[1:].at[places].add(u))
    assert f.lower(x, u, platform=platform).compile().memory_analysis()
