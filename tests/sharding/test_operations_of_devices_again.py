"""Operations outside `jit` on arrays of several devices, done again and again.

All of it holds with the native part and without; with it the first of its kind goes through the
partitioner, and `Counted` says which others do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.core.config import override
from xpr.dispatch import spmd_eager
from xpr.runtimes.extension import native
from xpr.sharding import AxisType, Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P

CPUS = xpr.devices("cpu")
MESH = Mesh(np.array(CPUS[:8]), ("x",))
PLANE = Mesh(np.array(CPUS[:4]).reshape(2, 2), ("x", "y"))
PLACES = [
    NamedSharding(MESH, P("x")),
    NamedSharding(MESH, P()),
    NamedSharding(PLANE, P("x", "y")),
    NamedSharding(PLANE, P("y")),
    NamedSharding(PLANE, P(None, "x")),
]
ANSWERS = native().module is not None


class Counted:
    """How many operations the partitioner's programs have done."""

    def __init__(self) -> None:
        self.count = 0


@contextmanager
def counted() -> Iterator[Counted]:
    found = Counted()
    apply = spmd_eager.apply

    def counting(*args: Any) -> Any:
        found.count += 1
        return apply(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spmd_eager, "apply", counting)
        yield found


def random(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


SPECIAL = np.array([[np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45, 3.4e38, -1.5]] * 8, np.float32)

OPERATIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "add": (lambda x, y: x + y, np.add),
    "number": (lambda x, y: x * 2 - 1.5, lambda x, y: x * np.float32(2) - np.float32(1.5)),
    "other way": (lambda x, y: 3 - x, lambda x, y: np.float32(3) - x),
    "less": (lambda x, y: x < y, np.less),
    "divide": (lambda x, y: x / y, np.divide),
    "maximum": (lambda x, y: jnp.maximum(x, 0.5), lambda x, y: np.maximum(x, np.float32(0.5))),
    "negative": (lambda x, y: -x, lambda x, y: -x),
    "square": (lambda x, y: x**2, lambda x, y: x * x),
    "sqrt": (lambda x, y: jnp.sqrt(abs(x)), lambda x, y: np.sqrt(abs(x))),
    "convert": (lambda x, y: (x > y).astype(jnp.int32), lambda x, y: (x > y).astype(np.int32)),
    "transpose": (lambda x, y: x.T, lambda x, y: x.T),
    "axis": (lambda x, y: x[:, None], lambda x, y: x[:, None]),
    "reverse": (lambda x, y: lax.rev(x, (1,)), lambda x, y: x[:, ::-1]),
    "isfinite": (lambda x, y: jnp.isfinite(x), lambda x, y: np.isfinite(x)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_values_types_and_shardings(name: str) -> None:
    ours, numpys = OPERATIONS[name]
    for a, b in ((random(8, 8), random(8, 8, seed=1)), (SPECIAL, SPECIAL[:, ::-1])):
        with np.errstate(all="ignore"):
            wanted = numpys(a, b)
        for place in PLACES:
            x, y = xpr.device_put(a, place), xpr.device_put(b, place)
            first = ours(x, y)
            for _ in range(3):
                found = ours(x, y)
                assert type(found) is type(first)
                assert found.sharding == first.sharding
                assert found.committed
                assert found.aval == first.aval
                assert found.dtype == wanted.dtype
                np.testing.assert_array_equal(np.asarray(found), wanted)
                for one, other in zip(
                    found.addressable_shards, first.addressable_shards, strict=True
                ):
                    assert one.device == other.device
                    assert one.index == other.index
                    np.testing.assert_array_equal(np.asarray(one.data), np.asarray(other.data))


@pytest.mark.parametrize("shape", [(8, 0), (0, 8), (8,), (16, 3, 2)])
def test_other_shapes(shape: tuple[int, ...]) -> None:
    a = random(*shape)
    x = xpr.device_put(a, PLACES[0])
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(x + x), a + a)
        np.testing.assert_array_equal(np.asarray(jnp.exp(x) > 1), np.exp(a) > 1)


def test_the_partitioner_is_asked_once() -> None:
    x = xpr.device_put(random(8, 8), PLACES[0])
    jnp.tanh(x * 3 + x)
    with counted() as calls:
        for _ in range(5):
            x = jnp.tanh(x * 3 + x)
        for _ in range(5):
            y = xpr.device_put(random(8, 8), NamedSharding(MESH, P("x")))
            jnp.tanh(y)
            jnp.tanh(y)
    assert calls.count == (0 if ANSWERS else 25)


def test_parameters_tell_operations_apart() -> None:
    a = random(8, 4, 6)
    x = xpr.device_put(a, PLACES[0])
    for _ in range(3):
        for axes in ((1,), (2,), (1, 2)):
            found = x.sum(axes)
            np.testing.assert_allclose(np.asarray(found), a.sum(axes), rtol=1e-5, atol=1e-5)
        for order in ((0, 1, 2), (0, 2, 1), (2, 1, 0)):
            np.testing.assert_array_equal(np.asarray(x.transpose(order)), a.transpose(order))
        for power in (2, 3):
            np.testing.assert_allclose(np.asarray(x**power), a**power, rtol=1e-6)


def test_types_and_shardings_tell_operations_apart() -> None:
    for _ in range(3):
        for place in PLACES:
            for dtype in (np.float32, np.int32, np.uint8):
                a = np.arange(64).reshape(8, 8).astype(dtype)
                x = xpr.device_put(a, place)
                assert (x + x).dtype == dtype
                np.testing.assert_array_equal(np.asarray(x + x), a + a)
                np.testing.assert_array_equal(np.asarray(x + dtype(3)), a + dtype(3))


def test_operands_with_other_shardings() -> None:
    a, b = random(8, 8), random(8, 8, seed=1)
    for _ in range(3):
        for one in PLACES[:2]:
            for two in PLACES[:2]:
                found = xpr.device_put(a, one) - xpr.device_put(b, two)
                np.testing.assert_array_equal(np.asarray(found), a - b)
        for one in PLACES[2:]:
            for two in PLACES[2:]:
                found = xpr.device_put(a, one) - xpr.device_put(b, two)
                np.testing.assert_array_equal(np.asarray(found), a - b)
        with pytest.raises(ValueError, match="incompatible devices"):
            xpr.device_put(a, PLACES[0]) + xpr.device_put(b, PLACES[2])


def test_operands_of_other_kinds() -> None:
    a, b = random(8, 8), random(8, 8, seed=1)
    x = xpr.device_put(a, PLACES[0])
    for _ in range(3):
        for y in (b, jnp.asarray(b)):
            np.testing.assert_array_equal(np.asarray(x + y), a + b)
            np.testing.assert_array_equal(np.asarray(y - x), b - a)
        for n in (np.float32(2), np.int32(2), 2, 2.0, jnp.float32(2), True):
            np.testing.assert_array_equal(np.asarray(x * n), a * np.float32(n))
        with pytest.raises(ValueError, match="incompatible devices"):
            x + xpr.device_put(b, CPUS[0])


def test_devices_in_another_order() -> None:
    back = NamedSharding(Mesh(np.array(CPUS[7::-1]), ("x",)), P("x"))
    a = random(8)
    for _ in range(3):
        for place in (PLACES[0], back):
            found = xpr.device_put(a, place) * 3
            assert [s.device for s in found.addressable_shards] == list(place.mesh.devices.flat)
            np.testing.assert_array_equal(np.asarray(found), a * 3)


def test_results_have_memory_of_their_own() -> None:
    a = random(8, 512)
    double = xpr.jit(lambda x: x * 2, donate_argnums=0)
    for place in PLACES[:2]:
        for operation in (jnp.ravel, lambda x: x.reshape(8, 2, 256), lambda x: x.T, lambda x: +x):
            for _ in range(3):
                x = xpr.device_put(a, place)
                wanted = np.asarray(operation(a))
                y = operation(x)
                np.testing.assert_array_equal(np.asarray(double(x)), a * 2)
                if x.is_deleted() and operation(y) is not y:
                    np.testing.assert_array_equal(np.asarray(y).reshape(wanted.shape), wanted)


def test_results_cannot_be_written_to() -> None:
    x = xpr.device_put(random(8, 8), PLACES[0])
    for _ in range(3):
        for part in (x + 1).addressable_shards:
            with pytest.raises(ValueError, match="read-only"):
                np.asarray(part.data)[...] = 0


def test_replicated_results_are_computed_once() -> None:
    a = random(4096)
    x = xpr.device_put(a, PLACES[1])
    double = xpr.jit(lambda x: x * 2, donate_argnums=0)
    for _ in range(3):
        y = x + 1
        parts = [np.asarray(s.data) for s in y.addressable_shards]
        assert all(np.shares_memory(parts[0], p) for p in parts[1:])
        np.testing.assert_array_equal(np.asarray(double(y)), (a + 1) * 2)
        np.testing.assert_array_equal(parts[0], a + 1)


def test_deleted_arrays() -> None:
    for place in PLACES:
        x, y = (
            xpr.device_put(np.ones((8, 8), "f"), place),
            xpr.device_put(np.ones((8, 8), "f"), place),
        )
        for _ in range(2):
            x + y
        x.delete()
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"deleted with shape=float32\[8,8\]"):
                x + y
            with pytest.raises(RuntimeError, match=r"deleted with shape=float32\[8,8\]"):
                y + x
        y._buffers[1].delete()
        with pytest.raises(RuntimeError, match=r"deleted with shape=float32\[8,8\]"):
            y + y


def test_nans_are_looked_for() -> None:
    x = xpr.device_put(np.array([1, 2, -1, 4, 5, 6, 7, 8], "f"), PLACES[0])
    for _ in range(3):
        assert np.isnan(np.asarray(jnp.log(x))[2])
        with override("debug_nans", True):
            for _ in range(2):
                with pytest.raises(FloatingPointError, match="nan"):
                    jnp.log(x)


def test_a_mesh_in_use() -> None:
    a = random(8)
    x = xpr.device_put(a, PLACES[0])
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(x + x), a + a)
        with xpr.set_mesh(MESH):
            for _ in range(2):
                found = x + x
                np.testing.assert_array_equal(np.asarray(found), a + a)
                assert found.sharding.spec == P("x")


def test_types_that_carry_shardings() -> None:
    mesh = Mesh(np.array(CPUS[:4]), ("x",), axis_types=(AxisType.Explicit,))
    a = random(8, 4)
    x = xpr.device_put(a, NamedSharding(mesh, P("x")))
    y = xpr.device_put(a, NamedSharding(mesh, P(None, "x")))
    for _ in range(3):
        found = x * 2
        assert found.aval.sharding == x.aval.sharding
        np.testing.assert_array_equal(np.asarray(found), a * 2)
        with pytest.raises(xpr.errors.ShardingTypeError):
            x + y


def test_transformations_go_through_the_operations() -> None:
    a = random(8)
    x = xpr.device_put(a, PLACES[0])
    for _ in range(3):
        np.testing.assert_allclose(np.asarray(jnp.sin(x)), np.sin(a), rtol=1e-6)
        slope = xpr.grad(lambda v: jnp.sin(v).sum())(x)
        np.testing.assert_allclose(np.asarray(slope), np.cos(a), rtol=1e-6)
        rows = xpr.vmap(jnp.sin)(x)
        np.testing.assert_allclose(np.asarray(rows), np.sin(a), rtol=1e-6)


def test_threads() -> None:
    a = random(8, 64)
    x = xpr.device_put(a, PLACES[0])
    wrong: list[int] = []

    def work(n: int) -> None:
        for i in range(100):
            y = xpr.device_put(a + i, PLACES[(i + n) % 2])
            if not np.array_equal(np.asarray(y * n), (a + i) * np.float32(n)):
                wrong.append(n)
            if not np.array_equal(np.asarray(x + n), a + np.float32(n)):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(300)
        assert not t.is_alive(), "an operation hangs"
    assert not wrong


def test_caches_are_cleared() -> None:
    a = random(8)
    for _ in range(3):
        x = xpr.device_put(a, PLACES[0])
        for _ in range(3):
            np.testing.assert_array_equal(np.asarray(x + x), a + a)
        xpr.clear_caches()
