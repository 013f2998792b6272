"""Callbacks that a `sharding` gives to a device, in programs of sharded arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.experimental import io_callback
from xpr.sharding import AxisType, Mesh, NamedSharding, SingleDeviceSharding
from xpr.sharding import PartitionSpec as P


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("ordered", [False, True])
def test_the_device_of_a_callback_is_no_sharding_of_its_results(kind: Any, ordered: bool) -> None:
    mesh = Mesh(np.array(xpr.devices()[:2]), ("d",), (kind,))
    one = SingleDeviceSharding(xpr.devices()[1])
    seen: list[float] = []

    def f(x: Any) -> Any:
        io_callback(lambda v: seen.append(float(v.sum())), None, x, sharding=one, ordered=ordered)
        return x + 1

    x = xpr.device_put(jnp.arange(4.0), NamedSharding(mesh, P("d")))
    run = xpr.jit(f)
    np.testing.assert_array_equal(run(x), np.arange(4.0) + 1)
    np.testing.assert_array_equal(run(x + 1), np.arange(4.0) + 2)
    xpr.effects_barrier()
    assert seen == [6.0, 10.0]
