"""Loops, branches and random numbers on Vulkan: what the operation table has no rows for."""

from __future__ import annotations

import numpy as np

from tests.harness import run_compiled
from tests.lowering import programs
from tests.lowering.vulkan_util import vulkan_device
from xpr.lowering.rules._linalg_parts import finite_matrices


def test_loops_branches_and_random_numbers() -> None:
    vulkan_device()
    shared = (programs.updated, programs.scanned, programs.doubled, programs.chosen)
    programs.check((*shared, programs.randoms), "vulkan")


def test_matrices_that_are_not_finite_are_found() -> None:
    vulkan_device()
    x = np.zeros((4, 2, 2), np.float32)
    x[1, 0, 1], x[2, 1, 0] = np.nan, -np.inf
    found = run_compiled([(finite_matrices, (x,))], "vulkan")[0][0]
    assert found.ravel().tolist() == [True, False, False, True]
