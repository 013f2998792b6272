"""Loops, branches and random numbers on Vulkan: what the operation table has no rows for."""

from __future__ import annotations

from typing import Any

import numpy as np

import xpr
import xpr.numpy as xnp
from tests.harness import run_compiled, run_reference
from tests.lowering.vulkan_util import vulkan_device
from xpr.lowering.rules._linalg_parts import finite_matrices


def _updated(x: Any) -> Any:
    """An array updated in place at places that change."""

    def step(i: Any, x: Any) -> Any:
        return x.at[i % 8].add(xnp.sin(x[(i + 1) % 8]))

    return xpr.lax.fori_loop(0, 20, step, x)


def _scanned(x: Any) -> Any:
    def step(total: Any, row: Any) -> Any:
        return total * 0.5 + row, xnp.tanh(total)

    return xpr.lax.scan(step, xnp.zeros(4), x.reshape(2, 4))


def _doubled(x: Any) -> Any:
    """A loop whose end depends on what it computes."""
    return xpr.lax.while_loop(lambda v: xnp.sum(v) < 1000, lambda v: v * 2, x)


def _chosen(x: Any) -> Any:
    return [xpr.lax.cond(x[i] > 2, xnp.sin, xnp.cos, x) for i in (0, 7)]


def _random(x: Any) -> Any:
    key = xpr.random.key(7)
    return [
        xpr.random.bits(key, (100,)),
        xpr.random.permutation(key, 40),
        xpr.random.randint(key, (50,), 0, 1000),
        xpr.random.normal(key, (200,)) * x[1],
    ]


def test_loops_branches_and_random_numbers() -> None:
    vulkan_device()
    x = np.arange(8, dtype=np.float32)
    cases = [(f, (x,)) for f in (_updated, _scanned, _doubled, _chosen, _random)]
    for found, expected in zip(run_compiled(cases, "vulkan"), run_reference(cases), strict=True):
        for a, b in zip(found, expected, strict=True):
            if a.dtype.kind in "iu":
                np.testing.assert_array_equal(a, b)
            else:
                np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def test_matrices_that_are_not_finite_are_found() -> None:
    vulkan_device()
    x = np.zeros((4, 2, 2), np.float32)
    x[1, 0, 1], x[2, 1, 0] = np.nan, -np.inf
    found = run_compiled([(finite_matrices, (x,))], "vulkan")[0][0]
    assert found.ravel().tolist() == [True, False, False, True]
