"""Arrays put together from parts, callbacks and a process's own data."""

from __future__ import annotations

import numpy as np
import pytest

import xpr
from xpr.sharding import SingleDeviceSharding

HERE = SingleDeviceSharding(xpr.devices("cpu")[0])
THERE = SingleDeviceSharding(xpr.devices("reference")[0])


def test_single_device_arrays() -> None:
    make = xpr.make_array_from_single_device_arrays
    part = xpr.device_put(np.arange(4.0), THERE)
    out = make((4,), THERE, [part], dtype="float32")
    assert out.sharding == THERE
    assert out.committed
    np.testing.assert_array_equal(np.asarray(out), np.arange(4.0))
    with pytest.raises(ValueError, match=r"expected an array on CpuDevice.*on ReferenceDevice"):
        make((4,), HERE, [part])
    with pytest.raises(ValueError, match=r"shape \(5,\) doesn't match.*shape \(4,\)"):
        make((5,), THERE, [part])
    with pytest.raises(ValueError, match=r"expected 1 array.*got 2"):
        make((4,), THERE, [part, part])
    with pytest.raises(ValueError, match=r"got int32 for parts of float32"):
        make((4,), THERE, [part], dtype="int32")
    with pytest.raises(TypeError, match="takes arrays of xpr"):
        make((4,), THERE, [np.ones(4)])
    with pytest.raises(TypeError, match="sharding should be an instance"):
        make((4,), 3, [part])  # type: ignore[arg-type]
    part.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        make((4,), THERE, [part])


def test_callback() -> None:
    make = xpr.make_array_from_callback
    seen = []

    def values(index):
        seen.append(index)
        return np.arange(6, dtype="int32").reshape(2, 3)[index]

    out = make((2, 3), THERE, values)
    assert seen == [(slice(None), slice(None))]
    assert out.sharding == THERE
    assert out.committed
    np.testing.assert_array_equal(np.asarray(out), np.arange(6).reshape(2, 3))
    with pytest.raises(ValueError, match=r"shape \(3, 2\) doesn't match.*shape \(2, 3\)"):
        make((3, 2), THERE, values)
    with pytest.raises(ValueError, match="got float32 for parts of int32"):
        make((2, 3), THERE, values, dtype="float32")
    with pytest.raises(TypeError, match="must return an array"):
        make((2,), THERE, lambda index: "text")


def test_process_local_data() -> None:
    make = xpr.make_array_from_process_local_data
    out = make(THERE, {"a": np.arange(3), "b": np.float32(2)})
    assert out["a"].sharding == out["b"].sharding == THERE
    np.testing.assert_array_equal(np.asarray(out["a"]), [0, 1, 2])
    assert make(HERE, np.ones((2, 2)), (2, 2)).shape == (2, 2)
    with pytest.raises(ValueError, match=r"got \(4,\) for data of shape \(2,\)"):
        make(HERE, np.ones(2), (4,))
