"""Steps that a program takes many times in a row are a loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.lowering.loops.repeated_steps import in_rounds, rounds_p

X = np.linspace(-1.0, 3.0, 16, dtype=np.float32)


def lengths(function: Callable[..., Any], *args: Any) -> list[int]:
    """How long the loops are that a program's repeated steps become."""
    jaxpr = in_rounds(xpr.make_jaxpr(function)(*args).jaxpr)
    return [eqn.params["length"] for eqn in jaxpr.eqns if eqn.primitive is rounds_p]


def chained(np: Any, x: Any, rounds: int = 20) -> Any:
    for _ in range(rounds):
        x = np.sin(x)
    return x


def newton(np: Any, x: Any, y: Any) -> Any:
    """Steps of several equations, which read something else besides."""
    for _ in range(12):
        x = x - 0.1 * np.tanh(x * y - 0.5) * x
    return x * 2.0 + y


def begins_with_what_it_reads(np: Any, x: Any) -> Any:
    start = x
    for _ in range(10):
        x = np.exp(-x * x) + start
    return x


def two_runs(np: Any, x: Any) -> Any:
    x = chained(np, x, 9) + 1.0
    for _ in range(11):
        x = np.cos(x)
    return x


def keeps_its_last_parts(np: Any, x: Any) -> Any:
    """What the last step makes on its way is a result too."""
    y = x
    for _ in range(10):
        y = np.exp(-x)
        x = y * 0.5 + 0.1
    return x + y


RUNS = (
    (chained, (X,), [20]),
    (newton, (X, X + 1.0), [12]),
    (begins_with_what_it_reads, (X,), [10]),
    (two_runs, (X,), [9, 11]),
    (keeps_its_last_parts, (X,), [9]),
)


@pytest.mark.parametrize(("function", "args", "expected"), RUNS)
def test_runs_of_equal_steps_are_loops(
    function: Callable[..., Any], args: tuple[Any, ...], expected: list[int]
) -> None:
    def traced(*args: Any) -> Any:
        return function(jnp, *args)

    assert lengths(traced, *args) == expected
    found = xpr.jit(traced)(*args)
    wide = [np.asarray(a, np.float64) for a in args]
    # Rounding errors of a round are carried on; none of these maps makes them larger.
    np.testing.assert_allclose(found, function(np, *wide), rtol=1e-5, atol=1e-6)


def _reads_all(x: Any) -> Any:
    results = []
    for _ in range(20):
        x = jnp.sin(x)
        results.append(x)
    return sum(results)


def _cheap(x: Any) -> Any:
    for _ in range(40):
        x = x * 0.25 + 1.0
    return x


def _of_different_constants(x: Any) -> Any:
    for i in range(20):
        x = jnp.sin(x * float(i))
    return x


def _reads_the_last_but_one(x: Any) -> Any:
    y = x
    for _ in range(20):
        x, y = jnp.sin(x + y), x
    return x


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(_reads_all, id="each result is read"),
        pytest.param(_cheap, id="steps that counting would slow down"),
        pytest.param(_of_different_constants, id="no two are equal"),
        pytest.param(_reads_the_last_but_one, id="two results back"),
        pytest.param(lambda x: chained(jnp, x, 7), id="few"),
    ],
)
def test_what_is_no_run_stays_as_it_is(function: Callable[..., Any]) -> None:
    closed = xpr.make_jaxpr(function)(X)
    assert in_rounds(closed.jaxpr) is closed.jaxpr


def test_large_arrays_and_whole_numbers_stay_as_they_are() -> None:
    assert lengths(lambda x: chained(jnp, x), np.ones(4097, np.float32)) == []
    assert lengths(lambda x: chained(jnp, x), np.ones(4096, np.float32)) == [20]
    assert lengths(lambda x: chained(jnp, x), np.ones(4, np.complex64)) == []


def test_a_loop_gives_the_bits_of_its_steps() -> None:
    def loop(x: Any) -> Any:
        return lax.fori_loop(0, 20, lambda _, x: jnp.sin(x), x)

    found = xpr.jit(lambda x: chained(jnp, x))(X)
    np.testing.assert_array_equal(found, xpr.jit(loop)(X))


def test_all_rounds_count_as_work() -> None:
    def cost(rounds: int) -> Any:
        return xpr.jit(lambda x: chained(jnp, x, rounds)).lower(X).cost_analysis()

    # Seven steps are no loop.
    assert cost(21)["flops"] == 3 * cost(7)["flops"] == 21 * X.size
    assert cost(21)["bytes accessed"] == 3 * cost(7)["bytes accessed"]


def test_derivatives_go_through_the_steps() -> None:
    found = xpr.jit(xpr.grad(lambda x: jnp.sum(chained(jnp, x))))(X)
    x, expected = X.astype(np.float64), np.ones(16)
    for _ in range(20):
        expected, x = expected * np.cos(x), np.sin(x)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_looking_takes_time_in_proportion_to_the_length() -> None:
    def alternating(x: Any, rounds: int) -> Any:
        total = x
        for _ in range(rounds):
            x = jnp.sin(x)
            total = total + x
        return total

    def seconds(rounds: int) -> float:
        jaxpr = xpr.make_jaxpr(lambda x: alternating(x, rounds))(X).jaxpr
        start = time.process_time()
        in_rounds(jaxpr)
        return time.process_time() - start

    seconds(100)
    assert seconds(4000) < 40 * max(seconds(1000), 0.005)
