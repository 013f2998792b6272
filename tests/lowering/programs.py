"""Loops, branches and random numbers for the targets: what the operation table has no rows for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xpr
import xpr.numpy as xnp
from tests.harness import Case, run_compiled, run_reference
from xpr import lax

X = np.arange(8, dtype=np.float32)
"""What each program takes."""


def updated(x: Any) -> Any:
    """An array updated in place at places that change."""

    def step(i: Any, x: Any) -> Any:
        return x.at[i % 8].add(xnp.sin(x[(i + 1) % 8]))

    return lax.fori_loop(0, 20, step, x)


def scanned(x: Any) -> Any:
    def step(total: Any, row: Any) -> Any:
        return total * 0.5 + row, xnp.tanh(total)

    return lax.scan(step, xnp.zeros(4), x.reshape(2, 4))


def doubled(x: Any) -> Any:
    """A loop whose end depends on what it computes."""
    return lax.while_loop(lambda v: xnp.sum(v) < 1000, lambda v: v * 2, x)


def chosen(x: Any) -> Any:
    return [lax.cond(x[i] > 2, xnp.sin, xnp.cos, x) for i in (0, 7)]


def randoms(x: Any) -> Any:
    key = xpr.random.key(7)
    return [
        xpr.random.bits(key, (100,)),
        xpr.random.permutation(key, 40),
        xpr.random.randint(key, (50,), 0, 1000),
        xpr.random.normal(key, (200,)) * x[1],
        xpr.random.gamma(key, 2.5, (20,)),
    ]


def check(functions: Sequence[Callable[..., Any]], platform: str) -> None:
    """Compares the functions of `X` on a platform with the reference."""
    cases: list[Case] = [((lambda x, f=f: xpr.tree.leaves(f(x))), (X,)) for f in functions]
    for found, expected in zip(run_compiled(cases, platform), run_reference(cases), strict=True):
        for a, b in zip(found, expected, strict=True):
            if a.dtype.kind in "iu":
                np.testing.assert_array_equal(a, b)
            else:
                np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
