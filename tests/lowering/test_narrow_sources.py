"""Reductions of what is computed from narrower elements, which IREE computes again where it is
read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.conftest import skip_unless_usable
from tests.harness import run_compiled
from tests.lowering.iree_util import MENDED, compile_with, function
from tests.lowering.vulkan_util import run_on, vulkan_device
from xpr.lowering import passes
from xpr.lowering.targets.flags import ProgramHints, llvm_cpu_flag_sets

F32 = np.dtype(np.float32)
FAST = llvm_cpu_flag_sets(ProgramHints())[0]
Function = Callable[..., Any]


def test_a_reduction_of_every_other_element_does_not_compile() -> None:
    body = """
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %f = stablehlo.convert %x : (tensor<10000xi8>) -> tensor<10000xf32>
      %s = stablehlo.slice %f [0:10000:101] : (tensor<10000xf32>) -> tensor<100xf32>
      %r = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<100xf32>, tensor<f32>) -> tensor<f32>
      %r
    """
    module, said = compile_with(function("f", "%x: tensor<10000xi8>", "tensor<f32>", body), FAST)
    assert module is None, MENDED
    assert "exceeded stack allocation limit" in said[0].message


def test_reductions_of_what_is_broadcast_add_all_terms_often_on_vulkan() -> None:
    """When this fails, the pass may leave out broadcasts."""
    body = """
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %f = stablehlo.convert %a0 : (tensor<64x9xi8>) -> tensor<64x9xf32>
      %s = stablehlo.broadcast_in_dim %f, dims = [0, 1] : (tensor<64x9xf32>) -> tensor<64x9x9xf32>
      %t = stablehlo.broadcast_in_dim %f, dims = [0, 2] : (tensor<64x9xf32>) -> tensor<64x9x9xf32>
      %p = stablehlo.multiply %s, %t : tensor<64x9x9xf32>
      %r = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [2]
        : (tensor<64x9x9xf32>, tensor<f32>) -> tensor<64x9xf32>
      %r
    """
    x = np.ones((64, 9), np.int8)
    found = run_on(vulkan_device(), body, [x], np.zeros((64, 9), F32))
    assert not np.array_equal(found, np.full((64, 9), 9, F32)), MENDED


def _wide(x: Any) -> Any:
    return x.astype(F32)


def _centred(m: Any, u: Any) -> Any:
    return u - u.mean(1, keepdims=True)


def _softmax(m: Any, u: Any) -> Any:
    e = m.exp(u - u.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# Functions of NumPy's module, or ours, an array of n x k narrow elements, one of n and one of k.
PROGRAMS: dict[str, Function] = {
    "softmax": lambda m, x, s, b: _softmax(m, _wide(x)),
    "biased softmax": lambda m, x, s, b: _softmax(m, _wide(x) + b),
    "softmax of scaled rows": lambda m, x, s, b: _softmax(m, _wide(x) * s[:, None]),
    "softmax of sums": lambda m, x, s, b: _softmax(m, _wide(x) + _wide(x[::-1])),
    "softmax of three axes": lambda m, x, s, b: _softmax(m, _wide(x).reshape(2, -1, len(b)) + b),
    "chosen softmax": lambda m, x, s, b: _softmax(m, m.where(x > 2, _wide(x), F32.type(-9))),
    "mask": lambda m, x, s, b: _softmax(m, _wide(x > 2) + b),
    "centred": lambda m, x, s, b: _centred(m, _wide(x)).var(1),
    "centred twice": lambda m, x, s, b: _centred(m, _centred(m, _wide(x))).sum(1),
    "normalised": lambda m, x, s, b: (_wide(x) + b) / (1 + (_wide(x) + b).std(1, keepdims=True)),
    "over columns": lambda m, x, s, b: (_wide(x) - s[:, None]).var(0),
    "over all": lambda m, x, s, b: (_wide(x) / 4 - (_wide(x) / 4).mean()).var(),
    "sum": lambda m, x, s, b: (_wide(x) * b).sum(1),
    "pairs": lambda m, x, s, b: (_wide(x)[:, :, None] * _wide(x)[:, None]).sum(2),
    "pairs of rows": lambda m, x, s, b: m.abs(_wide(x)[:, None] - _wide(x)[None]).mean(2),
    "broadcast": lambda m, x, s, b: (_wide(x)[:, :, None] * m.arange(5)).sum(1),
    "crossed": lambda m, x, s, b: (_wide(x)[:, :, None] * _wide(x > 2)[:, None]).sum(2),
    "whole numbers": lambda m, x, s, b: (x.astype("int32")[:, :, None] - 2).max(1),
    "trace": lambda m, x, s, b: m.trace(_wide(x[:, : len(s)])),
    "every other": lambda m, x, s, b: _wide(x)[::2].sum(),
    "median": lambda m, x, s, b: m.median(_wide(x), 1),
    "ranks": lambda m, x, s, b: m.argsort(m.argsort(-_wide(x) * 100 + m.arange(len(b)))),
    "order of sums": lambda m, x, s, b: m.argsort(_wide(x).sum(1) * 128 + m.arange(len(s))),
}


def test_reductions_of_rows_in_two_parts_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """When this fails, the pass is needed for GPUs alone.

    Rows of 100 elements are reduced as 96 and 4: the second part is read from elsewhere.
    """
    monkeypatch.delitem(passes.PASSES, "narrow_sources")
    x = np.random.default_rng(0).integers(0, 10, (64, 100)).astype(np.uint8)
    ((found,),) = run_compiled([(lambda x: _softmax(jnp, _wide(x)), (x,))])
    # What is read from elsewhere may be anything, infinities of both signs among it.
    with np.errstate(invalid="ignore", over="ignore"):
        sums = found.sum(1)
    assert not np.allclose(sums, 1, atol=1e-3), MENDED


DTYPES = ("uint8", "int16", "float16", "bfloat16", "bool")


@pytest.mark.parametrize("runtime", ["cpu", "vulkan"])
@pytest.mark.parametrize("shape", [(64, 100), (48, 17), (100, 9)])
def test_programs_of_narrow_elements(shape: tuple[int, int], runtime: str) -> None:
    skip_unless_usable(runtime)
    rng = np.random.default_rng(1)
    s, b = (rng.normal(size=n).astype(F32) for n in shape)
    cases, expected = [], []
    for i, f in enumerate(PROGRAMS.values()):
        # Every program in one dtype of each shape, another one in the next shape.
        name = DTYPES[(i + shape[0]) % len(DTYPES)]
        x = rng.integers(0, 10, shape).astype(getattr(ml_dtypes, name, name))
        cases.append((lambda x, s, b, f=f: f(jnp, x, s, b), (x, s, b)))
        expected.append(f(np, x, s, b))
    for name, (found,), wanted in zip(
        PROGRAMS, run_compiled(cases, runtime), expected, strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4, err_msg=name)


def _single_elements() -> tuple[list[Any], list[Any]]:
    """Elements that lie apart, behind a reshape, of what was widened; and what NumPy gives."""
    x = np.random.default_rng(4).integers(0, 10, (64, 100, 3)).astype(np.uint8)
    a, b, c = np.float32(0.5), np.float32(3), np.float32(-2)
    functions: list[Function] = [
        lambda x, a, b, c: ((_wide(x) * a).reshape(-1) * b)[3148] * c,
        lambda x, a, b, c: ((_wide(x) * a).reshape(-1) * b)[::7] * c,
        lambda x, a, b, c: (_wide(x).reshape(-1) * b)[3148:3149],
        lambda x, a, b, c: (_wide(x) * a).reshape(64, 300)[:, ::150] * c,
    ]
    cases: list[Any] = [(f, (x, a, b, c)) for f in functions]
    expected = [f(x, a, b, c) for f in functions]
    cases.append((lambda x, a, b, i: ((_wide(x) * a).reshape(-1) * b)[i], (x, a, b, np.int32(5))))
    expected.append(((_wide(x) * a).reshape(-1) * b)[5])
    return cases, expected


def test_all_is_computed_for_single_elements_behind_a_reshape() -> None:
    """When this fails, the pass may leave out slices."""
    body = """
      %f = stablehlo.convert %x : (tensor<6400x3xi8>) -> tensor<6400x3xf32>
      %s = stablehlo.multiply %f, %f : tensor<6400x3xf32>
      %r = stablehlo.reshape %s : (tensor<6400x3xf32>) -> tensor<19200xf32>
      %t = stablehlo.slice %r [0:19200:7] : (tensor<19200xf32>) -> tensor<2743xf32>
      %u = stablehlo.multiply %t, %t : tensor<2743xf32>
      %u
    """
    module, said = compile_with(
        function("f", "%x: tensor<6400x3xi8>", "tensor<2743xf32>", body), FAST
    )
    assert module is None, MENDED
    assert "exceeded stack allocation limit" in said[0].message


@pytest.mark.parametrize("runtime", ["cpu", "vulkan"])
def test_single_elements_behind_a_reshape(runtime: str) -> None:
    skip_unless_usable(runtime)
    cases, expected = _single_elements()
    for (found,), wanted in zip(run_compiled(cases, runtime), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def _integer_products() -> tuple[list[Any], list[Any]]:
    """Products of narrow integers in wider ones, and what NumPy gives."""
    rng = np.random.default_rng(3)
    cases: list[Any] = []
    expected = []
    for narrow, wide in (("int8", "int32"), ("int16", "int32"), ("int8", "int16")):
        for terms, subscripts in ((64, "ij,kj->ik"), (30, "ij,jk->ik"), (64, "ij,j->i")):
            m = (48 if wide == "int16" else 22), terms
            n = (64, terms) if "k" not in subscripts or "kj" in subscripts else (terms, 64)
            x = rng.integers(-7, 8, m).astype(narrow)
            y = rng.integers(-7, 8, n if "k" in subscripts else terms).astype(narrow)
            if wide == "int16":  # a product for each of several matrices
                x, y = x.reshape(3, 16, terms), np.broadcast_to(y, (3, *y.shape)).copy()
                subscripts = "b" + subscripts.replace(",", ",b").replace("->", "->b")

            def product(x: Any, y: Any, wide: str = wide, subscripts: str = subscripts) -> Any:
                return jnp.einsum(subscripts, x.astype(wide), y.astype(wide))

            cases.append((product, (x, y)))
            expected.append(np.einsum(subscripts, x.astype(int), y.astype(int)))
    return cases, expected


def test_without_the_pass_products_lose_signs_on_vulkan(monkeypatch: pytest.MonkeyPatch) -> None:
    skip_unless_usable("vulkan")
    monkeypatch.delitem(passes.PASSES, "narrow_sources")
    cases, expected = _integer_products()
    found = [x for (x,) in run_compiled(cases, "vulkan")]
    assert not all(np.array_equal(x, y) for x, y in zip(found, expected, strict=True)), MENDED


@pytest.mark.parametrize("runtime", ["cpu", "vulkan"])
def test_products_of_narrow_integers_in_wider_ones(runtime: str) -> None:
    skip_unless_usable(runtime)
    cases, expected = _integer_products()
    for (found,), wanted in zip(run_compiled(cases, runtime), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("runtime", ["cpu", "vulkan"])
def test_narrow_elements_in_functions_of_their_own(runtime: str) -> None:
    """Functions under `jit` become functions of the module, which IREE may inline."""
    skip_unless_usable(runtime)
    x = np.random.default_rng(2).integers(0, 10, (64, 100)).astype(np.uint8)
    softmax = xpr.jit(lambda u: _softmax(jnp, u))
    pairs = xpr.jit(lambda u: (u[:, :, None] * u[:, None]).sum(2))
    cases: list[Any] = [
        (lambda x: softmax(_wide(x)), (x,)),
        (lambda x: softmax(xpr.jit(_wide)(x)), (x,)),
        (lambda x: pairs(_wide(x[:, :9])), (x,)),
        # Of the first argument IREE knows that it is not negative, and divides as unsigned.
        (lambda x: x[:, 0].astype("int32") // 7, (x,)),
        (lambda x: x[:, 0].astype("int32") % 7, (x,)),
    ]
    wide = x.astype(F32)
    rows = wide[:, :9]
    expected = [_softmax(np, wide)] * 2 + [(rows[:, :, None] * rows[:, None]).sum(2)]
    expected += [x[:, 0] // 7, x[:, 0] % 7]
    for (found,), wanted in zip(run_compiled(cases, runtime), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
