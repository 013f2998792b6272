"""Which tables are computed before programs are compiled, and that they come out the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.core.config import override
from xpr.core.jaxpr import dce_jaxpr
from xpr.interpreters.known_tables import with_known_tables


@pytest.fixture(autouse=True)
def _in_double_precision() -> Any:
    with override("enable_x64", True), override("enable_checks", True):
        yield


def _left(function: Callable[..., Any], *args: Any) -> tuple[list[str], list[np.ndarray]]:
    """The operations that are left of a program, and its constants."""
    closed = with_known_tables(xpr.make_jaxpr(function)(*args))
    names = [e.primitive.name for e in dce_jaxpr(closed.jaxpr)[0].eqns]
    return names, [np.asarray(c) for c in closed.consts]


def test_a_table_of_a_costly_function_is_a_constant() -> None:
    names, (table,) = _left(lambda x: x * jnp.exp(-0.5 * jnp.arange(8.0)) ** 2, np.ones(8))
    assert names == ["mul"]
    np.testing.assert_allclose(table, np.exp(-np.arange(8.0)), rtol=1e-15)


def test_what_costs_little_is_computed_in_the_program() -> None:
    names, consts = _left(lambda x: x * (2.0 * jnp.arange(8.0) + 1.0) + jnp.eye(8), np.ones(8))
    assert names[-2:] == ["broadcast_in_dim", "add"]
    assert not consts


def test_large_tables_are_made_of_small_ones() -> None:
    def function(x: Any) -> Any:
        return x + jnp.broadcast_to(jnp.sin(jnp.arange(600.0)), (500, 600))

    names, (table,) = _left(function, np.ones((500, 600)))
    assert names == ["broadcast_in_dim", "add"]
    np.testing.assert_allclose(table, np.sin(np.arange(600.0)), rtol=1e-15, atol=1e-300)
    huge, none = _left(lambda x: x * jnp.sin(jnp.arange(2e5)), np.ones(200_000))
    assert huge[-2:] == ["sin", "mul"]
    assert not none


def test_barriers_and_operands_stay() -> None:
    names, consts = _left(lambda x: jnp.exp(lax.optimization_barrier(2.0)) * jnp.exp(x), 1.0)
    assert names.count("exp") == 2
    assert not consts


def test_programs_with_tables_give_what_numpy_gives() -> None:
    """Results that are tables, parts of one table, several uses, and a donated operand."""
    given = np.random.default_rng(0).normal(size=6)

    def function(x: Any) -> Any:
        low, high = jnp.split(jnp.cos(jnp.arange(12.0)), 2)
        return x * high, high + 1.0, jnp.log(jnp.arange(1.0, 4.0)), x / (low * high)

    table = np.cos(np.arange(12.0))
    low, high = table[:6], table[6:]
    wanted = given * high, high + 1.0, np.log(np.arange(1.0, 4.0)), given / (low * high)
    found = xpr.jit(function)(given)
    again = xpr.jit(function, donate_argnums=0)(jnp.array(given))
    for x, y, z in zip(found, again, wanted, strict=True):
        np.testing.assert_allclose(x, z, rtol=1e-14)
        np.testing.assert_allclose(y, z, rtol=1e-14)
