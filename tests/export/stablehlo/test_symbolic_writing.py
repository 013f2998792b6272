"""Programs with symbolic sizes as plain StableHLO, read back at several sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.test_plain import operations
from xpr import lax
from xpr.core.jaxpr import eval_closed
from xpr.export import export, from_stablehlo, symbolic_shape
from xpr.export.generalize import SizeDependenceError

W = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def _moves(x: Any) -> Any:
    wide = jnp.concatenate([x.reshape(-1), jnp.arange(2 * x.shape[0], dtype=np.float32)])
    return wide, x[1:], x[::-1], jnp.pad(x, ((0, x.shape[0]), (1, 0))), jnp.tile(x, (1, 2)), x.T


def _loops(x: Any) -> Any:
    def step(i: Any, y: Any) -> Any:
        return y.at[i % 3].mul(0.5) + lax.dynamic_slice_in_dim(y, 1, 1)

    return lax.fori_loop(0, x.shape[0], step, x), jnp.cumsum(x, 0), jnp.cumsum(x, 1)


def _network(x: Any) -> Any:
    h = xpr.nn.gelu(jnp.tanh(x @ W), approximate=False)
    scores = xpr.nn.softmax(h @ h.T / jnp.sqrt(1.0 * x.shape[0]))
    return scores @ h, h.mean(0), h.var(0), xpr.nn.one_hot(jnp.argmax(h, 1), 4)


def _orders(x: Any) -> Any:
    return (
        jnp.sort(x, 0),
        jnp.argsort(x, 0),
        lax.top_k(x, 2),
        x[jnp.argmax(x, 0)],
        x.at[:, 0].set(1),
    )


def _sizes(x: Any) -> Any:
    b = x.shape[0]
    return x[: b // 2], jnp.full((b, 2), b), jnp.zeros((b * b, 1)) + b, x.sum() / b, jnp.eye(b)


PROGRAMS = (_moves, _loops, _network, _orders, _sizes)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__.strip("_"))
def test_programs_are_read_back_at_several_sizes(function: Callable[..., Any]) -> None:
    (b,) = symbolic_shape("b", constraints=["b >= 4"])
    exported = export(xpr.jit(function), platforms=("cpu",))(
        xpr.ShapeDtypeStruct((b, 3), np.float32)
    )
    text = exported.mlir_module()
    names = operations(text)
    assert all(name.startswith(("stablehlo.", "chlo.")) for name in names), names
    assert "tensor<?x" in text
    loaded = from_stablehlo(bytes(exported.serialize(format="jax")))
    bare = from_stablehlo(exported.mlir_module_serialized)
    assert str(loaded.in_avals) == str(exported.in_avals)
    for rows in (4, 7):
        x = np.random.default_rng(rows).standard_normal((rows, 3)).astype(np.float32)
        expected = xpr.tree_util.tree_leaves(function(jnp.asarray(x)))
        for read in (loaded, bare):
            sizes = read.program.sizes(read.input_names(), [xpr.typeof(jnp.asarray(x))])
            found = eval_closed(read.program.at(sizes), [x])
            for y, z in zip(found, expected, strict=True):
                assert y.shape == z.shape
                np.testing.assert_allclose(y, z, 2e-5, 1e-6)


def test_two_sizes_and_a_derivative() -> None:
    m, n = symbolic_shape("m, n")
    shapes = [xpr.ShapeDtypeStruct(s, np.float32) for s in ((2 * m, n), (n, 3))]
    exported = export(xpr.jit(lambda x, y: jnp.sin(x @ y)), platforms=("cpu",))(*shapes)
    loaded = from_stablehlo(bytes(exported.serialize(vjp_order=1, format="jax")))
    x, y = np.ones((4, 5), np.float32), np.full((5, 3), 0.1, np.float32)
    np.testing.assert_allclose(loaded.call(x, y), np.sin(x @ y), 1e-6)
    found = xpr.grad(lambda x: loaded.call(x, y).sum())(x)
    np.testing.assert_allclose(found, np.cos(x @ y) @ y.T, 1e-5)


def test_a_call_whose_shape_nothing_says_is_refused() -> None:
    (b,) = symbolic_shape("b")
    exported = export(xpr.jit(jnp.linalg.eigvals), platforms=("cpu",))(
        xpr.ShapeDtypeStruct((b, 3, 3), np.float32)
    )
    with pytest.raises(SizeDependenceError, match=r"custom_call.* nothing says what shape"):
        exported.mlir_module()


def test_results_without_values_are_not_written_for_jax() -> None:
    (b,) = symbolic_shape("b")
    struct = xpr.ShapeDtypeStruct((b,), np.float32)
    exported = export(xpr.jit(lambda x, n: x * n), platforms=("cpu",))(struct, np.int32(2))
    with pytest.raises(NotImplementedError, match="symbolic sizes, and results without values"):
        exported.serialize(vjp_order=1, format="jax")


def test_parts_at_places_that_are_values_are_read() -> None:
    text = """
    func.func @main(%x: tensor<?xf32>, %i: tensor<1xi32>) -> tensor<?xf32> {
      %two = stablehlo.constant dense<2> : tensor<1xi32>
      %one = stablehlo.constant dense<1> : tensor<1xi32>
      %end = stablehlo.add %i, %two : tensor<1xi32>
      %y = stablehlo.real_dynamic_slice %x, %i, %end, %one
        : (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
      return %y : tensor<?xf32>
    }"""
    x = np.arange(5, dtype=np.float32)
    found = from_stablehlo(text).call(x, np.array([3], np.int32))
    np.testing.assert_array_equal(found, [3, 4])
    unknown = text.replace("stablehlo.add %i, %two", "stablehlo.multiply %i, %two")
    with pytest.raises(ValueError, match="must be its starts and known sizes"):
        from_stablehlo(unknown).call(x, np.array([3], np.int32))
