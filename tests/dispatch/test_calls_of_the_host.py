"""Programs on devices with memory of their own that call functions of this process."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.conftest import first_device
from xpr import lax
from xpr.experimental import io_callback
from xpr.tree_util import tree_map


@pytest.fixture(scope="module")
def device() -> xpr.Device:
    """The Vulkan device."""
    return first_device("vulkan")


def like(x: Any) -> Any:
    return tree_map(lambda leaf: xpr.ShapeDtypeStruct(leaf.shape, leaf.dtype), x)


def test_values_of_every_type_go_to_the_host_and_back(device: xpr.Device) -> None:
    values = [
        np.arange(6, dtype="float32").reshape(2, 3),
        np.array([1.5, np.nan, -0.0], "float64"),
        np.array([1 + 2j, 3 - 1j], "complex64"),
        np.array([1.5, -2], ml_dtypes.bfloat16),
        np.array([1.5, -2], "float16"),
        np.array([True, False, True]),
        np.array([-7, 2**40], "int64"),
        np.array([250, 3], "uint8"),
        np.array(5, "int32"),
        np.zeros((0, 3), "float32"),
    ]

    def turn(tree: Any) -> Any:
        return [np.flip(np.asarray(x)) for x in tree]

    with xpr.enable_x64(True):
        placed = xpr.device_put(values, device)
        f = xpr.jit(lambda tree: xpr.pure_callback(turn, like(tree), tree))
        for found, x in zip(f(placed), values, strict=True):
            assert found.devices() == {device}
            assert found.dtype == x.dtype
            np.testing.assert_array_equal(np.asarray(found), np.flip(x))


def test_loops_and_branches_call_the_host(device: xpr.Device) -> None:
    seen: list[float] = []

    def note(x: Any) -> np.ndarray[Any, Any]:
        assert next(iter(x.devices())).platform == "cpu"
        seen.append(float(x[0]))
        return np.asarray(x) + 1

    def step(carry: Any, k: Any) -> Any:
        carry = io_callback(note, like(carry), carry * 2, ordered=True)
        carry = lax.cond(k == 1, lambda c: io_callback(note, like(c), c + 100), lambda c: c, carry)
        return carry, carry.sum()

    x = xpr.device_put(np.arange(3, dtype="float32"), device)
    last, sums = xpr.jit(lambda v: lax.scan(step, v, jnp.arange(3)))(x)
    xpr.effects_barrier()
    expected, expected_sums = np.arange(3.0), []
    for k in range(3):
        expected = expected * 2 + 1
        expected = expected + 101 if k == 1 else expected
        expected_sums.append(expected.sum())
    np.testing.assert_array_equal(np.asarray(last), expected)
    np.testing.assert_array_equal(np.asarray(sums), expected_sums)
    assert seen == [0, 2, 103, 208]


def test_prints_and_counters(device: xpr.Device, capsys: Any) -> None:
    count = itertools.count()

    @xpr.jit
    def f(x: Any) -> Any:
        xpr.debug.print("the sum is {}", x.sum())
        number = xpr.ShapeDtypeStruct((), jnp.int32)
        return x + io_callback(lambda: np.int32(next(count)), number, ordered=True)

    x = xpr.device_put(np.ones(3, "float32"), device)
    for k in range(3):
        np.testing.assert_array_equal(np.asarray(f(x)), np.full(3, 1 + k))
    assert capsys.readouterr().out == "the sum is 3.0\n" * 3


def test_exceptions_of_the_host_appear_at_the_wait(device: xpr.Device) -> None:
    class Mine(Exception):
        pass

    def fail(x: Any) -> Any:
        raise Mine(f"first is {x[0]}")

    f = xpr.jit(lambda x: xpr.pure_callback(fail, like(x), x) + 1)
    pending = f(xpr.device_put(np.ones(3, "float32"), device))
    with pytest.raises(Mine, match=r"first is 1\.0") as caught:
        pending.block_until_ready()
    assert any("was called at" in note for note in caught.value.__notes__)
    x = xpr.device_put(np.ones(3, "float32"), device)
    np.testing.assert_array_equal(np.asarray(xpr.jit(lambda x: x + 1)(x)), [2, 2, 2])


def test_a_function_may_use_the_device_that_waits_for_it(device: xpr.Device) -> None:
    triple = xpr.jit(lambda v: v * 3)

    def through_the_device(x: Any) -> Any:
        return np.asarray(triple(xpr.device_put(np.asarray(x), device)))

    f = xpr.jit(lambda x: xpr.pure_callback(through_the_device, like(x), x) + 1)
    x = xpr.device_put(np.arange(4, dtype="float32"), device)
    np.testing.assert_array_equal(np.asarray(f(x)), np.arange(4) * 3 + 1)


def test_many_calls_keep_no_memory(device: xpr.Device) -> None:
    f = xpr.jit(lambda x: xpr.pure_callback(np.sort, like(x), x))
    x = xpr.device_put(np.arange(10_000, dtype="float32")[::-1].copy(), device)

    def used() -> int:
        for _ in range(20):
            found = f(x)
        np.testing.assert_array_equal(np.asarray(found), np.arange(10_000))
        del found
        stats = device.memory_stats()
        assert stats is not None
        return stats["bytes_in_use"]

    before = used()
    assert used() <= before


def test_eigenvalues_of_general_matrices(device: xpr.Device) -> None:
    a = np.random.default_rng(0).normal(size=(2, 5, 5)).astype("float32")
    values, vectors = xpr.jit(jnp.linalg.eig)(xpr.device_put(a, device))
    assert values.devices() == vectors.devices() == {device}
    w, v = np.asarray(values), np.asarray(vectors)
    np.testing.assert_allclose(a @ v, v * w[:, None], atol=1e-5)
    np.testing.assert_allclose(
        np.sort_complex(w), np.sort_complex(np.linalg.eigvals(a.astype("float64"))), atol=1e-5
    )
