"""What flags, costs and the runtime must know of a program is read off its graph."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.test_ir import graph_of
from xpr import lax
from xpr.lowering.facts import count_operations, with_contractions
from xpr.lowering.targets import get_target
from xpr.lowering.targets.flags import ProgramHints

A, B, V = np.ones((4, 6), "f4"), np.ones((6, 3), "f4"), np.ones(6, "f4")


def _looped(a: Any, b: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c @ b[:3] @ (a @ b).T @ (a @ b)), a @ b)


@pytest.mark.parametrize(
    ("f", "args", "matmul", "matvec", "batched"),
    [
        (jnp.add, (V, V), None, None, False),
        (jnp.matmul, (A, B), (4, 3, 6), None, False),
        (lambda a, b: (a @ b, b.T @ a.T @ (a @ b)), (A, B), (4, 3, 6), None, False),
        (jnp.matmul, (A, V), None, (4, 6), False),
        (jnp.matmul, (np.stack([A, A]), np.stack([B, B])), (4, 3, 6), None, True),
        (jnp.matmul, (A.astype("c8"), B.astype("c8")), (4, 3, 6), None, False),
        (_looped, (A, B), (4, 3, 6), None, False),
        (
            lambda a, b: xpr.jit(lambda x: x @ b)(a) + xpr.jit(lambda x: x @ b)(a),
            (A, B),
            *((4, 3, 6), None, False),
        ),
    ],
    ids=["none", "matmul", "largest", "matvec", "batch", "complex", "loop", "call"],
)
def test_contractions(
    f: Callable[..., Any], args: Any, matmul: Any, matvec: Any, batched: bool
) -> None:
    found = with_contractions(ProgramHints(), graph_of(xpr.make_jaxpr(f)(*args), "cpu"))
    assert found == ProgramHints(
        matmul_size=matmul, matvec_size=matvec, has_batched_contraction=batched
    )


def test_what_was_known_is_kept_where_it_is_more() -> None:
    before = ProgramHints(matmul_size=(9, 9, 9), has_control_flow=True)
    assert with_contractions(before, graph_of(xpr.make_jaxpr(jnp.matmul)(A, B), "cpu")) == before


def test_barriers_are_found_in_branches() -> None:
    def f(x: Any) -> Any:
        return lax.cond(x[0] > 0, lambda x: lax.optimization_barrier(x) * 2, lambda x: x, x)

    donated = xpr.jit(f, donate_argnums=0).lower(V)
    assert donated._module.hints.has_barriers
    assert donated._module.hints.has_control_flow
    plain = xpr.jit(lambda x: x * 2, donate_argnums=0).lower(V)
    assert not plain._module.hints.has_barriers
    assert not plain._module.hints.has_control_flow


def test_an_argument_that_is_kept_has_a_barrier() -> None:
    assert count_operations(graph_of(xpr.make_jaxpr(lambda: jnp.arange(3))(), "vulkan"))[1] == 0
    assert count_operations(graph_of(xpr.make_jaxpr(lambda x: x)(V), "vulkan"))[1] == 1


def test_garbage_is_looked_for_when_a_program_is_lowered() -> None:
    """Not meanwhile: all that is made is in use, and the more there is the longer it takes."""
    traced = xpr.jit(lambda x: functools.reduce(lambda v, i: v * 0.5 + i, range(500), x)).trace(V)
    begun: list[int] = []

    def note(phase: str, about: dict[str, int]) -> None:
        if phase == "start":
            begun.append(about["generation"])

    gc.collect()
    gc.callbacks.append(note)
    try:
        traced.lower()
        assert gc.isenabled()
        assert len(begun) <= 1
        gc.disable()
        traced.lower()
        assert not gc.isenabled()
    finally:
        gc.callbacks.remove(note)
        gc.enable()


def _masked(x: Any) -> Any:
    return jnp.where(jnp.tril(jnp.ones(x.shape, bool)), x, 0)


@pytest.mark.parametrize(
    ("f", "lasts"),
    [
        (lambda x: x * 2 + 1, False),
        (_masked, False),
        (lambda x: x + 0.1 * jnp.eye(4), False),
        (xpr.hessian(lambda x: jnp.sum(jnp.sin(x) * x)), False),
        (lambda x: jnp.concatenate([x[0], jnp.arange(3.0)]), False),
        (lambda x: x * jnp.sin(jnp.arange(4.0)), True),
        (lambda x: jnp.eye(4) @ x, True),
        (lambda x: x[jnp.arange(4) * 2 % 3], True),
        (lambda x: (x, jnp.arange(4)), True),
        (lambda x: x * jnp.sum(jnp.arange(4)), True),
        (lambda x: jnp.sum(_masked(x)), True),
        (lambda x: _masked(x) @ x, True),
    ],
)
def test_what_is_made_of_constants_lasts_where_that_pays(
    f: Callable[..., Any], lasts: bool
) -> None:
    x = np.ones((4, 4), "f4")
    lowered = xpr.jit(f).lower(x)
    assert lowered._module.hints.has_lasting_values == lasts
    hoisting = "--iree-opt-const-expr-hoisting=false"
    assert (hoisting in get_target("cpu").flag_sets(lowered._module.hints)[0]) != lasts
    # What is in the program is computed either way.
    for got, wanted in zip(
        xpr.tree_util.tree_leaves(xpr.jit(f)(x)), xpr.tree_util.tree_leaves(f(x)), strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)
