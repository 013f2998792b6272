"""Arrays on devices with memory of their own are copied to the host when they are saved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xpr
from tests.conftest import first_device
from xpr.experimental import checkpoint
from xpr.sharding import SingleDeviceSharding


@pytest.mark.parametrize("name", ["vulkan", "vmvx", "reference"])
def test_saved_before_they_are_donated(name: str, tmp_path: Path) -> None:
    device = first_device(name)
    x = xpr.device_put(np.arange(3000, dtype=np.float32), device)
    few = xpr.device_put(np.arange(3, dtype=np.int32), device)
    step = xpr.jit(lambda x: x * 2, donate_argnums=0)
    with checkpoint.Checkpointer(tmp_path) as checkpointer:
        checkpointer.save(1, {"x": x, "few": few}, wait=False)
        x = step(x)
        place = SingleDeviceSharding(device)
        like = {"x": x, "few": xpr.ShapeDtypeStruct((3,), np.int32, sharding=place)}
        found = checkpointer.restore(like=like)
    assert found["x"].devices() == found["few"].devices() == {device}
    np.testing.assert_array_equal(found["x"], np.arange(3000))
    np.testing.assert_array_equal(found["few"], np.arange(3))
    np.testing.assert_array_equal(x, 2 * np.arange(3000))
