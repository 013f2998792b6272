"""Arrays in the host's memory beside their devices': JAX 0.10.2's placements, types and errors."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.conftest import skip_unless_usable
from xpr import lax
from xpr.memory import Space
from xpr.sharding import Mesh, NamedSharding, Sharding, SingleDeviceSharding
from xpr.sharding import PartitionSpec as P

CPU = xpr.devices("cpu")[0]
MESH = Mesh(np.array(xpr.devices("cpu")[:4]), ("x",))
ONE, MANY = SingleDeviceSharding(CPU), NamedSharding(MESH, P("x"))
HOST, HOSTS = (s.with_memory_kind("pinned_host") for s in (ONE, MANY))
X = np.arange(8, dtype=np.float32)
both = pytest.mark.parametrize("place", [HOST, HOSTS], ids=["one", "several"])


def check(found: Any, values: Any, sharding: Sharding) -> None:
    assert found.sharding == sharding
    assert found.committed
    kind = sharding.memory_kind
    assert xpr.typeof(found).memory_space == ("host" if kind == "pinned_host" else "device")
    np.testing.assert_allclose(found, values, rtol=1e-6)


def test_memories_of_a_device() -> None:
    kinds = ["device", "pinned_host", "unpinned_host"]
    assert [m.kind for m in CPU.addressable_memories()] == kinds
    assert repr(CPU.addressable_memories()) == "[CPU_DEVICE_0, PINNED_HOST_1, UNPINNED_HOST_2]"
    found = CPU.memory("pinned_host")
    assert found == CPU.addressable_memories()[1]
    assert found != CPU.default_memory() == CPU.memory("device")
    assert hash(found) == hash(CPU.memory("pinned_host"))
    assert found.addressable_by_devices() == [CPU]
    assert (found.platform, found.process_index) == ("cpu", 0)
    message = (
        "Device cpu can address the following memory kinds: device, pinned_host, unpinned_host. "
        "Got memory kind: disk"
    )
    with pytest.raises(ValueError, match=message):
        CPU.memory("disk")
    for place in (ONE, MANY):
        with pytest.raises(ValueError, match=message):
            place.with_memory_kind("disk")


@both
def test_shardings_carry_their_kind(place: Sharding) -> None:
    plain = place.with_memory_kind("device")
    assert plain.memory_kind == "device"
    assert place != plain
    assert not place.is_equivalent_to(plain, 1)
    assert place == plain.with_memory_kind("pinned_host")
    assert hash(place) == hash(plain.with_memory_kind("pinned_host"))
    assert repr(place).endswith("memory_kind=pinned_host)")


@both
def test_there_and_back(place: Sharding) -> None:
    plain = place.with_memory_kind("device")
    there = xpr.device_put(X, place)
    check(there, X, place)
    assert str(xpr.typeof(there)) == "float32<host>[8]"
    check(xpr.device_put(there, plain), X, plain)
    check(xpr.device_put(there, Space.Device), X, plain)
    check(xpr.device_put(xpr.device_put(X, plain), Space.Host), X, place)
    other = plain.with_memory_kind("unpinned_host")
    check(xpr.device_put(there, other), X, other)
    assert str(xpr.typeof(xpr.device_put(X, other))) == "float32[8]"
    assert xpr.device_put(there, place) is there
    for shard in there.addressable_shards:
        check(
            shard.data,
            X[shard.index],
            SingleDeviceSharding(shard.device, memory_kind="pinned_host"),
        )
    np.testing.assert_array_equal(np.asarray(there), X)
    assert repr(there) == repr(jnp.asarray(X))
    check(copy.deepcopy(there), X, place)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(there)), X)
    made = xpr.make_array_from_callback((8,), place, lambda index: X[index])
    check(made, X, place)
    given = xpr.device_put(there, plain, donate=True)
    check(given, X, plain)
    assert there.is_deleted()
    with pytest.raises(RuntimeError, match="Array has been deleted"):
        _ = there + 1


def test_numpy_values_and_numbers() -> None:
    check(xpr.device_put(X, Space.Host), X, HOST)
    check(xpr.device_put(2.5, Space.Host), 2.5, HOST)
    check(jnp.zeros(3, device=HOST), np.zeros(3), HOST)
    with pytest.raises(ValueError, match=r"takes Space\.Device or Space\.Host, got Space\.Any"):
        xpr.device_put(X, Space.Any)


WORK: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "x + 1": (lambda x: x + 1, X + 1),
    "x * x": (lambda x: x * x, X * X),
    "sin": (jnp.sin, np.sin(X)),
    "sum": (lambda x: x.sum(), X.sum()),
    "x[1]": (lambda x: x[1], X[1]),
    "reshape": (lambda x: x.reshape(2, 4), X.reshape(2, 4)),
    "copy": (jnp.array, X),
    "x * number": (lambda x: x * jnp.float32(2), X * 2),
}


@pytest.mark.parametrize("name", WORK)
@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
@both
def test_results_lie_where_their_operands_do(place: Sharding, jitted: bool, name: str) -> None:
    function, values = WORK[name]
    there = xpr.device_put(X, place)
    found = (xpr.jit(function) if jitted else function)(there)
    assert found.sharding.memory_kind == "pinned_host"
    assert found.devices() == there.devices()
    np.testing.assert_allclose(found, values, rtol=1e-6)
    np.testing.assert_array_equal(there, X)


@both
def test_memories_do_not_mix(place: Sharding) -> None:
    there, here = xpr.device_put(X, place), xpr.device_put(X, place.with_memory_kind("device"))
    message = (
        r"memory_space of all inputs passed to `add` must be the same. Got one operand with type: "
        r"float32<host>\[8\] and another operand with type: float32\[8\]"
    )
    for add in (lambda a, b: a + b, xpr.jit(lambda a, b: a + b)):
        with pytest.raises(ValueError, match=message):
            add(there, here)
    with pytest.raises(ValueError, match="memory_space of all inputs passed to `mul`"):
        xpr.grad(lambda x: (x * x).sum())(there)  # the sum's cotangent is a number of the device's
    found = xpr.jit(lambda a, b: (a, b + 1, xpr.device_put(a, Space.Device) + b))(there, here)
    assert [a.sharding.memory_kind for a in found] == ["pinned_host", "device", "device"]
    np.testing.assert_array_equal(found[2], 2 * X)


@both
def test_moves_inside_of_programs(place: Sharding) -> None:
    plain = place.with_memory_kind("device")
    there, here = xpr.device_put(X, place), xpr.device_put(X, plain)
    offload = xpr.jit(lambda x: xpr.device_put(x + 1, Space.Host))
    for _ in range(2):  # the second call is not traced
        check(offload(here), X + 1, place)
    check(xpr.jit(lambda x: xpr.device_put(x, plain) * 2)(there), X * 2, plain)
    check(xpr.jit(lambda x: xpr.device_put(x, place))(here), X, place)
    slope = xpr.grad(lambda x: (xpr.device_put(x, Space.Device) ** 2).sum())
    check(xpr.jit(slope)(there), 2 * X, place)
    batched = xpr.jit(xpr.vmap(lambda v: xpr.device_put(v, Space.Host)))(here)
    assert batched.sharding.memory_kind == "pinned_host"
    text = str(xpr.make_jaxpr(lambda x: xpr.device_put(x, Space.Host))(here))
    assert "f32<host>[8] = device_put" in text


def test_loops_and_branches_of_programs() -> None:
    def run(x: Any) -> Any:
        x = xpr.device_put(x, Space.Device)
        x = lax.fori_loop(0, 3, lambda _, v: v + 1, x)
        return lax.cond(x[0] > 0, lambda v: xpr.device_put(v, Space.Host), lambda v: -v, x)

    found = xpr.jit(lambda x: xpr.device_put(lax.scan(_running, 0.0, x)[1], Space.Host))(X)
    check(found, np.cumsum(X), HOST)
    inner = xpr.jit(xpr.jit(lambda x: xpr.device_put(x, Space.Device) + 1))
    check(inner(xpr.device_put(X, HOST)), X + 1, ONE)
    with pytest.raises(TypeError, match=r"float32\[8\], so the memory spaces do not"):
        xpr.jit(run)(xpr.device_put(X, HOST))


def _running(carry: Any, x: Any) -> Any:
    return carry + x, carry + x


@both
def test_in_and_out_shardings(place: Sharding) -> None:
    plain = place.with_memory_kind("device")
    there, here = xpr.device_put(X, place), xpr.device_put(X, plain)
    double = xpr.jit(lambda x: x * 2, out_shardings=place)
    check(double(here), X * 2, place)
    check(double(there), X * 2, place)
    check(xpr.jit(lambda x: x * 2, out_shardings=plain)(there), X * 2, plain)
    pair = xpr.jit(lambda x: (x, x + 1), out_shardings=(place, plain))(here)
    check(pair[0], X, place)
    check(pair[1], X + 1, plain)
    taking = xpr.jit(lambda x: x + 1, in_shardings=place)
    check(taking(there), X + 1, place)
    message = "Got jit memory kind: {}, arg memory kind: {} for arg type: float32"
    with pytest.raises(ValueError, match=message.format("pinned_host", "device")):
        taking(here)
    with pytest.raises(ValueError, match=message.format("device", "pinned_host")):
        xpr.jit(lambda x: x + 1, in_shardings=plain)(there)
    compiled = xpr.jit(lambda x: x + 1).lower(there).compile()
    check(compiled(there), X + 1, place)


def test_donation() -> None:
    there = xpr.device_put(X, HOST)
    found = xpr.jit(lambda x: x + 1, donate_argnums=0)(there)
    check(found, X + 1, HOST)
    assert there.is_deleted()


def test_a_gpu_computes_in_its_own_memory_alone() -> None:
    skip_unless_usable("vulkan")
    device = xpr.devices("vulkan")[0]
    assert [m.kind for m in device.addressable_memories()] == ["device", "pinned_host"]
    assert device.memory("pinned_host").kind == "pinned_host"
    place = SingleDeviceSharding(device, memory_kind="pinned_host")
    there = xpr.device_put(X, place)
    check(there, X, place)
    for function in (lambda x: x + 1, xpr.jit(lambda x: x + 1)):
        with pytest.raises(ValueError, match=r"cannot compute on .*move it first with xpr\.device"):
            function(there)
    here = xpr.device_put(there, Space.Device)
    check(here + 1, X + 1, SingleDeviceSharding(device))
    check(xpr.device_put(here, Space.Host), X, place)
    check(xpr.jit(lambda x: x * 2, out_shardings=place)(here), X * 2, place)
