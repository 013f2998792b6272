"""Loops that rules write themselves are made in one place, and known as such."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.programs import scanned
from tests.lowering.test_ir import graph_of
from xpr import lax
from xpr.lowering.facts import has_control_flow
from xpr.lowering.ir.graph import Module, Op, walk


def _loops(module: Module) -> list[Op]:
    return [op for f in module.functions for op in walk(f.body) if op.name == "stablehlo.while"]


def _applied(x: Any) -> Any:
    """As often as an element is indexed, which only the run can tell."""
    return x.at[jnp.arange(40) % 7].apply(lambda v: v * v)


def _multiplied(x: Any) -> Any:
    return x.at[jnp.asarray([1, 1, 3])].multiply(x[:3])


CASES: list[tuple[Callable[[Any], Any], str, str, bool]] = [
    (_applied, "float32", "cpu", True),
    (_multiplied, "complex64", "cpu", True),
    (jnp.sort, "float32", "cpu", False),
    (lambda x: jnp.sort(jnp.tile(x, 10)), "float32", "vulkan", True),
    (scanned, "float32", "cpu", False),
    (scanned, "float32", "vmvx", True),
    (lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x), "float32", "cpu", True),
]


@pytest.mark.parametrize(("f", "dtype", "target", "expected"), CASES)
def test_loops_are_known(f: Callable[[Any], Any], dtype: str, target: str, expected: bool) -> None:
    """A loop in one dispatch, or a call of the host, decides nothing about where results lie."""
    module = graph_of(xpr.make_jaxpr(f)(np.ones(8, dtype)), target)
    assert has_control_flow(module) is expected


def test_complex_products_in_a_loop_over_updates_are_by_parts() -> None:
    (loop,) = _loops(graph_of(xpr.make_jaxpr(_multiplied)(np.ones(8, "c8")), "cpu"))
    products = [op for op in walk(loop.regions[1]) if op.name == "stablehlo.multiply"]
    assert len(products) == 4
    assert all(op.results[0].dtype == np.float32 for op in products)


def test_what_a_loop_over_counts_starts_with_is_behind_a_barrier() -> None:
    (loop,) = _loops(graph_of(xpr.make_jaxpr(_applied)(np.ones(8, "f4")), "cpu"))
    counts = loop.operands[0].op
    assert counts is not None
    assert counts.name == "stablehlo.optimization_barrier"


def test_values_of_loops_over_updates() -> None:
    rng = np.random.default_rng(0)
    z = (rng.standard_normal(8) + 1j * rng.standard_normal(8)).astype("c8")
    expected = z.copy()
    np.multiply.at(expected, [1, 1, 3], z[:3])
    np.testing.assert_allclose(xpr.jit(_multiplied)(z), expected, rtol=1e-5)
    x = np.linspace(0.9, 1.1, 8).astype("f4")
    powers = x ** np.asarray([2.0 ** (6 if i < 5 else 5) if i < 7 else 1 for i in range(8)])
    np.testing.assert_allclose(xpr.jit(_applied)(x), powers, rtol=1e-4)
