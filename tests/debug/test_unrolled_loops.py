"""Callbacks and prints in loops that are unrolled, with the compiler's checks on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.iree_util import MENDED
from xpr import lax
from xpr.core.config import override
from xpr.experimental import io_callback
from xpr.lowering.iree import driver, keep_timepoints
from xpr.lowering.iree.post_passes import changes_for
from xpr.lowering.targets import get_target

Effect = Callable[[Any], Any]

heard: list[float] = []


@pytest.fixture(autouse=True)
def _checked() -> Iterator[None]:
    heard.clear()
    with warnings.catch_warnings(), override("enable_checks", True):
        warnings.simplefilter("error")
        yield


def _hear(x: Any) -> None:
    heard.append(float(x))


def _answer(x: Any) -> Any:
    heard.append(float(x))
    return np.float32(x)


_FLOAT = xpr.ShapeDtypeStruct((), jnp.float32)

EFFECTS: dict[str, Effect] = {
    "callback": lambda x: xpr.debug.callback(_hear, x),
    "ordered callback": lambda x: xpr.debug.callback(_hear, x, ordered=True),
    "io_callback": lambda x: io_callback(_hear, None, x),
    "ordered io_callback": lambda x: io_callback(_hear, None, x, ordered=True),
}


def _fori(effect: Effect) -> Any:
    return lax.fori_loop(0, 4, lambda i, _: effect(i), None, unroll=2)


def _scan(effect: Effect) -> Any:
    return lax.scan(lambda c, x: (c + x, effect(x)), 0.0, jnp.arange(4.0), unroll=2)[0]


def _whole_scan(effect: Effect) -> Any:
    return lax.scan(lambda c, x: (c + x, effect(x)), 0.0, jnp.arange(4.0), unroll=True)[0]


def _while(effect: Effect) -> Any:
    def step(i: Any) -> Any:
        effect(i)
        effect(i + 1)
        return i + 2

    return lax.while_loop(lambda i: i < 4, step, 0)


def _branches(effect: Effect) -> Any:
    def step(i: Any, _: Any) -> None:
        lax.cond(i % 2 == 0, lambda: effect(i), lambda: effect(i * 1.0))

    return lax.fori_loop(0, 4, step, None, unroll=2)


def _nested(effect: Effect) -> Any:
    def outer(i: Any, _: Any) -> None:
        lax.fori_loop(0, 2, lambda j, _: effect(i * 2 + j), None, unroll=2)

    return lax.fori_loop(0, 2, outer, None, unroll=2)


def _carried(effect: Effect) -> Any:
    def step(i: Any, x: Any) -> Any:
        effect(x[0])
        return x + 1

    return lax.fori_loop(0, 4, step, jnp.zeros(3), unroll=2)


LOOPS: list[Callable[[Effect], Any]] = [
    *(_fori, _scan, _whole_scan, _while, _branches, _nested, _carried)
]


@pytest.mark.parametrize("effect", EFFECTS)
def test_each_step_is_heard(effect: str) -> None:
    def program() -> None:
        for k, loop in enumerate(LOOPS):
            loop(lambda x, k=k: EFFECTS[effect](x + 10.0 * k))

    xpr.jit(program)()
    xpr.effects_barrier()
    expected = [10 * k + step for k in range(len(LOOPS)) for step in range(4)]
    assert (heard if "ordered" in effect else sorted(heard)) == expected


@pytest.mark.parametrize("unroll", [2, 3, True])
def test_prints(unroll: int | bool, capsys: pytest.CaptureFixture[str]) -> None:
    def body(i: Any, _: Any) -> None:
        xpr.debug.print("{} and {}", i, i + 10)

    xpr.jit(lambda: lax.fori_loop(0, 4, body, None, unroll=unroll))()
    xpr.effects_barrier()
    assert sorted(capsys.readouterr().out.split("\n")) == [
        *("", "0 and 10", "1 and 11", "2 and 12", "3 and 13")
    ]


@pytest.mark.parametrize(("unroll", "count"), [(2, 4), (4, 6)])
def test_results_of_callbacks(unroll: int, count: int) -> None:
    def step(c: Any, x: Any) -> tuple[Any, Any]:
        y = xpr.pure_callback(_answer, _FLOAT, c + x)
        return y, io_callback(_answer, _FLOAT, y + 100, ordered=True)

    last, all_of = xpr.jit(lambda xs: lax.scan(step, jnp.float32(0), xs, unroll=unroll))(
        np.arange(count, dtype=np.float32)
    )
    sums = np.cumsum(np.arange(count))
    np.testing.assert_array_equal(all_of, sums + 100)
    assert last == sums[-1]
    assert sorted(heard) == sorted([*sums, *(sums + 100)])


_TEXT = """
module @m {
  func.func private @xpr.callback(tensor<i32>) -> ()
  func.func public @main() {
    %0 = stablehlo.constant dense<0> : tensor<i32>
    %1:2 = "stablehlo.while"(%0, %0) ({
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %n = stablehlo.constant dense<4> : tensor<i32>
        %t = stablehlo.compare LT, %a, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %t : tensor<i1>
    }, {
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %one = stablehlo.constant dense<1> : tensor<i32>
        %c = stablehlo.add %b, %one : tensor<i32>
        func.call @xpr.callback(%b) : (tensor<i32>) -> ()
        %d = stablehlo.add %a, %one : tensor<i32>
        %e = stablehlo.add %c, %one : tensor<i32>
        func.call @xpr.callback(%c) : (tensor<i32>) -> ()
        %f = stablehlo.add %d, %one : tensor<i32>
        stablehlo.return %f, %e : tensor<i32>, tensor<i32>
    }) : (tensor<i32>, tensor<i32>) -> (tensor<i32>, tensor<i32>)
    return
  }
}
"""


def test_the_compiler_goes_around_such_a_loop_until_it_gives_up() -> None:
    flags = get_target("cpu").base_flags
    changes = changes_for(has_branches=True, frees=True)
    module, said = driver.compile_module(_TEXT, flags, name="loop", verify=True, changes=changes)
    assert module is None, MENDED
    assert keep_timepoints.is_needed(d.message for d in said)
    changes = changes_for(has_branches=True, frees=True, timepoints=True)
    module, said = driver.compile_module(_TEXT, flags, name="loop", verify=True, changes=changes)
    assert (module is not None, said) == (True, [])
