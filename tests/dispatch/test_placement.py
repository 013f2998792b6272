"""Devices, committed and uncommitted arrays, moves, and the reference runtime as a device."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp


def _run(code: str) -> list[str]:
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert out.stderr == ""
    return out.stdout.splitlines()


def test_unknown_backend_names_the_known_ones() -> None:
    with pytest.raises(RuntimeError, match=r"Unknown backend tpu.*cpu.*reference"):
        xpr.devices("tpu")
    with pytest.raises(RuntimeError, match="Unknown backend tpu"):
        xpr.jit(lambda x: x, backend="tpu")


def test_default_backend_and_counts() -> None:
    assert xpr.default_backend() == "cpu"
    assert xpr.device_count() == len(xpr.devices()) == xpr.local_device_count()
    assert xpr.process_index() == 0
    assert xpr.process_count() == 1


def test_work_follows_committed_arrays() -> None:
    reference = xpr.devices("reference")[0]
    x = xpr.device_put(np.arange(4.0), reference)
    assert x.devices() == {reference}
    assert (x * 2).devices() == {reference}
    assert (x * 2).committed
    y = xpr.jit(lambda v: jnp.sin(v) + 1)(x)
    assert y.devices() == {reference}
    np.testing.assert_allclose(np.asarray(y), np.sin(np.arange(4.0)) + 1, rtol=1e-6)
    with pytest.raises(ValueError, match="incompatible devices"):
        x + xpr.device_put(1.0, xpr.devices("cpu")[0])
    with pytest.raises(ValueError, match="incompatible devices"):
        xpr.jit(jnp.add)(x, xpr.device_put(1.0, xpr.devices("cpu")[0]))
    # An uncommitted array goes where the committed one is.
    assert (x + jnp.ones(4)).devices() == {reference}
    assert xpr.jit(jnp.add)(x, jnp.ones(4)).devices() == {reference}


def test_jit_on_a_named_backend() -> None:
    f = xpr.jit(lambda x: x + 1, backend="reference")
    out = f(jnp.arange(3))
    assert out.devices() == set(xpr.devices("reference")[:1])
    np.testing.assert_array_equal(np.asarray(out), [1, 2, 3])


def test_default_device_context() -> None:
    reference = xpr.devices("reference")[0]
    f = xpr.jit(lambda x: x * 2)
    assert f(jnp.ones(2)).devices() == {xpr.devices()[0]}
    with xpr.default_device(reference):
        assert jnp.ones(2).devices() == {reference}
        assert f(np.ones(2, "f4")).devices() == {reference}
        assert not jnp.ones(2).committed
    assert jnp.ones(2).devices() == {xpr.devices()[0]}


def test_device_put_of_trees_and_bad_leaves() -> None:
    tree = xpr.device_put({"a": np.arange(3), "b": (1.0, None)}, xpr.devices()[0])
    assert tree["a"].committed
    assert tree["b"][1] is None
    with pytest.raises(TypeError, match="not a valid JAX type: device_put takes arrays"):
        xpr.device_put("text")
    with pytest.raises(ValueError, match="must be a Device, a Sharding, a PartitionSpec or None"):
        xpr.device_put(1.0, 3)


def test_device_get_and_block_until_ready() -> None:
    tree = {"a": jnp.arange(3), "b": [jnp.float32(2.0), 5]}
    host = xpr.device_get(tree)
    assert isinstance(host["a"], np.ndarray)
    np.testing.assert_array_equal(host["a"], [0, 1, 2])
    assert host["b"][1] == 5
    assert xpr.block_until_ready(tree) is tree


def test_environment_gives_cpu_devices() -> None:
    code = (
        "import os; os.environ['XPR_NUM_CPU_DEVICES'] = '3'\n"
        "import xpr, xpr.numpy as jnp\n"
        "print(xpr.devices())\n"
        "xs = [xpr.device_put(jnp.arange(3.0), d) for d in xpr.devices()]\n"
        "f = xpr.jit(lambda x: x + 1)\n"
        "print([f(x).device.id for x in xs], [float(f(x).sum()) for x in xs])\n"
    )
    assert _run(code) == [
        "[CpuDevice(id=0), CpuDevice(id=1), CpuDevice(id=2)]",
        "[0, 1, 2] [6.0, 6.0, 6.0]",
    ]


def test_number_of_devices_cannot_change_after_the_first_use() -> None:
    code = (
        "import xpr\nxpr.devices()\n"
        "try:\n    xpr.config.update('num_cpu_devices', 4)\n"
        "except RuntimeError as e:\n    print('before the first use' in str(e))\n"
    )
    assert _run(code) == ["True"]
