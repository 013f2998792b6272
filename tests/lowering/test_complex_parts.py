"""Complex arithmetic is lowered by parts, since IREE may mix up what it takes apart itself.

Of a dispatch that returns one value twice, the second is taken for the result with the number that
the value has in its operation. It happens where a real or imaginary part is taken of complex
numbers made elsewhere in the dispatch, with a reshape in between.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as xnp
from tests.conftest import skip_unless_usable
from tests.harness import run_compiled
from tests.lowering.iree_util import MENDED, compile_with, status_of_compile
from tests.lowering.test_ir import graph_of
from tests.lowering.vulkan_util import run_on
from xpr import lax
from xpr.core.config import override
from xpr.lowering import passes
from xpr.lowering.ir.graph import walk
from xpr.lowering.ir.printer import print_module
from xpr.lowering.ir.traits import Kind
from xpr.lowering.targets import get_target
from xpr.lowering.targets.flags import ProgramHints, llvm_cpu_flag_sets
from xpr.runtimes import registry

_C, _F = "tensor<1x1xcomplex<f32>>", "tensor<1x1xf32>"


def _dot(x: str, y: str) -> str:
    return f"stablehlo.dot_general {x}, {y}, contracting_dims = [1] x [0] : ({_C}, {_C}) -> {_C}"


_BODY = f"""
    %1 = stablehlo.constant dense<(1.0, 0.0)> : {_C}
    %e = {_dot("%a0", "%a1")}
    %q = stablehlo.subtract %1, %e : {_C}
    %re = stablehlo.real %q : ({_C}) -> {_F}
    %im = stablehlo.imag %q : ({_C}) -> {_F}
    %minus = stablehlo.negate %im : {_F}
    %conj = stablehlo.complex %re, %minus : {_C}
    %p = {_dot("%q", "%a1")}
    %g = {_dot("%conj", "%q")}
    %pb = stablehlo.optimization_barrier %p : {_C}
    %gb = stablehlo.optimization_barrier %g : {_C}
    %r = stablehlo.add %pb, %gb : {_C}
    %r
"""


def _numbers(*shape: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return (rng.uniform(-1, 1, shape) + 1j * rng.uniform(-1, 1, shape)).astype(np.complex64)


def test_parts_of_complex_numbers_that_a_dispatch_made_are_mixed_up() -> None:
    x, y = _numbers(1, 1), _numbers(1, 1, seed=1)
    q = 1 - x * y
    found = run_on(registry.devices("cpu")[0], _BODY, [x, y], x)
    assert not np.allclose(found, q * y + np.conj(q) * q, atol=1e-5), "this is mended"


def _products(x: Any, y: Any) -> list[Any]:
    q = 1 - x @ y
    return [q @ y, q.conj().T @ q]


def _reshaped(x: Any, y: Any, module: Any = xnp) -> list[Any]:
    column = (len(x), 1)
    p = (x.reshape(column) * y.reshape(column)).reshape(-1)
    q = (p.reshape(column) * (1 - x).reshape(column)).reshape(-1)
    r = module.conj(q) - p
    wide = module.concatenate([q, r])[1:-1]
    s = module.broadcast_to(r[::-1], (2, len(x))).T * p.reshape(column)
    return [module.conj(q) * q, r * y, (p.reshape(column) * r.reshape(column)).T, wide * wide, s]


@pytest.mark.parametrize("runtime", ["cpu", "vulkan"])
def test_products_of_complex_numbers_and_their_reshapes(runtime: str) -> None:
    skip_unless_usable(runtime)
    one = [_numbers(1, 1), _numbers(1, 1, seed=1)]
    few = [_numbers(3), _numbers(3, seed=1)]
    found = run_compiled([(_products, one), (_reshaped, few)], runtime)
    wanted = [_products(*one), _reshaped(few[0], few[1], np)]
    for results, expected in zip(found, wanted, strict=True):
        for a, b in zip(results, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def _text(function: Any, *operands: Any, target: str = "cpu") -> str:
    with override("enable_x64", True):
        module = graph_of(xpr.make_jaxpr(function)(*operands), target)
    about = get_target(target).module_attributes
    assert module.attributes == about
    return print_module(module, "m")


def test_without_the_pass_parts_are_mixed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(passes.PASSES, "complex_parts")
    x, y = _numbers(1, 1), _numbers(1, 1, seed=1)
    found = run_compiled([(_products, [x, y])], "cpu")[0]
    wanted = _products(x, y)
    right = [np.allclose(a, b, atol=1e-5) for a, b in zip(found, wanted, strict=True)]
    assert not all(right), MENDED


def test_without_the_pass_numbers_of_128_bits_do_not_compile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(passes.PASSES, "complex_parts")
    text = _text(lambda x: [x, xnp.full(3, 1j, np.complex128)], np.ones(3, np.complex128))
    module, _ = compile_with(text, llvm_cpu_flag_sets(ProgramHints())[0])
    assert module is None, MENDED


def test_without_the_pass_a_pad_ends_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(passes.PASSES, "complex_parts")
    text = _text(lambda x: lax.pad(x * x, np.complex64(0), [(1, 1, 0)]), _numbers(3))
    assert status_of_compile(text, base=get_target("cpu").flag_sets(ProgramHints())[0]) < 0, MENDED


def test_what_is_left_of_complex_numbers() -> None:
    """Arrays cross a function's boundary in whole; all between them is real."""

    def f(x: Any, y: Any) -> Any:
        joined = xnp.concatenate([x @ y, (x + y)[:1] * 2j]).T
        return xnp.pad(joined.reshape(-1), 2)[::-1]

    for dtype in (np.complex64, np.complex128):
        with override("enable_x64", True):
            operands = [_numbers(3, 3).astype(dtype), _numbers(3, 3, seed=1).astype(dtype)]
            module = graph_of(xpr.make_jaxpr(f)(*operands), "cpu")
        names = [
            op.name
            for op in walk(module.functions[-1].body)
            if any(v.dtype.kind == "c" for v in op.results) and op.kind is not Kind.BARRIER
        ]
        assert names == ["stablehlo.complex"]


@pytest.mark.parametrize(("target", "count"), [("cpu", 1), ("vulkan", 2)])
def test_scans_of_complex_numbers(target: str, count: int) -> None:
    text = _text(lambda x: xnp.cumsum(x), _numbers(9), target=target)
    assert text.count("stablehlo.reduce_window") == count


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_forms_of_complex_operations(dtype: Any) -> None:
    x, y = _numbers(6, 5).astype(dtype), _numbers(5, 6, seed=1).astype(dtype)
    tall = _numbers(40, 600, seed=2).astype(dtype)
    table = _numbers(5, seed=3).astype(dtype)

    def f(x: Any, y: Any, tall: Any, np_: Any) -> list[Any]:
        one = np_.ones_like(x) * 2
        return [
            (x @ y).T[1:] - 3,
            tall[0] @ tall.T[:, :20],
            tall.sum(0),
            tall.sum(),
            np_.cumsum(x, 1),
            np_.pad(x * x, 1),
            np_.where(x.real > 0, x, np_.conj(y.T)) * table,
            np_.concatenate([x, one])[::-1] * 1j,
        ]

    with override("enable_x64", True):
        functions = [lambda *a, i=i: f(*a, xnp)[i] for i in range(8)]
        found = run_compiled([(g, [x, y, tall]) for g in functions])
    for (a,), b in zip(found, f(x, y, tall, np), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-4 if dtype == np.complex64 else 1e-12)
