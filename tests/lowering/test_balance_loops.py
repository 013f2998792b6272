"""Loops whose two regions take different numbers of values: they compile, to right numbers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as xnp
from xpr import lax

ROOT = Path(__file__).parents[2]

# One carried value takes another one's old value, and a branch chooses from the results.
OLD_VALUE = """
module @m {
  func.func public @main(%a: tensor<f32>, %b: tensor<f32>, %p: tensor<i32>)
      -> (tensor<f32>, tensor<f32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %w:3 = "stablehlo.while"(%zero, %a, %b) ({
      ^bb0(%i: tensor<i32>, %x: tensor<f32>, %y: tensor<f32>):
        %n = stablehlo.constant dense<9.0> : tensor<f32>
        %c = stablehlo.compare LT, %x, %n, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
    }, {
      ^bb0(%i: tensor<i32>, %x: tensor<f32>, %y: tensor<f32>):
        %one = stablehlo.constant dense<1> : tensor<i32>
        %j = stablehlo.add %i, %one : tensor<i32>
        %z = stablehlo.add %x, %x : tensor<f32>
        stablehlo.return %j, %z, %x : tensor<i32>, tensor<f32>, tensor<f32>
    }) : (tensor<i32>, tensor<f32>, tensor<f32>) -> (tensor<i32>, tensor<f32>, tensor<f32>)
    %r:2 = "stablehlo.case"(%p) ({
        stablehlo.return %w#2, %w#1 : tensor<f32>, tensor<f32>
    }, {
        %k = stablehlo.constant dense<1.0> : tensor<f32>
        stablehlo.return %k, %k : tensor<f32>, tensor<f32>
    }) : (tensor<i32>) -> (tensor<f32>, tensor<f32>)
    return %r#0, %r#1 : tensor<f32>, tensor<f32>
  }
}
"""
SCRIPT = """
import sys
from xpr.lowering.iree import driver
from xpr.lowering.iree.post_passes import changes_for
from xpr.lowering.targets import get_target
changes = changes_for(has_branches=sys.argv[2] == "balanced", frees=True)
flags = get_target("cpu").base_flags
module, said = driver.compile_module(
    sys.argv[1], flags, name="loop", verify=True, changes=changes
)
sys.exit(module is None)
"""


def status(how: str) -> int:
    command = [sys.executable, "-c", SCRIPT, OLD_VALUE, how]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, timeout=120, check=False
    ).returncode


def test_a_loop_with_an_old_value_does_not_compile() -> None:
    """When this fails, IREE tells the regions of a loop apart, and the change can go."""
    assert status("as it is") != 0


def test_a_loop_with_an_old_value_compiles_when_balanced() -> None:
    assert status("balanced") == 0


def old_value(start: Any, old: Any, taken: Any) -> Any:
    """`OLD_VALUE`, in a step too large for registers."""

    def step(state: Any) -> Any:
        i, x, _ = state
        return i + 1, x * 2 + xnp.ones((40, 40)), x

    _, x, y = lax.while_loop(lambda s: s[0] < 5, step, (0, start, old))
    return lax.cond(taken, lambda: (y, x), lambda: (start * 0, start * 0))


def test_an_old_value_is_that_of_the_round_before() -> None:
    start = np.arange(1600, dtype=np.float32).reshape(40, 40) % 7
    x, y = start, start - 1
    for _ in range(5):
        x, y = x * 2 + 1, x
    function = xpr.jit(old_value)
    for got, want in zip(function(start, start - 1, True), (y, x), strict=True):
        np.testing.assert_array_equal(got, want)
    for got in function(start, start - 1, False):
        np.testing.assert_array_equal(got, np.zeros((40, 40)))


def test_a_step_that_hands_many_values_on() -> None:
    """Some unchanged, some in another's place, some from outside of the loop."""

    def run(limit: Any, flag: Any, number: Any, state: dict[str, Any]) -> Any:
        def step(s: dict[str, Any]) -> dict[str, Any]:
            return {**s, "flag": s["other"], "time": s["next"], "given": flag, "number": number}

        return lax.while_loop(lambda s: (s["time"] < limit) & (s["count"] < 9), step, state)

    state = {
        "flag": np.bool_(False),
        "other": np.bool_(True),
        "time": np.float32(0),
        "next": np.float32(20),
        "given": np.bool_(False),
        "number": np.int32(3),
        "count": np.int32(1),
        "unread": np.zeros((1, 2), np.float32),
    }
    found = xpr.jit(run)(np.float32(10), np.bool_(True), np.int32(7), state)
    wanted = {**state, "flag": True, "time": 20.0, "given": True, "number": 7}
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize("rounds", [0, 1, 6])
def test_a_solver_with_a_loop_in_its_step(rounds: int) -> None:
    """Newton's method with halved steps, which carries what only its test reads."""

    def value(x: Any) -> Any:
        return xnp.sum((x @ x.T - 2) ** 2)

    def step(state: Any) -> Any:
        i, x, _, before = state
        gradient = xpr.grad(value)(x)
        size = lax.while_loop(
            lambda t: (value(x - t * gradient) > before) & (t > 1e-6),
            lambda t: t / 2,
            xnp.float32(1),
        )
        new = x - size * gradient
        return i + 1, new, xnp.linalg.norm(gradient), value(new)

    def run(x: Any, limit: Any) -> Any:
        start = (0, x, xnp.float32(1e9), value(x))
        return lax.while_loop(lambda s: (s[0] < limit) & (s[2] > 1e-9), step, start)

    x = np.linspace(0.5, 1.5, 6, dtype=np.float32).reshape(2, 3)
    i, found, _, last = xpr.jit(run)(x, rounds)
    wide = x.astype(np.float64)
    for _ in range(rounds):
        rest = wide @ wide.T - 2
        gradient = 4 * rest @ wide
        t = 1.0
        while t > 1e-6 and (
            (((wide - t * gradient) @ (wide - t * gradient).T - 2) ** 2).sum() > (rest**2).sum()
        ):
            t /= 2
        wide = wide - t * gradient
    assert int(i) == rounds
    # Six rounds of products of 3 terms, whose errors each round doubles at most.
    np.testing.assert_allclose(found, wide, rtol=1e-4)
    np.testing.assert_allclose(last, ((wide @ wide.T - 2) ** 2).sum(), rtol=1e-3)
