"""Products of operands that were converted: to IREE they are products of the narrow type."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.harness import run_compiled
from tests.lowering.iree_util import MENDED, Call, function, results
from tests.lowering.vulkan_util import run_on, vulkan_device
from xpr import lax, nn
from xpr.lowering import passes

F32 = np.dtype(np.float32)
Array = np.ndarray[Any, Any]


def test_a_product_of_unsigned_integers_is_a_signed_one() -> None:
    """When this fails, the pass over conversions need not look at unsigned types."""
    arguments, product = "%a: tensor<3x4xi8>, %w: tensor<4x2xf32>", "tensor<3x2xf32>"
    body = f"""
      %x = stablehlo.bitcast_convert %a : (tensor<3x4xi8>) -> tensor<3x4xui8>
      %f = stablehlo.convert %x : (tensor<3x4xui8>) -> tensor<3x4xf32>
      %r = stablehlo.dot_general %f, %w, contracting_dims = [1] x [0]
        : (tensor<3x4xf32>, tensor<4x2xf32>) -> {product}
      %r
    """
    x, w = np.full((3, 4), -1, np.int8), np.ones((4, 2), F32)
    ((found,),) = results(function("f", arguments, product, body), [Call("f", [x, w])])
    assert not np.array_equal(found, x.view(np.uint8) @ w), MENDED
    np.testing.assert_array_equal(found, x @ w)


def test_a_product_of_what_was_widened_adds_all_terms_often_on_vulkan() -> None:
    """When this fails, the pass over narrow sources may look at processors alone."""
    body = """
      %f = stablehlo.convert %a0 : (tensor<4x5xi8>) -> tensor<4x5xf32>
      %half = stablehlo.constant dense<0.5> : tensor<4x5xf32>
      %m = stablehlo.multiply %f, %half : tensor<4x5xf32>
      %r = stablehlo.dot_general %a1, %m, contracting_dims = [1] x [0]
        : (tensor<16x4xf32>, tensor<4x5xf32>) -> tensor<16x5xf32>
      %r
    """
    x, w = np.full((4, 5), 2, np.int8), np.ones((16, 4), F32)
    found = run_on(vulkan_device(), body, [x, w], np.zeros((16, 5), F32))
    assert not np.array_equal(found, w @ x / 2), MENDED


def test_without_the_pass_unsigned_elements_count_as_signed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, w = np.full((3, 4), 255, np.uint8), np.ones((4, 2), F32)

    def product(x: Any, w: Any) -> Any:
        return x.astype(F32) @ w

    np.testing.assert_array_equal(xpr.jit(product)(x, w), x @ w)
    monkeypatch.delitem(passes.PASSES, "conversions")
    found = xpr.jit(lambda x, w: product(x, w))(x, w)
    assert not np.array_equal(found, x @ w), MENDED


def _convolved(x: Array, kernel: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(x, kernel.shape[:2], axis=(1, 2))
    return np.einsum("nhwcij,ijco->nhwo", windows, kernel)


def _conv(x: Any, kernel: Any) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=numbers)


def _scaled(m: Any, x: Any) -> Any:
    return x.astype(F32) / 4 + 1


def _chosen(m: Any, x: Any) -> Any:
    return m.where(x > 2, F32.type(2), F32.type(1))


def _spread(m: Any, x: Any) -> Any:
    """Of the first row and column alone."""
    return x[..., :1, :].astype(F32) + x[..., :1].astype(F32)


def _plain(m: Any, x: Any) -> Any:
    return x.astype(F32)


def _values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Small numbers, and the greatest of integers of 8 and 16 bits, so that sums are exact."""
    x = rng.integers(0, 2 if dtype == "bool" else 5, shape)
    if dtype.startswith("uint") or dtype == "int8":
        x[rng.random(shape) < 0.3] = min(np.iinfo(dtype).max, 2**16 - 1)
    return x.astype(dtype)


Function = Callable[..., Any]
PRODUCTS: list[tuple[str, Function, Function, tuple[int, ...], tuple[int, ...]]] = [
    ("matrices", lambda a, b: a @ b, lambda a, b: a @ b, (16, 4), (4, 5)),
    ("second", lambda a, b: a @ b, lambda a, b: a @ b, (8, 4), (4, 17)),
    ("large", lambda a, b: a @ b, lambda a, b: a @ b, (33, 40), (40, 17)),
    ("transposed", lambda a, b: a.T @ b, lambda a, b: a.T @ b, (5, 3), (5, 16)),
    ("vector", lambda a, b: a @ b, lambda a, b: a @ b, (7, 5), (5,)),
    ("batched", lambda a, b: a @ b, lambda a, b: a @ b, (3, 5, 4), (3, 4, 16)),
    ("convolution", _conv, _convolved, (2, 6, 5, 3), (3, 3, 3, 4)),
    ("convolution 1 x 1", _conv, _convolved, (2, 6, 5, 3), (1, 1, 3, 5)),
]


# Those whose second operand is converted; of the others it is the first.
_RIGHT = frozenset({"matrices", "transposed", "batched"})


@pytest.mark.parametrize("runtime", ["cpu", "vulkan", "vmvx"])
def test_products_of_converted_operands(runtime: str) -> None:
    if runtime == "vulkan":
        vulkan_device()
    rng = np.random.default_rng(20261122)
    changes = itertools.cycle((_plain, _scaled, _chosen, _spread, _plain))
    cases, names, expected = [], [], []
    for dtype in ("bool", "uint8", "uint16", "int8" if runtime == "vmvx" else "float16"):
        for name, product, oracle, left, right in PRODUCTS:
            change = next(changes)
            x = _values(rng, right if name in _RIGHT else left, dtype)
            w = rng.integers(-3, 4, left if name in _RIGHT else right).astype(F32)

            def f(product: Any, change: Any, name: str, m: Any, x: Any, w: Any) -> Any:
                return product(w, change(m, x)) if name in _RIGHT else product(change(m, x), w)

            cases.append((functools.partial(f, product, change, name, jnp), (x, w)))
            names.append(f"{name} {dtype} {change.__name__}")
            expected.append(f(oracle, change, name, np, x, w))
    found = run_compiled(cases, runtime)
    for name, (x,), wanted in zip(names, found, expected, strict=True):
        np.testing.assert_allclose(x, wanted, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("runtime", ["cpu", "vulkan"])
def test_integer_products_of_converted_operands(runtime: str) -> None:
    if runtime == "vulkan":
        vulkan_device()
    rng = np.random.default_rng(5)
    cases, expected = [], []
    for narrow in ("bool", "uint8", "int8", "uint16"):
        for wide in ("int32", "uint32"):
            a, b = _values(rng, (16, 4), narrow), _values(rng, (4, 5), narrow)
            w = rng.integers(0, 9, (16, 4)).astype(wide)

            def f(a: Any, b: Any, w: Any, wide: str = wide) -> Any:
                preferred = lax.dot(a, b, preferred_element_type=wide)
                return w @ b.astype(wide), a.astype(wide) @ b.astype(wide), preferred

            cases.append((f, (a, b, w)))
            product = a.astype(wide) @ b.astype(wide)
            expected.append((w @ b.astype(wide), product, product))
    for found, wanted in zip(run_compiled(cases, runtime), expected, strict=True):
        for x, y in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("runtime", ["cpu", "vulkan"])
def test_images_of_bytes_and_labels(runtime: str) -> None:
    """The first step of most classifiers, and its gradient."""
    if runtime == "vulkan":
        vulkan_device()
    rng = np.random.default_rng(6)
    images = rng.integers(0, 256, (9, 5, 5)).astype(np.uint8)
    labels, w = rng.integers(0, 3, 9).astype(np.int32), rng.normal(size=(25, 3)).astype(F32)

    def loss(w: Any, images: Any, labels: Any) -> Any:
        scores = (images.astype(F32) / 255).reshape(9, 25) @ w
        return -(nn.one_hot(labels, 3) * nn.log_softmax(scores)).sum()

    def table(labels: Any, w: Any) -> Any:
        return nn.one_hot(labels, 25) @ w, xpr.jit(nn.one_hot, static_argnums=1)(labels, 25) @ w

    grad = xpr.grad(loss)
    cases = [(grad, (w, images, labels)), (table, (labels, w))]
    (gradient,), rows = run_compiled(cases, runtime)
    x = images.reshape(9, 25) / 255
    scores = x @ w
    powers = np.exp(scores - scores.max(1, keepdims=True))
    chances = powers / powers.sum(1, keepdims=True)
    np.testing.assert_allclose(gradient, x.T @ (chances - np.eye(3)[labels]), rtol=1e-4, atol=1e-5)
    for row in rows:
        np.testing.assert_array_equal(row, w[labels])
