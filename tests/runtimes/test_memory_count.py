"""Bytes of live buffers, counted by many threads and in the middle of garbage collections."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from tests.conftest import first_device
from xpr.runtimes import hal
from xpr.runtimes.hal_device import DeviceBuffer, HalDevice
from xpr.runtimes.memory_count import Allocation, MemoryCount


@pytest.fixture(scope="module")
def device() -> HalDevice:
    found = first_device("vulkan")
    assert isinstance(found, HalDevice)
    return found


def test_what_lives_counts() -> None:
    count = MemoryCount()
    assert count.read() == (0, 0)
    first = Allocation(count, 100)
    second = Allocation(count, 20)
    assert count.read() == (120, 120)
    del first
    assert count.read() == (20, 120)
    third = Allocation(count, 90)
    assert count.read() == (110, 120)
    del second, third
    assert count.read() == (0, 120)


def test_changes_are_added_up_now_and_then() -> None:
    count = MemoryCount()
    for _ in range(10_000):
        Allocation(count, 7)
    assert len(count._changes) < 3000
    assert count.read() == (0, 7)


def test_threads_and_cycles() -> None:
    count = MemoryCount()

    def work() -> None:
        kept = []
        for k in range(2000):
            cycle: list[object] = [Allocation(count, 3)]
            cycle.append(cycle)
            kept.append(Allocation(count, k % 5))
            if k % 500 == 0:
                gc.collect()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    gc.collect()
    used, peak = count.read()
    assert used == 0
    assert 2000 * 2 <= peak <= 8 * 2000 * 5


def test_aliases_share_their_memory(device: HalDevice) -> None:
    gc.collect()
    before = device.memory_count.read()[0]

    def more() -> int:
        return device.memory_count.read()[0] - before

    buffer = device.runtime.buffer_from_host(np.ones(1000, np.float32), device, copy=True)
    assert isinstance(buffer, DeviceBuffer)
    other = buffer.alias()
    assert more() == 4000
    buffer.delete()
    assert more() == 4000
    np.testing.assert_array_equal(other.host_view(), np.ones(1000))
    other.delete()
    assert more() == 0


def test_irees_count_for_vulkan_knows_no_end(device: HalDevice) -> None:
    """When this fails, IREE counts what is freed, and `HalDevice.memory_stats` can ask it."""
    rt = hal.start().rt
    allocator = device.hal_device()[0].allocator
    local, usage = int(rt.MemoryType.DEVICE_LOCAL), int(rt.BufferUsage.DEFAULT)

    def freed() -> int:
        return allocator.statistics["device_bytes_freed"]

    before = freed()
    buffer = allocator.allocate_buffer(local, usage, 1 << 20)
    del buffer
    gc.collect()
    assert freed() == before
