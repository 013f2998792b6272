"""What devices and arrays there are, and what a report of an error should name."""

from __future__ import annotations

import gc
import re

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.conftest import first_device
from xpr.runtimes import registry


def test_the_table_of_devices_lists_every_runtime() -> None:
    text = xpr.print_devices(return_string=True)
    lines = text.splitlines()
    assert lines[0].split() == ["device", "kind", "memory", "features"]
    first_words = [line.split()[0].rstrip("*").partition(":")[0] for line in lines[1:]]
    assert list(dict.fromkeys(first_words)) == registry.known()
    assert re.search(r"^cpu:0\* .* GB +\d+ cores?", text, re.MULTILINE)
    for name, reason in registry.failures().items():
        (line,) = [li for li in lines if li.startswith(f"{name} ")]
        kind, _, words = reason.splitlines()[0].partition(": ")
        assert f"unusable: {kind}" in line
        assert line.endswith(words.rpartition("; ")[2].rstrip())


def test_print_devices_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert xpr.print_devices() is None
    assert capsys.readouterr().out.startswith("device")


@pytest.mark.parametrize("platform", ["cpu", "reference", "vmvx"])
def test_every_device_tells_its_memory(platform: str) -> None:
    device = xpr.devices(platform)[0]
    stats = device.memory_stats()
    assert stats is not None
    assert 0 <= stats["bytes_in_use"] < stats["bytes_limit"]


@pytest.mark.parametrize("platform", ["reference", "vulkan"])
def test_the_memory_of_a_device_follows_its_arrays(platform: str) -> None:
    device = first_device(platform)

    def used() -> int:
        stats = device.memory_stats()
        assert stats is not None
        return stats["bytes_in_use"]

    gc.collect()
    before = used()
    x = xpr.device_put(np.zeros(1000, "f4"), device)
    assert used() - before == 4000
    x.delete()
    assert used() == before


def test_live_arrays() -> None:
    x = jnp.arange(3) + 1
    y = xpr.device_put(1.0, xpr.devices("reference")[0])
    z = jnp.ones(2)

    def count(a: xpr.Array, platform: str | None = None) -> int:
        return sum(b is a for b in xpr.live_arrays(platform))

    assert count(x) == count(z) == count(x, "cpu") == count(y, "reference") == 1
    assert count(y) == count(x, "reference") == 0
    z.delete()
    assert count(z) == 0
    with pytest.raises(RuntimeError, match="Unknown backend tpu"):
        xpr.live_arrays("tpu")


def test_environment_info_names_versions_and_devices(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XPR_SOMETHING", "7")
    text = xpr.print_environment_info(return_string=True)
    for part in (f"xpr: {xpr.__version__}", f"numpy: {np.__version__}", "iree-base-runtime: 3"):
        assert part in text.splitlines() or re.search(rf"^{part}", text, re.MULTILINE)
    assert re.search(r"^devices: \d+ of cpu", text, re.MULTILINE)
    assert "XPR_SOMETHING=7" in text
    assert xpr.print_environment_info() is None
    assert capsys.readouterr().out == text + "\n"


def test_processes_and_their_devices() -> None:
    assert xpr.process_indices() == xpr.process_indices("reference") == [0]
    assert xpr.local_devices() == xpr.local_devices(0) == xpr.devices()
    assert xpr.local_devices(backend="reference") == xpr.devices("reference")
    assert xpr.devices(xpr.devices("reference")[0].client) == xpr.devices("reference")
    with pytest.raises(ValueError, match="no process of number 1"):
        xpr.local_devices(1)
    assert xpr.devices()[0].host_id == 0


def test_copies_to_the_host_keep_the_tree() -> None:
    tree = {"a": jnp.ones(2), "b": 3}
    assert xpr.copy_to_host_async(tree) is tree
    x = jnp.ones(2)
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        xpr.copy_to_host_async([x])


def test_the_parts_of_an_array() -> None:
    device = xpr.devices("reference")[0]
    x = xpr.device_put(np.arange(6.0).reshape(2, 3), device)
    assert x.is_fully_addressable
    assert x.is_fully_replicated
    (shard,) = x.addressable_shards
    assert shard.device is x.device is device
    assert shard.index == (slice(None), slice(None))
    assert shard.replica_id == 0
    np.testing.assert_array_equal(np.asarray(shard.data), np.asarray(x))
    assert x.global_shards[0].index == shard.index
    assert x.to_device(xpr.devices("cpu")[0]).devices() == set(xpr.devices("cpu")[:1])
    assert x.sharding.devices_indices_map((2, 3)) == {device: (slice(None), slice(None))}
    assert x.sharding.memory_kind == "device"
    with pytest.raises(ValueError, match="Got memory kind: disk"):
        xpr.sharding.SingleDeviceSharding(device, memory_kind="disk")
    with pytest.raises(TypeError, match="takes a device, got int"):
        xpr.sharding.make_single_device_sharding(3)  # type: ignore[arg-type]


def test_tracers_have_no_place() -> None:
    error = xpr.errors.ConcretizationTypeError
    with pytest.raises(error, match=r"devices\(\) method.*float32\[3\]"):
        xpr.jit(lambda x: x.devices())(jnp.ones(3))
    with pytest.raises(error, match=r"'committed' attribute.*float32\[3\]"):
        xpr.grad(lambda x: xpr.jit(lambda v: v.committed)(x))(jnp.ones(3))
    with pytest.raises(AttributeError, match="'sharding' attribute is not available"):
        xpr.make_jaxpr(lambda x: x.sharding)(jnp.ones(3))
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        xpr.make_jaxpr(lambda x: x.colour)(jnp.ones(3))


def test_traced_arrays_are_put_on_devices() -> None:
    place = xpr.devices("cpu")[0]
    moved = xpr.jit(lambda x: 2 * x.to_device(place))(jnp.arange(3.0))
    assert moved.devices() == {place}
    np.testing.assert_array_equal(moved, [0, 2, 4])
    with pytest.raises(NotImplementedError, match="to_device takes stream=None, got 1"):
        xpr.jit(lambda x: x.to_device(place, stream=1))(1.0)
