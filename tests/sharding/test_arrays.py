"""Arrays on several devices: their values, parts, texts, and what becomes of them when deleted."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import NamedSharding, P
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.memory_profile import memory_profile
from xpr.dispatch.sharded_array import ShardedArrayImpl
from xpr.runtimes.base import Device
from xpr.sharding import AxisType, Mesh, SingleDeviceSharding

CPUS = xpr.devices("cpu")
MESH = Mesh(np.array(CPUS).reshape(4, 2), ("x", "y"))
VALUES = np.arange(16.0, dtype=np.float32).reshape(8, 2)
SPECS = [P("x", "y"), P("x"), P(None, "y"), P(("y", "x")), P()]


def put(*entries: object) -> ArrayImpl:
    return xpr.device_put(VALUES, NamedSharding(MESH, P(*entries)))


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_the_whole_and_its_parts(spec: P) -> None:
    sharding = NamedSharding(MESH, spec)
    x = xpr.device_put(VALUES, sharding)
    assert type(x) is ShardedArrayImpl
    assert isinstance(x, xpr.Array)
    assert x.sharding == x.device == sharding
    assert x.devices() == set(CPUS)
    assert (x.shape, x.dtype, x.committed, x.platform()) == ((8, 2), np.float32, True, "cpu")
    assert x.is_fully_addressable
    assert x.is_fully_replicated == (spec == P())
    np.testing.assert_array_equal(np.asarray(x), VALUES)
    assert not np.asarray(x).flags.writeable
    found = sharding.devices_indices_map(x.shape)
    assert [s.device for s in x.global_shards] == CPUS
    seen: dict[str, int] = {}
    for shard, device in zip(x.addressable_shards, CPUS, strict=True):
        assert shard.device is device
        assert shard.index == found[device]
        assert shard.replica_id == seen.setdefault(str(shard.index), 0)
        seen[str(shard.index)] += 1
        assert type(shard.data) is ArrayImpl
        assert shard.data.devices() == {device}
        assert shard.data.committed
        assert shard.data.shape == sharding.shard_shape(x.shape)
        np.testing.assert_array_equal(np.asarray(shard.data), VALUES[shard.index])
    np.testing.assert_array_equal(np.asarray(x.addressable_data(3)), VALUES[found[CPUS[3]]])
    with pytest.raises(IndexError, match="list index out of range"):
        x.addressable_data(8)
    assert x.on_device_size_in_bytes() == sum(s.data.nbytes for s in x.addressable_shards)
    assert x.block_until_ready() is x
    assert x.is_ready()
    x.copy_to_host_async()


def test_values_for_python_and_numpy() -> None:
    x = put("x", "y")
    assert repr(x) == repr(jnp.asarray(VALUES))
    assert str(x) == f"{x}" == str(VALUES)
    assert x.tolist() == VALUES.tolist()
    assert x.tobytes() == VALUES.tobytes()
    assert x.item(3, 1) == 7.0
    assert np.asarray(x, np.float64).dtype == np.float64
    assert xpr.device_get({"x": x})["x"].shape == (8, 2)
    assert xpr.typeof(x) == jnp.asarray(VALUES).aval
    scalar = xpr.device_put(1.5, NamedSharding(MESH, P()))
    assert (float(scalar), scalar.item(), f"{scalar:.3f}", bool(scalar)) == (
        1.5,
        1.5,
        "1.500",
        True,
    )
    assert scalar.weak_type
    assert int(xpr.device_put(3, NamedSharding(MESH, P()))) == 3
    assert list(range(10))[xpr.device_put(3, NamedSharding(MESH, P()))] == 3
    empty = xpr.device_put(np.ones((0, 2), np.float32), NamedSharding(MESH, P("x")))
    assert repr(empty) == "Array([], shape=(0, 2), dtype=float32)"
    assert empty.addressable_data(7).shape == (0, 2)
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
    assert repr(put("x", "y").addressable_shards[1]) == (
        "Shard(device=CpuDevice(id=1), index=(slice(0, 2, None), slice(1, 2, None)), "
        "replica_id=0, data=[[1.]\n [3.]])"
    )


def test_gathered_values_live_as_long_as_somebody_holds_them() -> None:
    x = put("x")
    first = np.asarray(x)
    assert np.asarray(x) is first
    held = weakref.ref(first)
    del first
    gc.collect()
    assert held() is None
    np.testing.assert_array_equal(np.asarray(x), VALUES)
    whole = put()
    assert np.shares_memory(np.asarray(whole), np.asarray(whole.addressable_data(0)))


def test_what_makes_no_sense_on_several_devices() -> None:
    x = put("x")
    with pytest.raises(RuntimeError, match="supported only for unsharded arrays"):
        x.unsafe_buffer_pointer()
    with pytest.raises(BufferError, match="a sharding over 8 devices"):
        np.from_dlpack(x)
    with pytest.raises(BufferError, match="a sharding over 8 devices"):
        x.__dlpack_device__()
    with pytest.raises(TypeError, match="needs a sharding, got None"):
        ShardedArrayImpl(x.aval, x._buffers)


def test_copies() -> None:
    x = put("x", "y")
    alias, same = copy.copy(x), copy.deepcopy(x)
    assert alias.sharding == same.sharding == x.sharding
    loaded = pickle.loads(pickle.dumps(x))
    assert loaded.sharding == SingleDeviceSharding(CPUS[0])
    x.delete()
    for other in (alias, same, loaded):
        np.testing.assert_array_equal(np.asarray(other), VALUES)


def test_deleted_arrays() -> None:
    x = put("x", "y")
    part = x.addressable_shards[5].data
    x.delete()
    assert x.is_deleted()
    np.testing.assert_array_equal(part, VALUES[4:6, 1:])
    assert repr(x) == "<deleted Array of type f32[8,2]>"
    for use in (np.asarray, lambda v: v.addressable_shards, str, lambda v: v.copy_to_host_async()):
        with pytest.raises(RuntimeError, match=r"Array has been deleted with shape=float32\[8,2\]"):
            use(x)
    y = put("x")
    y.addressable_data(2).delete()
    np.testing.assert_array_equal(y, VALUES)


def test_one_device_of_replicated_memory_is_given_up_alone() -> None:
    x = put()
    memory = [np.asarray(s.data).__array_interface__["data"][0] for s in x.addressable_shards]
    assert len(set(memory)) == 1  # host devices share it
    add = xpr.jit(lambda v: v + 1, donate_argnums=0)
    out = add(x.addressable_shards[3].data)
    np.testing.assert_array_equal(np.asarray(out), VALUES + 1)
    for i in (0, 7):
        np.testing.assert_array_equal(np.asarray(x._buffers[i].host_view()), VALUES)


def one_device(spec: Any, kind: AxisType = AxisType.Auto) -> NamedSharding:
    return NamedSharding(xpr.make_mesh((1,), "z", devices=CPUS[1:2], axis_types=(kind,)), spec)


def test_a_mesh_of_one_device() -> None:
    place = NamedSharding(Mesh(CPUS[1:2], "z"), P("z"))
    x = xpr.device_put(VALUES, place)
    assert x.sharding == place
    assert x.device is CPUS[1]
    assert x.unsafe_buffer_pointer() > 0
    np.testing.assert_array_equal(np.from_dlpack(x), VALUES)
    assert (x + 1).devices() == {CPUS[1]}
    moved = xpr.device_put(x, CPUS[1])
    assert type(moved) is ArrayImpl
    assert moved.sharding == SingleDeviceSharding(CPUS[1])
    named = xpr.device_put(x, one_device(P("z"), AxisType.Explicit))
    assert str(named.aval) == "float32[8@z,2]"
    assert str(xpr.device_put(named, CPUS[1]).aval) == "float32[8,2]"


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize(
    ("function", "spec"),
    [
        (lambda x: x, P("z", None)),
        (lambda x: x + 1, P("z", None)),
        (lambda x: x + jnp.ones(2), P("z", None)),
        (lambda x: jnp.sin(x) * 2, P("z", None)),
        (lambda x: x.T, P(None, "z")),
        (lambda x: x.sum(0), P(None)),
        (lambda x: x.sum(1), P("z")),
        (lambda x: x.sum(), P()),
        (lambda x: x @ jnp.ones((2, 3)), P("z", None)),
        (jnp.zeros_like, P("z", None)),
        (lambda x: xpr.grad(lambda x: (x**2).sum())(x), P("z", None)),
        (lambda x: xpr.vmap(lambda x: x + 1)(x), P("z", None)),
        (lambda x: x.astype(jnp.int32), P("z", None)),
    ],
)
def test_results_on_a_mesh_of_one_device(kind: AxisType, function: Any, spec: Any) -> None:
    """They have the mesh of their operands, as on several devices, and the same values."""
    place = one_device(P("z"), kind)
    x = xpr.device_put(VALUES, place)
    wanted = np.asarray(function(jnp.asarray(VALUES)))
    jitted = xpr.jit(function)
    for y in (function(x), jitted(x), jitted(x)):
        assert isinstance(y.sharding, NamedSharding)
        assert y.sharding.mesh == place.mesh
        assert y.sharding.is_equivalent_to(NamedSharding(place.mesh, spec), y.ndim)
        assert y.committed
        np.testing.assert_allclose(y, wanted, rtol=1e-6)


def test_jit_with_shardings_of_a_mesh_of_one_device() -> None:
    x = jnp.asarray(VALUES)
    along, across = one_device(P("z")), one_device(P(None, "z"))

    def f(x: Any) -> Any:
        return x * 2

    for _ in range(2):
        assert xpr.jit(f, out_shardings=across)(x).sharding == across
        assert xpr.jit(f, in_shardings=along)(x).sharding == along
        assert xpr.jit(f, in_shardings=along, out_shardings=across)(x).sharding == across
        y = xpr.jit(lambda x: xpr.lax.with_sharding_constraint(x, along) + 1)(x)
        assert y.sharding == along
        np.testing.assert_array_equal(y, VALUES + 1)


def test_calls_on_a_mesh_of_one_device_give_up_what_is_donated() -> None:
    f = xpr.jit(lambda x, y: (x + y, x), donate_argnums=0)
    for i in range(3):
        x = xpr.device_put(VALUES + i, one_device(P("z")))
        both, same = f(x, 1.0)
        assert x.is_deleted()
        np.testing.assert_array_equal(both, VALUES + i + 1)
        np.testing.assert_array_equal(same, VALUES + i)
        with pytest.raises(RuntimeError, match="deleted"):
            f(x, 1.0)
        with pytest.raises(RuntimeError, match="deleted"):
            _ = x + 1


def test_constraints_on_explicit_axes() -> None:
    x = jnp.asarray(VALUES)
    for devices in (1, 2):
        mesh = xpr.make_mesh((devices,), "z", devices=CPUS[:devices])
        there = xpr.device_put(x, NamedSharding(mesh, P("z")))
        for v in (x, there):
            for spec in (P("z"), P(None, "z")):
                with pytest.raises(ValueError, match="can only refer to Auto axes of the mesh"):
                    xpr.lax.with_sharding_constraint(v, NamedSharding(mesh, spec))
        whole = NamedSharding(mesh, P())
        assert xpr.lax.with_sharding_constraint(there, whole).sharding.spec == P()
        f = xpr.jit(lambda v: xpr.lax.with_sharding_constraint(v, whole))  # noqa: B023
        assert f(there).sharding.spec == P("z", None)
        assert f(x).sharding.is_equivalent_to(whole, 2)


def test_types_show_the_explicit_axes() -> None:
    mesh = xpr.make_mesh((4, 2), ("x", "y"))
    x = xpr.device_put(VALUES, NamedSharding(mesh, P("x")))
    assert str(xpr.typeof(x)) == "float32[8@x,2]"
    assert xpr.typeof(x).sharding == NamedSharding(mesh.abstract_mesh, P("x", None))
    assert xpr.typeof(put("x")).sharding is None
    back = xpr.device_put(x, NamedSharding(MESH, P("x")))
    assert str(xpr.typeof(back)) == "float32[8,2]"
    assert str(xpr.typeof(xpr.device_put(x, CPUS[2]))) == "float32[8,2]"


def test_live_arrays_and_their_memory() -> None:
    x = xpr.device_put(np.ones((8, 64), np.int16), NamedSharding(MESH, P("x", "y")))
    assert any(a is x for a in xpr.live_arrays())
    assert not any(a is x for a in xpr.live_arrays("reference"))
    assert len(memory_profile(None)) > 0
    x.delete()
    assert not any(a is x for a in xpr.live_arrays())


class _Remote(Device):
    """A device of another process, which nothing here can read."""

    def __init__(self, number: int) -> None:
        super().__init__(CPUS[0].runtime, number, "remote", 1)


def test_arrays_of_which_this_process_holds_a_part() -> None:
    mesh = Mesh([CPUS[:4], [_Remote(8 + i) for i in range(4)]], ("p", "x"))
    split = NamedSharding(mesh, P(("p", "x")))
    x = xpr.device_put(VALUES, split)
    assert not x.is_fully_addressable
    assert len(x.addressable_shards) == len(x._buffers) == 4
    assert len(x.global_shards) == 8
    assert x.global_shards[5].data is None
    assert x.global_shards[5].index == (slice(5, 6), slice(None))
    np.testing.assert_array_equal(np.asarray(x.addressable_data(3)), VALUES[3:4])
    assert x.on_device_size_in_bytes() == VALUES.nbytes
    assert repr(x) == str(x) == "Array(shape=(8, 2), dtype=float32)"
    with pytest.raises(RuntimeError, match=r"spans non-addressable.*process_allgather"):
        np.asarray(x)
    replicated = xpr.device_put(VALUES, NamedSharding(mesh, P()))
    np.testing.assert_array_equal(np.asarray(replicated), VALUES)
    np.testing.assert_array_equal(
        np.asarray(xpr.device_put(replicated, NamedSharding(MESH, P("x")))), VALUES
    )
    with pytest.raises(RuntimeError, match="on devices of other processes"):
        xpr.device_put(x, NamedSharding(MESH, P()))
    here = xpr.device_put(xpr.device_put(VALUES, NamedSharding(mesh, P("x"))), CPUS[0])
    np.testing.assert_array_equal(np.asarray(here), VALUES)


def test_arrays_like_another_are_spread_like_it() -> None:
    x = put("x", "y")
    for made in (jnp.zeros_like(x), jnp.ones_like(x, dtype=int), jnp.full_like(x, 3.0)):
        assert made.sharding == x.sharding
    assert jnp.zeros_like(x, shape=(3,)).sharding == SingleDeviceSharding(CPUS[0])
    assert jnp.zeros_like(x, device=CPUS[1]).devices() == {CPUS[1]}
    spread = NamedSharding(MESH, P("x"))
    assert jnp.arange(8, device=spread).sharding == spread


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_iteration_gives_rows(kind: AxisType) -> None:
    mesh = Mesh(np.array(xpr.devices("cpu")[:4]), ("x",), axis_types=(kind,))
    whole = np.arange(24.0, dtype="f").reshape(8, 3)
    for spec in (P("x"), P()):
        rows = list(xpr.device_put(whole, NamedSharding(mesh, spec)))
        assert [r.shape for r in rows] == [(3,)] * 8
        np.testing.assert_array_equal(np.stack([np.asarray(r) for r in rows]), whole)


@pytest.mark.parametrize("count", [1, 2])
def test_deleted_arguments_are_refused_though_nothing_reads_them(count: int) -> None:
    mesh = Mesh(np.array(CPUS[:count]), ("x",))
    x, y = (xpr.device_put(VALUES, NamedSharding(mesh, P("x"))) for _ in range(2))
    f = xpr.jit(lambda x, y: x + 1)
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(f(x, y)), VALUES + 1)
    y.delete()
    for _ in range(3):
        with pytest.raises(RuntimeError, match="Array has been deleted"):
            f(x, y)
