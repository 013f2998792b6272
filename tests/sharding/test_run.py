"""Programs on the devices of several runtimes, donation, errors, and many runs."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.conftest import skip_unless_usable
from xpr import lax
from xpr.dispatch import spmd_eager
from xpr.sharding import Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P

CPUS = xpr.devices("cpu")
LONG = os.environ.get("XPR_LONG_TESTS") == "1"


def mesh_of(*devices: Any) -> Mesh:
    return Mesh(np.array(devices), ("x",))


def step(w: Any, x: Any) -> Any:
    slope = xpr.grad(lambda v: (jnp.tanh(x @ v) ** 2).mean())(w)
    return w - 0.1 * slope, x.sum(0)


def check_step(mesh: Mesh) -> None:
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(6, 4)).astype("f"), rng.normal(size=(8, 6)).astype("f")
    found = xpr.jit(step)(
        xpr.device_put(w, NamedSharding(mesh, P())), xpr.device_put(x, NamedSharding(mesh, P("x")))
    )
    h = np.tanh(x @ w)
    slope = x.T @ (2 * h * (1 - h**2)) / h.size
    np.testing.assert_allclose(found[0], w - 0.1 * slope, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1], x.sum(0), rtol=1e-5, atol=1e-5)
    assert found[0].devices() == found[1].devices() == set(mesh.devices.flat)


def test_devices_of_the_reference_runtime() -> None:
    check_step(mesh_of(*xpr.devices("reference")[:4]))


def test_devices_of_two_runtimes() -> None:
    check_step(mesh_of(CPUS[0], xpr.devices("reference")[0]))


def test_devices_of_the_cpu_and_of_a_gpu() -> None:
    skip_unless_usable("vulkan")
    check_step(mesh_of(CPUS[0], xpr.devices("vulkan")[0]))


def test_caches_are_cleared() -> None:
    x = xpr.device_put(np.arange(8.0, dtype="f"), NamedSharding(mesh_of(*CPUS[:4]), P("x")))
    np.testing.assert_array_equal(x * 3, np.arange(8) * 3)
    assert spmd_eager._kept
    xpr.clear_caches()
    assert not spmd_eager._kept
    np.testing.assert_array_equal(x * 3, np.arange(8) * 3)


# ---- donation


def test_donated_parts_are_given_up() -> None:
    mesh = mesh_of(*CPUS[:4])
    x = xpr.device_put(np.arange(8.0, dtype="f"), NamedSharding(mesh, P("x")))
    out = xpr.jit(lambda v: v + 1, donate_argnums=0)(x)
    np.testing.assert_array_equal(out, np.arange(8) + 1)
    assert x.is_deleted()
    with pytest.raises(RuntimeError, match=r"Array has been deleted with shape=float32\[8\]"):
        x + 1
    with pytest.raises(RuntimeError, match="Array has been deleted"):
        xpr.jit(lambda v: v * 2)(x)


def test_a_replicated_array_is_donated_on_its_own() -> None:
    """The parts of a replicated array may share memory, and so may arrays made from it."""
    mesh = mesh_of(*CPUS[:4])
    x = xpr.device_put(np.arange(4.0, dtype="f"), NamedSharding(mesh, P()))
    total = xpr.jit(
        xpr.shard_map(lambda v: lax.psum(v, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
    )(xpr.device_put(np.arange(16.0, dtype="f"), NamedSharding(mesh, P("x"))))
    kept = total + 0
    add = xpr.jit(lambda a, b: a.at[0].add(1) + b, donate_argnums=0)
    first = add(total, x)
    np.testing.assert_array_equal(kept, [24, 28, 32, 36])
    np.testing.assert_array_equal(first, np.array([25, 28, 32, 36]) + np.arange(4))
    np.testing.assert_array_equal(x, np.arange(4))
    for part in first.addressable_shards:
        np.testing.assert_array_equal(part.data, first)


# ---- bad input


def test_arguments_on_other_devices_than_the_mesh() -> None:
    mesh = mesh_of(*CPUS[:4])
    x = xpr.device_put(np.arange(8.0, dtype="f"), NamedSharding(mesh, P("x")))
    y = xpr.device_put(np.arange(8.0, dtype="f"), CPUS[5])
    message = (
        r"Received incompatible devices for jitted computation. Got argument x of \S+ with shape "
        r"float32\[8\] and with device ids \[0, 1, 2, 3\] on platform CPU and argument y of \S+ "
        r"with shape float32\[8\] and with device ids \[5\] on platform CPU"
    )
    with pytest.raises(ValueError, match=message):
        xpr.jit(lambda x, y: x + y)(x, y)
    with pytest.raises(ValueError, match=message):
        x + y


def test_sizes_that_a_sharding_does_not_divide() -> None:
    place = NamedSharding(mesh_of(*CPUS[:4]), P("x"))
    message = r"array axis 0 is partitioned 4 times, but the dimension size is 6"
    cases: list[dict[str, Any]] = [{"in_shardings": place}, {"out_shardings": place}]
    for options in cases:
        with pytest.raises(ValueError, match=message):
            xpr.jit(lambda x: x, **options)(np.ones(6, "f"))
    with pytest.raises(ValueError, match=message):
        lax.with_sharding_constraint(np.ones(6, "f"), place)


def test_constraints_inside_of_programs_may_be_uneven() -> None:
    place = NamedSharding(mesh_of(*CPUS[:4]), P("x"))

    def f(x: Any) -> Any:
        a = lax.with_sharding_constraint(x[:6], place)
        return jnp.sum(a * a), jnp.pad(a, (0, 2)), jnp.cumsum(a)

    x = np.arange(8, dtype=np.float32)
    total, padded, running = xpr.jit(f)(x)
    np.testing.assert_array_equal(total, np.sum(x[:6] ** 2))
    np.testing.assert_array_equal(padded, [*x[:6], 0, 0])
    np.testing.assert_array_equal(running, np.cumsum(x[:6]))
    np.testing.assert_array_equal(xpr.jit(xpr.grad(lambda x: f(x)[0]))(x), [*2 * x[:6], 0, 0])


def test_an_argument_that_is_sharded_in_another_way_than_in_shardings_says() -> None:
    mesh = Mesh(np.array(CPUS[:4]).reshape(2, 2), ("x", "y"))
    x = xpr.device_put(np.ones((4, 4), "f"), NamedSharding(mesh, P("x", "y")))
    with pytest.raises(ValueError, match="Sharding passed to jit does not match"):
        xpr.jit(lambda v: v, in_shardings=NamedSharding(mesh, P("y")))(x)


def test_specs_without_a_mesh() -> None:
    with pytest.raises(RuntimeError, match="jit requires a non-empty mesh in context"):
        xpr.jit(lambda x: x, in_shardings=P("x"))(np.ones(8, "f"))
    with pytest.raises(RuntimeError, match="with_sharding_constraint requires a non-empty mesh"):
        xpr.jit(lambda x: lax.with_sharding_constraint(x, P("x")))(np.ones(8, "f"))


# ---- many runs


def test_many_runs_at_once_give_the_same() -> None:
    """Ten collectives a run, some in a loop, from three threads beside each other."""
    mesh = mesh_of(*CPUS[:4])

    def program(v: Any) -> Any:
        for i in range(5):
            v = v + lax.psum(v, "x") / (i + 4.0)
        return lax.fori_loop(0, 5, lambda i, c: c - lax.pmax(c, "x") / 7.0, v)

    run = xpr.jit(xpr.shard_map(program, mesh=mesh, in_specs=P("x"), out_specs=P("x")))
    x = xpr.device_put(np.arange(8.0, dtype="f"), NamedSharding(mesh, P("x")))
    wanted = np.asarray(run(x))
    whole = np.arange(8.0, dtype="f").reshape(4, 2)
    for i in range(5):
        whole = whole + whole.sum(0) / np.float32(i + 4.0)
    for _ in range(5):
        whole = whole - whole.max(0) / np.float32(7.0)
    np.testing.assert_allclose(wanted, whole.reshape(8), rtol=1e-4, atol=1e-4)
    wrong: list[Any] = []

    def work() -> None:
        for _ in range(334 if LONG else 34):
            found = np.asarray(run(x))
            if not np.array_equal(found, wanted):
                wrong.append(found)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(600)
        assert not t.is_alive(), "a run hangs"
    assert not wrong
