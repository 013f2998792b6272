"""Transposes of complex numbers end IREE's process on GPUs: their parts are transposed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.harness import Case, run_compiled, set_target
from tests.lowering.gpu_util import operand
from tests.lowering.iree_util import MENDED, function, status_of_compile
from xpr.dispatch.compiling import compile_module, lower
from xpr.lowering import passes
from xpr.lowering.targets import get_target
from xpr.lowering.targets.flags import ProgramHints

_SHAPES = {
    (96, 32): (1, 0),
    (2, 64, 32): (0, 2, 1),
    (32, 3, 64): (2, 1, 0),
    (32, 64, 32): (1, 0, 2),
}


def test_a_transpose_of_complex_numbers_ends_the_compiler() -> None:
    """When this fails, the pass over transposes of complex numbers can go."""
    before, after = "tensor<96x32xcomplex<f32>>", "tensor<32x96xcomplex<f32>>"
    body = f"%r = stablehlo.transpose %x, dims = [1, 0] : ({before}) -> {after}\n%r"
    flags = get_target("cuda").flag_sets(ProgramHints())[0]
    assert status_of_compile(function("f", f"%x: {before}", after, body), base=flags) < 0


def test_without_the_pass_a_transpose_ends_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(passes.PASSES, "complex_transposes")
    target = get_target("cuda")
    text = lower(
        xpr.make_jaxpr(lambda x: x.T)(operand(96, 32, dtype="complex64")), target, "f"
    ).text
    assert status_of_compile(text, base=target.flag_sets(ProgramHints())[0]) < 0, MENDED


@pytest.mark.parametrize("platform", ["cuda", "rocm"])
def test_transposes_of_complex_numbers_compile(platform: str) -> None:
    def program(x: Any, y: Any) -> Any:
        product = x @ y.conj().T
        return x.T, x.conj().T.real, product, jnp.broadcast_to(x[:, None], (96, 2, 32)).T + 1

    x = operand(96, 32, dtype="complex64")
    target = get_target(platform)
    closed = xpr.make_jaxpr(program)(x, x)
    assert compile_module(lower(closed, target, "program"), target)


def test_parts_are_transposed_as_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    set_target(monkeypatch, replace(get_target("cpu"), complex_transposes=False))
    rng = np.random.default_rng(20261128)
    cases: list[Case] = []
    expected = []
    for shape, order in _SHAPES.items():
        x = (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)
        x.flat[:3] = complex(np.nan, np.inf), complex(-0.0, 0.0), complex(np.inf, -np.inf)
        cases.append((lambda x, order=order: (x.transpose(order), -x.transpose(order).imag), (x,)))
        expected.append((x.transpose(order), -x.transpose(order).imag))
    for found, wanted in zip(run_compiled(cases), expected, strict=True):
        for a, b in zip(found, wanted, strict=True):
            assert a.tobytes() == np.ascontiguousarray(b).tobytes()
