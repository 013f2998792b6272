"""Random bodies of loops over arrays in memory against plain NumPy loops."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as xnp
from tests.lowering.loops.bodies import (
    COLUMNS,
    ROWS,
    Library,
    Plain,
    State,
    Step,
    number_of_choices,
    run,
    step_number,
)
from xpr import lax
from xpr.core.config import override
from xpr.lowering.loops import choice
from xpr.lowering.loops.registers.table import NotInRegisters

_LONG = os.environ.get("XPR_LONG_TESTS") == "1"
# Programs, each of so many loops: they compile together.
_PROGRAMS, _LOOPS = (1000, 20) if _LONG else (2, 15)


@pytest.fixture(autouse=True)
def _in_memory(monkeypatch: pytest.MonkeyPatch) -> Any:
    """No loop keeps its state in registers, however small it is."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise NotInRegisters("a test of loops in memory")

    monkeypatch.setattr(choice, "vector_scan", refuse)
    monkeypatch.setattr(choice, "vector_while", refuse)
    with override("enable_x64", True), override("enable_checks", True):
        yield


def _state(rng: np.random.Generator) -> State:
    u, v = rng.standard_normal((2, ROWS, COLUMNS))
    return u, v, rng.standard_normal(COLUMNS), np.float64(rng.standard_normal())


def _by_numpy(steps: list[Step], rounds: int, state: State) -> State:
    for i in range(rounds):
        state = run(Plain(), steps, i, state)
    return state


def _check(loops: list[tuple[list[Step], int, State, bool]]) -> None:
    """Runs loops, known and unknown in length, in one program."""

    def program(states: list[State], counts: list[Any]) -> list[State]:
        out = []
        for (steps, rounds, _, known), state, count in zip(loops, states, counts, strict=True):
            times = rounds if known else count
            out.append(
                lax.fori_loop(
                    0, times, lambda i, s, steps=steps: run(Library(), steps, i, s), state
                )
            )
        return out

    states = [tuple(np.copy(x) for x in s) for _, _, s, _ in loops]
    counts = [rounds for _, rounds, _, _ in loops]
    jitted = xpr.jit(program)
    text = jitted.lower(states, counts).as_text("iree")
    assert "stablehlo.while" not in text
    found = jitted(states, counts)
    for n, ((steps, rounds, state, known), result, given) in enumerate(
        zip(loops, found, states, strict=True)
    ):
        for x, y in zip(given, state, strict=True):
            np.testing.assert_array_equal(x, y)
        for k, (x, y) in enumerate(zip(result, _by_numpy(steps, rounds, state), strict=True)):
            np.testing.assert_allclose(
                x, y, rtol=1e-9, atol=1e-9, err_msg=f"loop {n}, part {k}, known {known}"
            )


def test_steps_alone():
    rng = np.random.default_rng(0)
    chosen = range(0, number_of_choices(), 1 if _LONG else 9)
    loops = [([step_number(n)], 5, _state(rng), bool(n % 2)) for n in chosen]
    for at in range(0, len(loops), 40):
        _check(loops[at : at + 40])


@pytest.mark.parametrize("seed", range(_PROGRAMS))
def test_random_bodies(seed: int):
    rng = np.random.default_rng(seed + 1)
    loops = []
    for _ in range(_LOOPS):
        numbers = rng.integers(number_of_choices(), size=rng.integers(2, 6))
        steps = [step_number(int(k)) for k in numbers]
        loops.append((steps, int(rng.integers(0, 9)), _state(rng), bool(rng.integers(2))))
    _check(loops)


def test_a_row_of_a_padded_array_is_stored_whole():
    """The pad along the first axis is no cut once the row alone is left of it."""

    def plain(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        for _ in range(3):
            x = x + np.stack([np.zeros(3), x[0]]).sum(0)
        return x

    def f(x: Any) -> Any:
        def step(_: int, x: Any) -> Any:
            padded = lax.pad(x, np.float64(0), ((1, 0, 0), (0, 0, 0)))
            return x + padded[0:1] + padded[1:2]

        return lax.fori_loop(0, 3, step, x)

    x = np.arange(3.0)[None]
    np.testing.assert_array_equal(xpr.jit(f)(x), plain(x))


@pytest.mark.parametrize("count", [2, 3])
def test_arrays_that_all_wait_for_each_other(count: int):
    """Each new array reads the old ones at other places, so that none can be stored first."""

    def step(np_: Any, state: Any) -> Any:
        total = sum(state[1:], state[0])
        return tuple(
            0.3 * np_.roll(total, k + 1, 0) - np_.roll(x, 1, 1) for k, x in enumerate(state)
        )

    start = tuple(np.random.default_rng(count).standard_normal((count, 6, 40)))
    f = xpr.jit(lambda *s: lax.fori_loop(0, 4, lambda _, s: step(xnp, s), s))
    assert "stablehlo.while" not in f.lower(*start).as_text("iree")
    found, wanted = f(*start), start
    for _ in range(4):
        wanted = step(np, wanted)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("side", ["left", "right"])
def test_products_with_a_vector_are_taken_where_those_of_matrices_are_not(side: str):
    n = 300
    a, x = np.random.default_rng(0).standard_normal((n, n)) / n, np.linspace(0.5, 1.5, n)

    def run(repeat: Any, a: Any, x: Any) -> Any:
        return repeat(lambda _, x: x + (a @ x if side == "left" else x @ a), x)

    def plain(body: Any, x: Any) -> Any:
        for i in range(3):
            x = body(i, x)
        return x

    def looped(body: Any, x: Any) -> Any:
        return lax.fori_loop(0, 3, body, x)

    f = xpr.jit(lambda a, x: run(looped, a, x))
    assert "stablehlo.while" not in f.lower(a, x).as_text("iree")
    np.testing.assert_allclose(f(a, x), run(plain, a, x), rtol=1e-12)
    assert "stablehlo.while" in f.lower(a, a).as_text("iree")
