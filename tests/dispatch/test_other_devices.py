"""Arrays, operations and programs on each runtime that starts here, and moves between any two."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.conftest import first_device
from xpr.dispatch import compiled

NAMES = ("cpu", "reference", "vmvx", "vulkan")
OTHERS = NAMES[1:]


def same(x: xpr.Array, want: Any, device: xpr.Device) -> None:
    assert x.devices() == {device}
    np.testing.assert_allclose(np.asarray(x), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("source", "goal"), list(itertools.permutations(NAMES, 2)))
def test_moves_between_runtimes(source: str, goal: str) -> None:
    here, there = first_device(source), first_device(goal)
    values = [
        np.arange(6, dtype="float32").reshape(2, 3),
        np.zeros((0, 3), "int32"),
        np.array(True),
        np.array([1.5, -2], ml_dtypes.bfloat16),
        np.array([1 + 2j], "complex64"),
    ]
    first = xpr.device_put(values, here)
    second = xpr.device_put(first, xpr.sharding.SingleDeviceSharding(there))
    back = [x.to_device(here) for x in second]
    for value, x, y in zip(values, second, back, strict=True):
        assert x.devices() == {there}
        assert y.devices() == {here}
        assert x.committed
        for found in (x, y):
            assert found.dtype == value.dtype
            np.testing.assert_array_equal(np.asarray(found), value)
    for x in first:
        x.delete()
    np.testing.assert_array_equal(np.asarray(second[0]), values[0])
    moved = xpr.device_put(second[0], here, donate=True)
    assert second[0].is_deleted()
    np.testing.assert_array_equal(np.asarray(moved), values[0])


@pytest.mark.parametrize("name", OTHERS)
def test_programs_follow_their_operands(name: str) -> None:
    device = first_device(name)
    scale = jnp.array([2.0, 3.0])  # closed over: on the CPU
    table = xpr.device_put(np.array([5.0, 6.0]), xpr.devices("cpu")[0])

    @xpr.jit
    def f(x, y):
        return x * scale + y, scale, x, table, x * scale + y

    x = xpr.device_put(np.array([1.0, 2.0]), device)
    for y in (1.0, np.float32(1), jnp.float32(1), xpr.device_put(np.float32(1), device)):
        out = f(x, y)
        for found, want in zip(out, ([3, 7], [2, 3], [1, 2], [5, 6], [3, 7]), strict=True):
            same(found, want, device)
            assert found.committed
    x.delete()
    same(out[2], [1, 2], device)
    with pytest.raises(ValueError, match="incompatible devices"):
        f(xpr.device_put(np.ones(2), device), table)
    on_device = xpr.jit(f, backend=name)(np.ones(2), 0.0)
    same(on_device[0], [2, 3], device)
    # What is computed on the device is usable on the host without a word.
    same(jnp.ones(2) + xpr.device_put(out[0], xpr.devices("cpu")[0]), [4, 8], xpr.devices("cpu")[0])


@pytest.mark.parametrize("name", OTHERS)
def test_operations_outside_jit(name: str) -> None:
    device = first_device(name)
    x = xpr.device_put(np.array([1.0, 2.0, 4.0]), device)
    compiled.clear()
    for _ in range(2):
        same(x + 1, [2, 3, 5], device)
        same(1 + x, [2, 3, 5], device)
        same(x + np.ones(3, "float32"), [2, 3, 5], device)
    kept = len(compiled._single)
    same(x + 1, [2, 3, 5], device)
    assert len(compiled._single) == kept
    assert kept <= (0 if device.runtime.is_host else 3)
    same(x[1:], [2, 4], device)
    assert float(x[0]) == 1.0
    assert (x + 1).committed


@pytest.mark.parametrize("name", OTHERS)
def test_the_default_device(name: str) -> None:
    device = first_device(name)
    for choice in (device, name):
        with xpr.default_device(choice):
            made = [
                jnp.zeros(3),
                jnp.asarray(np.ones(2)),
                jnp.float32(1),
                xpr.random.key(0),
                xpr.device_put(np.ones(2)),
                xpr.jit(lambda: jnp.ones(2))(),
            ]
            for x in made:
                assert x.devices() == {device}
                assert not x.committed
    xpr.config.update("default_device", name)
    try:
        assert jnp.zeros(3).devices() == {device}
    finally:
        xpr.config.update("default_device", None)
    assert jnp.zeros(3).devices() == {xpr.devices()[0]}
    # Uncommitted work on such an array goes back to the default device.
    same(made[1] + 1, [2, 2], xpr.devices()[0])


def test_a_default_device_is_a_device_or_a_platform() -> None:
    with pytest.raises(ValueError, match=r"default_device.*a platform name.*got 3"):
        xpr.config.update("default_device", 3)
    with xpr.default_device("tpu"), pytest.raises(RuntimeError, match="Unknown backend tpu"):
        jnp.zeros(2)


@pytest.mark.parametrize("name", OTHERS)
def test_random_numbers_are_the_same_everywhere(name: str) -> None:
    device = first_device(name)
    key = xpr.random.key(7)
    there = xpr.device_put(key, device)
    assert there.devices() == {device}

    @xpr.jit
    def draw(k):
        return xpr.random.bits(k, (5,))

    found = draw(there)
    assert found.devices() == {device}
    np.testing.assert_array_equal(np.asarray(found), np.asarray(draw(key)))


@pytest.mark.parametrize("name", OTHERS)
def test_donated_arrays_are_gone(name: str) -> None:
    device = first_device(name)
    x = xpr.device_put(np.ones(4, "float32"), device)
    with xpr.default_device(device):
        out = xpr.jit(lambda v: v + 1, donate_argnums=0)(x)
    same(out, np.full(4, 2), device)
    assert x.is_deleted()
    with pytest.raises(RuntimeError, match="deleted"):
        x + 1


@pytest.mark.parametrize("name", NAMES)
def test_a_donated_array_may_be_returned(name: str) -> None:
    device = first_device(name)
    x = xpr.device_put(np.arange(4.0), device)
    same_values, more = xpr.jit(lambda v: (v, v + 1), donate_argnums=0)(x)
    assert x.is_deleted()
    same(same_values, [0, 1, 2, 3], device)
    same(more, [1, 2, 3, 4], device)


@pytest.mark.parametrize("name", OTHERS)
def test_iteration_over_more_rows_than_are_taken_at_a_time(name: str) -> None:
    values = np.arange(410, dtype="float32").reshape(205, 2)
    rows = list(xpr.device_put(values, first_device(name)))
    assert len(rows) == 205
    for i in (0, 99, 100, 199, 200, 204):
        same(rows[i], values[i], first_device(name))
