"""What comes out wrong on Vulkan, and the forms that come out right.

A test of a hazard fails when IREE, or the software device's driver, has mended it: then the rule
in `lowering/targets/_vulkan_rules.py` that avoids it can go.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.lowering.vulkan_util import run_on, vulkan_device
from xpr.runtimes.base import Device

MENDED = "this is mended: the guard can go"


@pytest.fixture(scope="module")
def device() -> Device:
    return vulkan_device()


@pytest.fixture(scope="module")
def software(device: Device) -> Device:
    """The device, if it is Mesa's: what other drivers do is their own."""
    if not getattr(device, "is_software", False):
        pytest.skip(f"this is about the software device, not about {device.device_kind}")
    return device


def test_a_drivers_compiler_cancels_sums(software: Device) -> None:
    x = np.array([1.3, 2.7, -4.4], np.float32)
    body = """
    %c = stablehlo.constant dense<12582912.0> : tensor<3xf32>
    %s = stablehlo.add %a0, %c : tensor<3xf32>
    %r = stablehlo.subtract %s, %c : tensor<3xf32>
    %r
    """
    found = run_on(software, body, [x], x)
    assert not np.array_equal(found, np.round(x)), MENDED


def test_the_remainder_of_the_least_integer(software: Device) -> None:
    x, y = np.array([-(2**31), 7, -7], np.int32), np.array([3, -3, -3], np.int32)
    found = run_on(software, "%r = stablehlo.remainder %a0, %a1 : tensor<3xi32>\n%r", [x, y], x)
    assert found.tolist() != [-2, 1, -1], MENDED
