"""Products and sums of the same operands in another order."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.iree_util import MENDED, compile_with, function
from tests.lowering.test_ir import graph_of
from tests.reliability.differential_programs import program
from tests.reliability.differential_runs import faults
from xpr.core.config import override
from xpr.lowering import passes
from xpr.lowering.ir.graph import dispatched
from xpr.lowering.targets.flags import ProgramHints, llvm_cpu_flag_sets

FAST = llvm_cpu_flag_sets(ProgramHints())[0]
A = np.linspace(1, 2, 128, dtype=np.float32).reshape(8, 16)
B = np.sin(A)


def products(a: Any, b: Any) -> tuple[Any, Any, Any]:
    wave = jnp.sqrt(a)
    product = wave * b
    return product.sum(1), product, b * wave


def _text(second: str) -> str:
    array = "tensor<8x16xf32>"
    return function(
        "main",
        f"%a: {array}, %b: {array}",
        f"tensor<8xf32>, {array}, {array}",
        "%zero = stablehlo.constant dense<0.0> : tensor<f32>\n"
        f"%wave = stablehlo.sine %a : {array}\n"
        f"%first = stablehlo.multiply %wave, %b : {array}\n"
        f"%second = stablehlo.multiply {second} : {array}\n"
        "%sum = stablehlo.reduce(%first init: %zero) applies stablehlo.add across dimensions = [1]"
        f" : ({array}, tensor<f32>) -> tensor<8xf32>\n"
        "%sum, %first, %second",
    )


def test_the_first_result_is_taken_for_an_equal_one_of_another_type() -> None:
    module, told = compile_with(_text("%b, %wave"), FAST)
    assert module is None, MENDED
    assert "value and result types must match" in str(told)
    module, told = compile_with(_text("%wave, %b"), FAST)
    assert module is not None, told


def test_without_the_pass_numbers_of_another_operation_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XPR_CACHE", "0")
    with override("enable_x64", True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert faults([program(1264)]) == []
        monkeypatch.delitem(passes.PASSES, "commuted_operands")
        assert faults([program(1264)]) != [], MENDED


def _orders(function: Callable[..., Any]) -> int:
    """How many operations have the operands of an earlier one in another order."""
    (main,) = graph_of(xpr.make_jaxpr(function)(A, B), "cpu").functions
    seen: set[Any] = set()
    count = 0
    for op in dispatched(main.body):
        a, b = [*op.operands, None, None][:2]
        count += (op.name, b, a) in seen and a is not b
        seen.add((op.name, a, b))
    return count


def test_operands_get_the_order_of_the_first_operation() -> None:
    assert _orders(products) == 0
    assert _orders(lambda a, b: (a + b, b + a, jnp.maximum(b, a), jnp.maximum(a, b))) == 0
    assert _orders(lambda a, b: xpr.lax.fori_loop(0, 3, lambda _, x: x * b + b * x, a)) == 0
    assert _orders(lambda a, b: (a - b, b - a, a / b, b / a)) == 2


def test_results() -> None:
    def all_of(a: Any, b: Any) -> Any:
        i, j = (a * 9).astype(int), (b * 9).astype(int)
        c, d = jnp.exp(1j * a), jnp.cos(b) + 1j * a
        return [
            products(a, b),
            (jnp.maximum(a, b), jnp.maximum(b, a), jnp.minimum(a, b) + jnp.minimum(b, a)),
            (i & j, j & i, i | j, j | i, i ^ j, j ^ i),
            (c * d, d * c, (c + d).sum(), (d + c).sum(0)),
            (a - b, b - a),
        ]

    eager = xpr.tree_util.tree_leaves(all_of(jnp.asarray(A), jnp.asarray(B)))
    for i, (x, y) in enumerate(
        zip(xpr.tree_util.tree_leaves(xpr.jit(all_of)(A, B)), eager, strict=True)
    ):
        np.testing.assert_allclose(x, y, 1e-5, 1e-5, err_msg=str(i))
