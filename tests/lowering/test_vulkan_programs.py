"""Loops, branches and random numbers on Vulkan: what the operation table has no rows for."""

from __future__ import annotations

import numpy as np
import pytest

import xpr
from tests.harness import run_compiled
from tests.lowering import programs
from tests.lowering.vulkan_util import vulkan_device
from xpr.lowering.numerics.linalg_parts import finite_matrices


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


@pytest.mark.parametrize("how", ["add", "multiply", "set"])
def test_updates_of_a_slice_of_complex_numbers(how: str) -> None:
    device = vulkan_device()
    x = (np.arange(12).reshape(4, 3) + 1j).astype(np.complex64)
    u = np.full((2, 3), 2j, np.complex64)
    f = xpr.jit(lambda x, u: getattr(x[1:].at[np.array([0, 2])], how)(u))
    expected = x[1:].copy()
    old = expected[[0, 2]]
    expected[[0, 2]] = {"add": old + u, "multiply": old * u, "set": u}[how]
    np.testing.assert_allclose(f(*xpr.device_put([x, u], device)), expected, rtol=1e-6)
