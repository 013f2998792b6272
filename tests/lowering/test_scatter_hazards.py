"""A scatter whose updates are gathered from the array that it updates."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

import xpr
from tests.lowering.iree_util import status_of_compile
from xpr.lowering.targets.flags import ProgramHints, llvm_cpu_flag_sets

# The smallest program that is known to end the compiler: updates gathered from the operand and
# chosen from, a scatter, and what is computed of its result and chosen from.
_HAZARD = """
module @m {
  func.func public @main(%x: tensor<17x64x17xi32>, %y: tensor<17x64x17xi32>,
      %z: tensor<17x64x17xi32>, %p: tensor<17x64x17xi1>, %i: tensor<20x1xi32>,
      %j: tensor<20x1xi32>, %u: tensor<20x1x64x17xi32>, %q: tensor<20x1x64x17xi1>)
      -> tensor<17x64x17xi32> {
    %g = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2],
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
        slice_sizes = array<i64: 1, 64, 17>, indices_are_sorted = false}>
      : (tensor<17x64x17xi32>, tensor<20x1xi32>) -> tensor<20x64x17xi32>
    %r = stablehlo.reshape %g : (tensor<20x64x17xi32>) -> tensor<20x1x64x17xi32>
    %s = stablehlo.select %q, %r, %u : tensor<20x1x64x17xi1>, tensor<20x1x64x17xi32>
    %updates = stablehlo.reshape %s : (tensor<20x1x64x17xi32>) -> tensor<20x1088xi32>
    %rows = stablehlo.reshape %x : (tensor<17x64x17xi32>) -> tensor<17x1088xi32>
    %new = "stablehlo.scatter"(%rows, %j, %updates) <{scatter_dimension_numbers =
        #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
        scatter_dims_to_operand_dims = [0], index_vector_dim = 1>,
        indices_are_sorted = false, unique_indices = false}> ({
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %c = stablehlo.add %a, %b : tensor<i32>
        stablehlo.return %c : tensor<i32>
    }) : (tensor<17x1088xi32>, tensor<20x1xi32>, tensor<20x1088xi32>) -> tensor<17x1088xi32>
    %n = stablehlo.reshape %new : (tensor<17x1088xi32>) -> tensor<17x64x17xi32>
    %m = stablehlo.remainder %n, %z : tensor<17x64x17xi32>
    %o = stablehlo.select %p, %y, %m : tensor<17x64x17xi1>, tensor<17x64x17xi32>
    return %o : tensor<17x64x17xi32>
  }
}
"""


def test_updates_gathered_from_the_operand_end_the_compiler() -> None:
    """When this fails, IREE compiles it, and the barrier in `lowering/rules/scatter.py` can go."""
    assert status_of_compile(_HAZARD, llvm_cpu_flag_sets(ProgramHints())[0]) < 0


def test_updates_gathered_from_the_operand() -> None:
    script = (
        "import numpy as np, xpr, xpr.numpy as jnp\n"
        "rng = np.random.default_rng(0)\n"
        "x = rng.integers(-3, 3, (17, 64, 17)).astype('i4')\n"
        "i = rng.integers(0, 17, 20)\n"
        "f = xpr.jit(lambda x: x.at[i].add(x[i[::-1]]) % jnp.int32(7))\n"
        "expected = x.copy()\n"
        "np.add.at(expected, i, x[i[::-1]])\n"
        "np.testing.assert_array_equal(f(x), expected % 7)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_large_updates_that_are_computed() -> None:
    rng = np.random.default_rng(1)
    x, u = rng.standard_normal((17, 64, 17)), rng.standard_normal((20, 64, 17))
    i, q = rng.integers(0, 17, 20), rng.random((20, 64, 17)) > 0.5
    f = xpr.jit(lambda x, u: x.at[i].add(xpr.numpy.where(q, u, x[i])))
    expected = x.astype("f4")
    np.add.at(expected, i, np.where(q, u.astype("f4"), expected[i]))
    np.testing.assert_allclose(f(x.astype("f4"), u.astype("f4")), expected, rtol=1e-5, atol=1e-5)
