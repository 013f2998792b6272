"""Conversions to wider types on Vulkan: what goes wrong with them, and that ours go right.

A test of a hazard fails when IREE, or the software device's driver, has mended it: then the guard
in `lowering/conversions.py` can go.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as xnp
from tests.harness import run_compiled
from tests.lowering.test_vulkan_hazards import MENDED
from tests.lowering.vulkan_util import (
    compile_on,
    does_not_compile,
    run_on,
    vulkan_device,
)
from xpr.core.config import override
from xpr.runtimes.base import Device


@pytest.fixture(scope="module")
def device() -> Device:
    return vulkan_device()


def test_a_conversion_that_is_read_twice_does_not_fit_in_shared_memory(device: Device) -> None:
    x, like = np.ones((5, 10_007), np.float16), np.ones((5, 10_007), np.float32)
    body = """
    %y = stablehlo.convert %a0 : (tensor<5x10007xf16>) -> tensor<5x10007xf32>
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %s = stablehlo.reduce(%y init: %z) applies stablehlo.add across dimensions = [1]
      : (tensor<5x10007xf32>, tensor<f32>) -> tensor<5xf32>
    %b = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<5xf32>) -> tensor<5x10007xf32>
    %r = stablehlo.subtract %y, %b : tensor<5x10007xf32>
    %r
    """
    with does_not_compile():
        compile_on(device, body, [x], like)


def test_integers_that_were_narrower_are_compared_wrongly(device: Device) -> None:
    if not getattr(device, "is_software", False):
        pytest.skip("this is about the software device's driver")
    x, table = np.array([0, 5, 7], np.int32), np.arange(2, 602, dtype=np.float32).reshape(200, 3)
    body = """
    %w = stablehlo.convert %a0 : (tensor<3xi32>) -> tensor<3xi64>
    %low = stablehlo.constant dense<0> : tensor<3xi64>
    %top = stablehlo.constant dense<100> : tensor<3xi64>
    %m = stablehlo.maximum %w, %low : tensor<3xi64>
    %i = stablehlo.convert %m : (tensor<3xi64>) -> tensor<3xi32>
    %j = stablehlo.reshape %i : (tensor<3xi32>) -> tensor<3x1xi32>
    %g = "stablehlo.gather"(%a1, %j) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
      collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
      slice_sizes = array<i64: 1, 3>, indices_are_sorted = false}>
      : (tensor<200x3xf32>, tensor<3x1xi32>) -> tensor<3x3xf32>
    %p = stablehlo.compare LE, %w, %top, SIGNED : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi1>
    %q = stablehlo.broadcast_in_dim %p, dims = [0] : (tensor<3xi1>) -> tensor<3x3xi1>
    %one = stablehlo.constant dense<1.0> : tensor<3x3xf32>
    %r = stablehlo.select %q, %g, %one : tensor<3x3xi1>, tensor<3x3xf32>
    %r
    """
    found = run_on(device, body, [x, table], np.zeros((3, 3), np.float32))
    assert not np.array_equal(found, table[x]), MENDED


def test_indices_of_64_bits_are_right(device: Device) -> None:
    """Int32 indices are compared with sizes in int64 there."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(1009, 3)).astype(np.float32)
    wild = np.array([0, -1, 500, 1008, 1009, -1009, -1010, 2**31 - 1, -(2**31)], np.int32)
    many, ones = rng.integers(0, 1009, 5003).astype(np.int32), np.ones(5003, np.float32)

    def program(x: Any, wild: Any, many: Any, ones: Any) -> list[Any]:
        filled = x.at[wild].get(mode="fill", fill_value=7)
        return [filled, xnp.zeros(1009, np.float32).at[many].set(ones)]

    with override("enable_x64", True):
        ((filled, marked),) = run_compiled([(program, (x, wild, many, ones))], "vulkan")
    inside = (wild >= -1009) & (wild < 1009)
    np.testing.assert_array_equal(
        filled, np.where(inside[:, None], x[np.where(inside, wild, 0)], 7)
    )
    np.testing.assert_array_equal(marked, np.bincount(many, minlength=1009) > 0)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_long_rows_of_small_floats(device: Device, dtype: Any) -> None:
    x = np.random.default_rng(4).uniform(0, 3, (3, 10_007)).astype(dtype)

    def program(x: Any) -> list[Any]:
        wide = x.astype("float32")
        middle = wide - wide.mean(1, keepdims=True)
        return [xpr.nn.softmax(wide), middle / xnp.sqrt((middle**2).mean(1, keepdims=True))]

    ((softmax, normal),) = run_compiled([(program, (x,))], "vulkan")
    wide = x.astype(np.float64)
    powers = np.exp(wide)
    np.testing.assert_allclose(softmax, powers / powers.sum(1, keepdims=True), rtol=1e-5)
    middle = wide - wide.mean(1, keepdims=True)
    expected = middle / np.sqrt((middle**2).mean(1, keepdims=True))
    np.testing.assert_allclose(normal, expected, rtol=1e-4, atol=1e-5)


def test_conversions_of_two_shapes_of_a_slice_do_not_compile(device: Device) -> None:
    x, like = np.ones((5, 4), np.int8), np.ones((4, 4), np.int32)
    body = """
    %d = stablehlo.slice %a0 [2:3, 0:4] : (tensor<5x4xi8>) -> tensor<1x4xi8>
    %s = stablehlo.reshape %d : (tensor<1x4xi8>) -> tensor<4xi8>
    %p = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<4xi8>) -> tensor<4x1xi8>
    %q = stablehlo.convert %p : (tensor<4x1xi8>) -> tensor<4x1xi32>
    %u = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<4xi8>) -> tensor<1x4xi8>
    %v = stablehlo.convert %u : (tensor<1x4xi8>) -> tensor<1x4xi32>
    %m = stablehlo.broadcast_in_dim %q, dims = [0, 1] : (tensor<4x1xi32>) -> tensor<4x4xi32>
    %n = stablehlo.broadcast_in_dim %v, dims = [0, 1] : (tensor<1x4xi32>) -> tensor<4x4xi32>
    %r = stablehlo.subtract %m, %n : tensor<4x4xi32>
    %r
    """
    with does_not_compile():
        compile_on(device, body, [x], like)


def test_conversions_of_two_shapes_of_a_slice_are_right(device: Device) -> None:
    x = np.random.default_rng(4).integers(-100, 100, (5, 19)).astype(np.int8)

    def distances(row: Any) -> Any:
        apart = row[:, None].astype(np.int32) - row[None].astype(np.int32)
        return xnp.sum(xnp.abs(apart), 1)

    def program(x: Any) -> list[Any]:
        total, each = xpr.lax.scan(
            lambda s, row: (s + distances(row), distances(row).max()), xnp.zeros(19, np.int32), x
        )
        return [total, each, distances(x[3])]

    wide = x.astype(np.int32)
    wanted = np.abs(wide[:, :, None] - wide[:, None]).sum(2, np.int32)
    found = run_compiled([(program, (x,))], "vulkan")[0]
    for a, b in zip(found, [wanted.sum(0), wanted.max(1), wanted[3]], strict=True):
        assert a.tolist() == b.tolist()
