"""Reductions and products that elementwise operations read by two access maps, on each device.

IREE computes such a producer in the dispatch of what uses it, and then only the elements that one
of the maps reads. Each case is a program of its own: in a larger one, one barrier would serve all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.conftest import first_device
from tests.harness import Case, run_compiled, run_reference
from tests.lowering.iree_util import Call, function, results
from xpr import lax
from xpr.lowering import passes, rules
from xpr.lowering.ir.graph import Module, Op, walk
from xpr.lowering.ir.verifier import verify
from xpr.lowering.module import ModuleBuilder
from xpr.lowering.passes import fused_producers
from xpr.lowering.targets import get_target

RNG = np.random.default_rng(11)
Array = Any

HAZARD = function(
    "f",
    "%a: tensor<64x11xf32>",
    "tensor<64x64xf32>",
    """
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %s = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1] :
      (tensor<64x11xf32>, tensor<f32>) -> tensor<64xf32>
    %x = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<64xf32>) -> tensor<64x64xf32>
    %y = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<64xf32>) -> tensor<64x64xf32>
    %d = stablehlo.subtract %x, %y : tensor<64x64xf32>
    %d
    """,
)


def test_a_reduction_read_by_two_maps_is_computed_in_part() -> None:
    a = RNG.standard_normal((64, 11)).astype("f4")
    (found,) = results(HAZARD, [Call("f", [a])])
    s = a.sum(1)
    wrong = np.abs(found[0] - (s[:, None] - s[None])) > 1e-3
    assert wrong.mean() > 0.5, "IREE has mended this: the guard can go"


def test_without_the_pass_the_numbers_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    x = RNG.standard_normal((64, 13)).astype("f4")
    s = x.sum(1)

    def differences(x: Array) -> Array:
        return _pairwise(x.sum(1), x.sum(1))

    np.testing.assert_allclose(xpr.jit(differences)(x), _pairwise(s, s), rtol=1e-4, atol=1e-4)
    monkeypatch.delitem(passes.PASSES, "fused_producers")
    # Of other numbers: what is not computed may still lie in memory from the call before.
    y = RNG.standard_normal((64, 13)).astype("f4")
    found = xpr.jit(lambda x: differences(x))(y)
    wrong = np.abs(np.asarray(found) - _pairwise(y.sum(1), y.sum(1))) > 1e-3
    assert wrong.mean() > 0.5, "IREE has mended this: the pass can go"


def _held(f: Callable[..., Any], *shapes: tuple[int, ...]) -> list[str]:
    """The operations that the pass puts behind barriers."""
    rules.load_all()
    builder = ModuleBuilder(get_target("cpu"))
    builder.add_main(xpr.make_jaxpr(f)(*(np.ones(s, "f4") for s in shapes)), ())
    assert "stablehlo.optimization_barrier" not in _names(builder.module)
    fused_producers.run(builder.module, builder.target, builder.hints)
    verify(builder.module)
    return [
        op.operands[0].owner.name
        for function in builder.module.functions
        for op in walk(function.body)
        if op.name == "stablehlo.optimization_barrier" and isinstance(op.operands[0].owner, Op)
    ]


def _names(module: Module) -> list[str]:
    return [op.name for function in module.functions for op in walk(function.body)]


def test_what_is_barred() -> None:
    inner = xpr.jit(lambda s, t: s[:, None] - t[None])
    assert _held(lambda x: _pairwise(x.sum(1), x.sum(1)), (8, 3)) == ["stablehlo.reduce"] * 2
    assert _held(lambda x, y: _pairwise(x.sum(1), y.sum(1)), (8, 3), (7, 3)) == []
    assert _held(lambda x, y: x.sum(1) - y.sum(1), (8, 3), (8, 3)) == []
    assert _held(lambda x: inner(x.sum(1), x.max(1)), (8, 3)) == ["stablehlo.reduce"] * 2
    assert _held(lambda x: _pairwise(x[0], x[1]), (2, 8)) == []


def _pairwise(a: Array, b: Array) -> Array:
    return a[:, None] - b[None]


PRODUCERS: dict[str, Callable[[Array, Any], Array]] = {
    "sum": lambda x, m: x.sum(1),
    "norm": lambda x, m: m.sqrt((x * x).sum(1) + 1),
    "maximum of columns": lambda x, m: x.max(0),
    "argmax": lambda x, m: x.argmax(1),
    "complex sum": lambda x, m: (x + 1j * x[:, :1]).sum(1),
    "unsigned sum": lambda x, m: (x * 8).astype("i4").astype("u4").sum(1, dtype="u4"),
    "vector product": lambda x, m: x @ x[0],
    "variance": lambda x, m: x.var(1),
    "two sums that are one": lambda x, m: (x * 2).sum(1),
}
READERS: dict[str, Callable[[Array, Any], Array]] = {
    "differences": lambda v, m: v[:, None] - v[None],
    "product of matrices": lambda v, m: v[:, None] @ v[None],
    "in three axes": lambda v, m: v[:, None, None] * 2 + v[None, None, :],
    "reshaped": lambda v, m: v[:, None] * v.reshape(1, -1),
    "slices": lambda v, m: v[1:, None] * v[None, 1:],
}


def _check(f: Callable[[Array, Any], Array], x: np.ndarray[Any, Any], device: Any) -> None:
    found = np.asarray(xpr.jit(lambda x: f(x, jnp))(xpr.device_put(x, device)))
    expected = f(x, np)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * scale)


@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize("platform", ["cpu", "vulkan"])
def test_producers(platform: str, producer: str) -> None:
    x = RNG.standard_normal((64, 11)).astype("f4")

    def f(x: Array, m: Any) -> Array:
        v = PRODUCERS[producer](x, m)
        if producer == "two sums that are one":
            return _pairwise(v, PRODUCERS[producer](x, m))
        return _pairwise(v, v)

    _check(f, x, first_device(platform))


@pytest.mark.parametrize("reader", READERS)
def test_readers(reader: str) -> None:
    x = RNG.standard_normal((100, 8)).astype("f4")
    _check(lambda x, m: READERS[reader](x.sum(1), m), x, first_device("cpu"))


def test_squared_distances() -> None:
    x = RNG.standard_normal((100, 48)).astype("f4")

    def f(x: Array, m: Any) -> Array:
        squares = (x * x).sum(1)
        return squares[:, None] + squares[None] - 2 * x @ x.T

    _check(f, x, first_device("cpu"))


@pytest.mark.parametrize("platform", ["cpu", "vulkan"])
def test_what_was_gathered(platform: str) -> None:
    """SPIR-V's code generator got through with none of these: what `jnp.sort` gives is gathered."""
    x = RNG.standard_normal(64).astype("f4")

    def f(x: Array, m: Any) -> Array:
        s = m.sort(x)
        return m.hypot(s[:, None], s[None])

    _check(f, x, first_device(platform))


def test_a_map_over_what_was_reduced() -> None:
    x = RNG.standard_normal((64, 11)).astype("f4")
    s = x.sum(1)
    found = xpr.jit(lambda x: (lambda s: xpr.vmap(lambda a: a - s)(s))(x.sum(1)))(x)
    np.testing.assert_allclose(found, s[:, None] - s, rtol=1e-4, atol=1e-4)


def _same(a: Array) -> Array:
    return a * 2 - a


CALLS: dict[str, Callable[[Array], Array]] = {
    "one parameter": lambda s: xpr.jit(lambda a: _pairwise(a, a))(s),
    "two parameters": lambda s: xpr.jit(_pairwise)(s, s),
    "two parameters of two types": lambda s: xpr.jit(lambda a, b: a - b)(s[:, None], s[None]),
    "a result and what it came from": lambda s: _pairwise(xpr.jit(_same)(s), s),
    "a function in a function": lambda s: xpr.jit(lambda a: _pairwise(xpr.jit(_same)(a), a))(s),
}


@pytest.mark.parametrize("case", CALLS)
def test_functions_that_are_inlined(case: str) -> None:
    x = RNG.standard_normal((64, 11)).astype("f4")
    s = x.sum(1)
    found = xpr.jit(lambda x: CALLS[case](x.sum(1)))(x)
    np.testing.assert_allclose(found, _pairwise(s, s), rtol=1e-4, atol=1e-4)


def test_a_producer_inside_of_a_function_that_is_called_twice() -> None:
    x, y = (RNG.standard_normal((64, 11)).astype("f4") for _ in range(2))
    norms = xpr.jit(lambda x: (x * x).sum(1))
    found = xpr.jit(lambda x, y: (_pairwise(norms(x), norms(x)), norms(x) + norms(y)))(x, y)
    a, b = (x * x).sum(1), (y * y).sum(1)
    np.testing.assert_allclose(found[0], _pairwise(a, a), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found[1], a + b, rtol=1e-4)


def test_loops_and_branches() -> None:
    x = RNG.standard_normal((64, 11)).astype("f4")
    s = x.sum(1)

    def inside(x: Array, outer: Array) -> Array:
        return lax.fori_loop(
            0, 2, lambda i, c: c + _pairwise((x + c[:, :11] * 0).sum(1), outer), x @ x.T
        )

    found = xpr.jit(lambda x: inside(x, x.sum(1)))(x)
    np.testing.assert_allclose(found, x @ x.T + 2 * _pairwise(s, s), rtol=1e-4, atol=1e-3)
    choose = xpr.jit(
        lambda p, x: lax.cond(p, lambda v: _pairwise(v, v), lambda v: v[:, None] + v, x.sum(1))
    )
    np.testing.assert_allclose(choose(True, x), _pairwise(s, s), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(choose(False, x), s[:, None] + s, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "int8", "int16"])
def test_reductions_of_rows_broadcast_along_a_leading_axis_on_vulkan(dtype: str) -> None:
    """In one dispatch neither compiles; that of int8 ended the process."""
    rng = np.random.default_rng(3)
    m, k = (
        rng.integers(-5, 5, (64, 100)).astype(dtype),
        rng.integers(-5, 5, (100, 64)).astype(dtype),
    )
    operands = xpr.device_put((m, k), first_device("vulkan"))
    found = xpr.jit(lambda m, k: m.min(1)[None] + k)(*operands)
    np.testing.assert_array_equal(found, m.min(1)[None] + k)


@pytest.mark.parametrize("platform", ["metal", "vulkan"])
def test_such_reductions_compile(platform: str) -> None:
    m, k = (xpr.ShapeDtypeStruct(s, np.int8) for s in ((64, 100), (100, 64)))
    lowered = xpr.jit(lambda m, k: m.min(1)[None] + k).lower(m, k, platform=platform)
    assert "stablehlo.optimization_barrier" in lowered.as_text("iree")
    assert lowered.compile().memory_analysis()


def _barriers(f: Callable[..., Array], *shapes: tuple[int, ...]) -> int:
    text = xpr.jit(f).lower(*(xpr.ShapeDtypeStruct(s, np.float32) for s in shapes)).as_text("iree")
    return text.count("stablehlo.optimization_barrier")


def test_what_is_read_by_one_map_stays_in_its_dispatch() -> None:
    def normalized(x: Array) -> Array:
        return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)

    assert _barriers(normalized, (64, 32)) == 0
    assert _barriers(lambda x: xpr.nn.softmax(x), (64, 32)) == 0
    assert _barriers(lambda x: x - x.mean(0) - x.mean(1, keepdims=True), (64, 32)) == 0
    assert _barriers(lambda x: (lambda v: v[1:] - v[:-1])(x.sum(1)), (64, 32)) == 0
    assert _barriers(lambda x, w: xpr.nn.relu(x @ w) @ w, (64, 32), (32, 32)) == 0
    assert _barriers(lambda x: (lambda v: v[:, None] - v)(x.sum(1)), (64, 32)) == 1


def test_conversions_read_by_two_maps_are_right() -> None:
    """They get no barrier on CPUs: IREE converts anew for each map."""

    def pairs(x: Array) -> list[Array]:
        y = x.astype("f4")
        pair = y[:, None] * 3 - y[None]
        return [pair, pair.max(1), pair.min(0), jnp.sort(x), jnp.outer(y, y) + y]

    rng = np.random.default_rng(4)
    cases: list[Case] = [
        (pairs, (rng.integers(0, 100, n).astype(dtype),))
        for dtype in ("uint8", "int16", "float16")
        for n in (4, 33, 100, 257)
    ]
    for found, expected in zip(run_compiled(cases), run_reference(cases), strict=True):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)
