"""Elementwise operations that come out wrong on Vulkan, and the forms that come out right.

As in `test_vulkan_hazards.py`, a test of a hazard fails when it has been mended.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr.numpy as xnp
from tests.harness import Case, assert_same, run_compiled, run_reference
from tests.lowering.test_vulkan_hazards import MENDED
from tests.lowering.vulkan_util import compile_on, run_on, vulkan_device
from xpr import lax
from xpr.core.config import override
from xpr.core.errors import CompileError
from xpr.runtimes.base import Device


@pytest.fixture(scope="module")
def device() -> Device:
    return vulkan_device()


@pytest.mark.parametrize("dtype", ["int8", "int16", "int64"])
def test_leading_zeros_of_other_than_32_bits_do_not_compile(device: Device, dtype: str) -> None:
    x = np.ones(3, dtype)
    of = f"tensor<3xi{8 * x.itemsize}>"
    body = f"%r = stablehlo.count_leading_zeros %a0 : {of}\n%r"
    with pytest.raises(CompileError, match=r"math\.ctlz"):
        compile_on(device, body, [x], x)


def test_a_driver_takes_products_with_a_constant_zero_for_zero(device: Device) -> None:
    if not getattr(device, "is_software", False):
        pytest.skip(f"this is about the software device, not about {device.device_kind}")
    x = np.array([1, np.inf, np.nan], np.float32)
    body = """
    %z = stablehlo.constant dense<0.0> : tensor<3xf32>
    %r = stablehlo.multiply %a0, %z : tensor<3xf32>
    %r
    """
    assert not np.isnan(run_on(device, body, [x], x)[1:]).all(), MENDED


def _rounded(x: Any) -> list[Any]:
    """Floats as bfloat16, also by way of a wider and a narrower type."""
    b = ml_dtypes.bfloat16
    return [x.astype(b), x.astype("float64").astype(b), x.astype("float16").astype(b)]


def _of_integers(n: Any) -> list[Any]:
    b = ml_dtypes.bfloat16
    kinds = ("float32", "float64", "int8", "bool", "uint32", "int64")
    return [
        *(n.astype(t).astype(b) for t in kinds),
        (n.astype("float32") * np.float32(1)).astype(b).reshape(4, -1).T,
        xnp.arange(7, dtype=b),
        lax.fori_loop(0, 3, lambda i, v: v + i.astype(b), n.astype(b)),
    ]


def test_conversions_to_bfloat16_round_once_from_any_type() -> None:
    vulkan_device()
    rng = np.random.default_rng(0)
    n = rng.integers(-100_000, 100_000, 400).astype(np.int32)
    n[:4] = 2**31 - 1, -(2**31), 2**24 + 1, 0
    special = [np.inf, -np.inf, np.nan, 0.0, -0.0, 3.4e38, 1e-40]
    wide = rng.uniform(-1, 1, 400) * 10.0 ** rng.integers(-45, 38, 400)
    x = np.concatenate([wide, special]).astype(np.float32)
    nans = np.array([0x7F800001, 0xFFFFFFFF, 0xFF800001, 0x7FFFFFFF], np.uint32).view(np.float32)
    cases: list[Case] = [
        (_rounded, (x,)),
        (_of_integers, (n,)),
        (lambda v: v.astype(ml_dtypes.bfloat16), (nans,)),
    ]
    with override("enable_x64", True), np.errstate(all="ignore"):
        found, expected = run_compiled(cases, "vulkan"), run_reference(cases)
    for results, wanted in zip(found, expected, strict=True):
        for a, b in zip(results, wanted, strict=True):
            assert_same(a, b, signed_zero=True)
