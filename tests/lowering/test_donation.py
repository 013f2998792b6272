"""Which programs may write a result into a donated argument, and that their results are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.trace import get_aval
from xpr.dispatch.array import array_from_host
from xpr.dispatch.compiled import CompiledProgram
from xpr.primitives.dot_general import dot_general
from xpr.primitives.elementwise import add_p, mul_p, neg_p, sub_p
from xpr.runtimes import registry

Function = Callable[..., list[Any]]


@pytest.fixture(autouse=True)
def _lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that the cache knows by its jaxpr is not lowered."""
    monkeypatch.setenv("XPR_CACHE", "0")


A = np.random.default_rng(7).integers(1, 5, (64, 64)).astype(np.float32)
B = np.random.default_rng(8).integers(1, 5, (64, 64)).astype(np.float32)


def program(function: Function, donate: tuple[int, ...] = (0,)) -> CompiledProgram:
    closed = trace_to_jaxpr(function, [get_aval(A), get_aval(B)])
    return CompiledProgram(closed, "donating", registry.devices("cpu")[0], donate)


def run(found: CompiledProgram) -> list[np.ndarray[Any, Any]]:
    device = registry.devices("cpu")[0]
    operands = [array_from_host(x.copy(), get_aval(x), device) for x in (A, B)]
    return [np.asarray(r._value) for r in found(operands)]


def told(found: CompiledProgram) -> bool:
    assert found.lowered is not None
    return "iree.abi.output" in found.lowered.text


def negate_often(a: Any, b: Any) -> list[Any]:
    for _ in range(17):
        a = neg_p.bind(a)
    return [sub_p.bind(a, b)]


def test_one_elementwise_result_is_told_so() -> None:
    found = program(lambda a, b: [sub_p.bind(b, mul_p.bind(a, add_p.bind(a, b)))])
    assert told(found)
    np.testing.assert_array_equal(run(found)[0], B - A * (A + B))


@pytest.mark.parametrize("donate", [(0,), (1,), (0, 1)])
def test_two_results_are_not(donate: tuple[int, ...]) -> None:
    found = program(lambda a, b: [add_p.bind(a, b), mul_p.bind(a, b)], donate)
    assert not told(found)
    total, product = run(found)
    np.testing.assert_array_equal(total, A + B)
    np.testing.assert_array_equal(product, A * B)


def test_products_and_long_programs_are_not() -> None:
    found = program(lambda a, b: [add_p.bind(dot_general(a, a, (((1,), (0,)), ((), ()))), b)])
    assert not told(found)
    np.testing.assert_array_equal(run(found)[0], A @ A + B)
    found = program(negate_often)
    assert not told(found)
    np.testing.assert_array_equal(run(found)[0], -A - B)
