"""What a loop starts with may be used after it too: IREE orders such a program with a barrier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.conftest import skip_unless_usable
from tests.lowering.iree_util import MENDED, Call, barrier, compile_with, function, results
from xpr import lax
from xpr.lowering import passes, rules
from xpr.lowering.ir.graph import Value
from xpr.lowering.ir.verifier import verify
from xpr.lowering.module import ModuleBuilder
from xpr.lowering.passes import loop_values
from xpr.lowering.targets import get_target
from xpr.lowering.targets.flags import ProgramHints, llvm_cpu_flag_sets
from xpr.runtimes import registry

pytestmark = pytest.mark.usefixtures("plain_loops")

FAST = llvm_cpu_flag_sets(ProgramHints())[0]
LONG = 5000
"""More elements than loops on registers hold."""

Array = np.ndarray[Any, Any]


def _used_after(start: str, guard: str = "") -> str:
    return function(
        "f",
        "%x: tensor<8xf32>",
        "tensor<8xf32>",
        f"""
        %y = stablehlo.multiply %x, %x : tensor<8xf32>
        {guard}
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %r:2 = "stablehlo.while"(%zero, {start}) ({{
          ^bb0(%i: tensor<i32>, %v: tensor<8xf32>):
            %n = stablehlo.constant dense<3> : tensor<i32>
            %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %p : tensor<i1>
        }}, {{
          ^bb0(%i: tensor<i32>, %v: tensor<8xf32>):
            %one = stablehlo.constant dense<1> : tensor<i32>
            %j = stablehlo.add %i, %one : tensor<i32>
            %w = stablehlo.add %v, %v : tensor<8xf32>
            stablehlo.return %j, %w : tensor<i32>, tensor<8xf32>
        }}) : (tensor<i32>, tensor<8xf32>) -> (tensor<i32>, tensor<8xf32>)
        %z = stablehlo.multiply %r#1, %y : tensor<8xf32>
        {barrier("%x", "tensor<8xf32>")}
        %z
        """,
    )


def test_the_start_of_a_loop_used_after_it_does_not_compile() -> None:
    module, diagnostics = compile_with(_used_after("%y"), FAST)
    assert module is None, MENDED
    assert "circular dependency" in str(diagnostics)
    x = np.arange(8, dtype=np.float32)
    guarded = _used_after("%s", "%s = stablehlo.optimization_barrier %y : tensor<8xf32>")
    ((found,),) = results(guarded, [Call("f", [x])], FAST)
    np.testing.assert_array_equal(found, 8 * x**4)


def test_without_the_pass_it_does_not_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(LONG, dtype=np.float32)

    def f(x: Any) -> Any:
        y = x * x
        return lax.fori_loop(0, 3, lambda i, v: v + v, y) * y

    guarded = xpr.jit(f).lower(x).as_text("iree")
    module, _ = compile_with(guarded, FAST)
    assert module is not None
    monkeypatch.delitem(passes.PASSES, "loop_values")
    module, diagnostics = compile_with(xpr.jit(lambda x: f(x)).lower(x).as_text("iree"), FAST)
    assert module is None, MENDED
    assert "circular dependency" in str(diagnostics)


def test_what_gets_a_barrier() -> None:
    """What is computed and carried, but counters, and what a step returns a second time.

    An integer that is an element of an array is computed where the array is, and is no counter.
    """

    def f(x: Any, n: Any) -> Any:
        def step(state: Any) -> Any:
            i, k, v, w, _ = state
            total = w + v
            return i + 1, k + 1, v * 2, total, total

        start = (n + 1, x[0].astype(int), x, x * 2, x + 1)
        return lax.while_loop(lambda s: s[0] + s[1] < 3, step, start)

    rules.load_all()
    builder = ModuleBuilder(get_target("vmvx"))
    builder.add_main(xpr.make_jaxpr(f)(np.ones(8, np.float32), np.int32(0)), ())
    loop_values.run(builder.module, builder.target, builder.hints)
    verify(builder.module)
    (loop,) = (op for op in builder.module.functions[-1].body.ops if op.name == "stablehlo.while")
    assert [_is_barrier(v) for v in loop.operands] == [False, True, False, True, True]
    end = loop.regions[1].ops[-1]
    assert [_is_barrier(v) for v in end.operands] == [False, False, False, False, True]


def _is_barrier(x: Value) -> bool:
    return x.op is not None and x.op.name == "stablehlo.optimization_barrier"


def _thrice(v: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, v: 2 * v - 1, v)


def _after(x: Any) -> Any:
    y = x * x
    return _thrice(y) * (x + y), x - y, y


def _two_loops(x: Any) -> Any:
    y = x * x
    return _thrice(_thrice(y)) * y, _thrice(y + 1) * y


def _nested(x: Any) -> Any:
    def step(i: Any, v: Any) -> Any:
        half = v / 2
        return _thrice(half) * half

    return lax.fori_loop(0, 2, step, x)


def _chosen(x: Any) -> Any:
    y = x * x
    z = _thrice(y)
    return lax.cond(x[0] > 0, lambda v: v, lambda v: v * 3, z) * jnp.maximum(y * y, x), y * y


def _number(x: Any) -> Any:
    y = x[1] * x[2]
    return _thrice(y) * y, y + 1


def _expected(x: Array) -> list[Array]:
    def thrice(v: Array) -> Array:
        return 8 * v - 7

    y = x * x
    first = thrice(x / 2) * (x / 2)
    return [
        *(thrice(y) * (x + y), x - y, y),
        *(thrice(thrice(y)) * y, thrice(y + 1) * y),
        thrice(first / 2) * (first / 2),
        *(thrice(y) * 3 * np.maximum(y * y, x), y * y),
        *(thrice(x[1] * x[2]) * x[1] * x[2], x[1] * x[2] + 1),
    ]


@pytest.mark.parametrize("platform", ["cpu", "vulkan"])
def test_starts_of_loops_are_used_after_them(platform: str) -> None:
    skip_unless_usable(platform)
    x = np.linspace(-1, 1, LONG, dtype=np.float32)
    operand = xpr.device_put(x, registry.devices(platform)[0])
    programs = (_after, _two_loops, _nested, _chosen, _number)
    found = xpr.jit(lambda v: xpr.tree.leaves([f(v) for f in programs]))(operand)
    for a, b in zip(found, _expected(x.astype(np.float64)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    if platform == "cpu":
        alone = xpr.jit(_after)
        assert "stablehlo.while" in alone.lower(x).as_text("iree")
        np.testing.assert_allclose(alone(x)[2], x * x)


def _counted(kind: str) -> Any:
    """A loop whose counter is converted; `fori_loop` would count by another one."""

    def body(state: Any) -> Any:
        i, v = state
        return i + 1, v * 2 + i.astype(kind).astype("float32")

    return lambda v: lax.while_loop(lambda s: s[0] < 4, body, (np.int32(-3), v))[1]


@pytest.mark.parametrize("platform", ["cpu", "vulkan"])
def test_counters_of_loops_are_converted(platform: str) -> None:
    """IREE's host code has no unsigned integers, and no floats of 16 bits."""
    skip_unless_usable(platform)
    x = np.linspace(-1, 1, LONG, dtype=np.float32)
    operand = xpr.device_put(x, registry.devices(platform)[0])
    kinds = ("uint8", "uint16", "uint32", "int8", "float16", "bfloat16")
    found = xpr.jit(lambda v: [_counted(kind)(v) for kind in kinds])(operand)
    for kind, result in zip(kinds, found, strict=True):
        expected = x
        for i in range(-3, 4):
            value = i % (1 << np.dtype(kind).itemsize * 8) if kind.startswith("uint") else i
            expected = expected * np.float32(2) + np.float32(value)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5, err_msg=kind)


@pytest.mark.parametrize("platform", ["cpu", "vulkan"])
def test_an_element_that_a_loop_starts_with_is_used_after_it(platform: str) -> None:
    """Such a number lies in memory, though counters of loops do not.

    That programs with such loops do not compile without a barrier shows in larger ones alone: see
    number 201013 in `tests/reliability/test_random_programs.py`.
    """
    skip_unless_usable(platform)

    def step(total: Any, n: Any) -> tuple[Any, Any]:
        m, rows = lax.while_loop(
            lambda s: s[0] < 7, lambda s: (s[0] + 1, s[1] + s[0]), (n, xpr.numpy.zeros(LONG))
        )
        return total + rows * n, m

    starts = np.array([5, 2, 9], np.int32)
    found, last = xpr.jit(lambda n: lax.scan(step, jnp.zeros(LONG), n))(
        xpr.device_put(starts, registry.devices(platform)[0])
    )
    np.testing.assert_array_equal(last, [7, 7, 9])
    np.testing.assert_array_equal(found, np.full(LONG, 5 * (5 + 6) + 2 * (2 + 3 + 4 + 5 + 6)))
