"""Loops of many branches: IREE does not find which of their timepoints others cover."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.iree_util import MENDED
from xpr import lax
from xpr.lowering.iree import driver, keep_timepoints
from xpr.lowering.iree.post_passes import changes_for
from xpr.lowering.targets import get_target

ARRAYS = 8
FLAGS = get_target("cpu").base_flags


def loop(branches: int) -> str:
    """Three rounds, in each of which branches change places of two of eight vectors."""
    vector, number = "tensor<4xf32>", "tensor<i32>"
    names = [f"%x{i}" for i in range(ARRAYS)]
    types = ", ".join([number] + [vector] * ARRAYS)
    head = ", ".join([f"%i: {number}", *(f"{name}: {vector}" for name in names)])
    steps, now = [], names[:]
    for k in range(branches):
        a, b = k % ARRAYS, (k + 1) % ARRAYS
        steps.append(
            f"%s{k} = stablehlo.slice {now[a]} [0:1] : ({vector}) -> tensor<1xf32>\n"
            f"%r{k} = stablehlo.reshape %s{k} : (tensor<1xf32>) -> tensor<f32>\n"
            f"%p{k} = stablehlo.compare GT, %r{k}, %t : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
            f'%c{k}:2 = "stablehlo.if"(%p{k}) ({{\n'
            f"%d{k} = stablehlo.dot_general {now[a]}, %m, contracting_dims = [0] x [0] : "
            f"({vector}, tensor<4x4xf32>) -> {vector}\n"
            f"stablehlo.return {now[b]}, %d{k} : {vector}, {vector} }}, {{\n"
            f"stablehlo.return {now[a]}, {now[b]} : {vector}, {vector} }}) : "
            f"(tensor<i1>) -> ({vector}, {vector})"
        )
        now[a], now[b] = f"%c{k}#0", f"%c{k}#1"
    results = ", ".join(f"%w#{i + 1}" for i in range(ARRAYS))
    body = "\n".join(steps)
    return f"""
module @m {{
  func.func public @main(%m: tensor<4x4xf32>, %t: tensor<f32>,
      {head.removeprefix(f"%i: {number}, ")}) -> ({", ".join([vector] * ARRAYS)}) {{
    %zero = stablehlo.constant dense<0> : {number}
    %w:{ARRAYS + 1} = "stablehlo.while"(%zero, {", ".join(names)}) ({{
      ^bb0({head.replace("%x", "%y")}):
        %n = stablehlo.constant dense<3> : {number}
        %c = stablehlo.compare LT, %i, %n : ({number}, {number}) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
    }}, {{
      ^bb0({head.replace("%x", "%z")}):
        %one = stablehlo.constant dense<1> : {number}
        %j = stablehlo.add %i, %one : {number}
        {body.replace("%x", "%z")}
        stablehlo.return %j, {", ".join(now).replace("%x", "%z")} : {types}
    }}) : ({types}) -> ({types})
    return {results} : {", ".join([vector] * ARRAYS)}
  }}
}}
"""


def compiled(text: str, *, timepoints: bool) -> tuple[bool, str]:
    changes = changes_for(has_branches=True, frees=True, timepoints=timepoints)
    module, said = driver.compile_module(text, FLAGS, name="loop", verify=True, changes=changes)
    return module is not None, "\n".join(d.message for d in said)


def test_without_the_change_a_loop_of_many_branches_does_not_compile() -> None:
    done, said = compiled(loop(24), timepoints=False)
    assert not done, MENDED
    assert keep_timepoints.is_needed([said])


def test_with_the_change_it_compiles() -> None:
    assert compiled(loop(24), timepoints=True) == (True, "")


@pytest.mark.filterwarnings("error")
def test_such_a_loop_runs_without_a_warning_and_is_right() -> None:
    turn = np.roll(np.eye(64, dtype=np.float32), 1, axis=0)

    def step(state: Any) -> Any:
        i, *xs = state
        for k in range(24):
            a, b = k % ARRAYS, (k + 1) % ARRAYS
            xs[a], xs[b] = lax.cond(
                xs[a][0] > k, lambda a, b: (b, a @ turn), lambda a, b: (a, b), xs[a], xs[b]
            )
        return (i + 1, *xs)

    def run(xs: list[Any]) -> Any:
        return lax.while_loop(lambda s: (s[0] < 3) & (jnp.sum(s[1]) < 1e6), step, (0, *xs))[1:]

    rng = np.random.default_rng(0)
    xs = [rng.integers(0, 40, 64).astype(np.float32) for _ in range(ARRAYS)]
    found = xpr.jit(run)(xs)
    for i in range(3):
        assert xs[0].sum() < 1e6, i
        for k in range(24):
            a, b = k % ARRAYS, (k + 1) % ARRAYS
            if xs[a][0] > k:
                xs[a], xs[b] = xs[b], xs[a] @ turn
    for got, want in zip(found, xs, strict=True):
        np.testing.assert_array_equal(got, want)
