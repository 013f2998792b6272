"""Arrays over a mesh put together from parts, callbacks and a process's own data."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import NamedSharding, P
from xpr.core.errors import UnexpectedTracerError
from xpr.runtimes.base import Device
from xpr.sharding import IndivisibleError, Mesh, SingleDeviceSharding

CPUS = xpr.devices("cpu")
MESH = Mesh(np.array(CPUS).reshape(4, 2), ("x", "y"))
SPLIT = NamedSharding(MESH, P("x"))
VALUES = np.arange(16.0, dtype=np.float32).reshape(8, 2)


def _parts(sharding: NamedSharding) -> list[xpr.Array]:
    found = sharding.devices_indices_map(VALUES.shape)
    return [xpr.device_put(VALUES[index], device) for device, index in found.items()]


@pytest.mark.parametrize("spec", [P("x"), P("x", "y"), P(("x", "y")), P()], ids=str)
def test_from_arrays_of_single_devices_in_any_order(spec: P) -> None:
    sharding = NamedSharding(MESH, spec)
    parts = _parts(sharding)
    x = xpr.make_array_from_single_device_arrays((8, 2), sharding, parts[::-1])
    assert x.sharding == sharding
    assert x.committed
    np.testing.assert_array_equal(np.asarray(x), VALUES)
    parts[0].delete()
    np.testing.assert_array_equal(np.asarray(x), VALUES)


def test_parts_that_do_not_fit_are_refused() -> None:
    make = xpr.make_array_from_single_device_arrays
    parts = _parts(SPLIT)
    with pytest.raises(ValueError, match=r"expected 8 arrays .*, got 7"):
        make((8, 2), SPLIT, parts[:7])
    with pytest.raises(ValueError, match=r"distinct devices, got device ids \[0, 1.*6, 0\]"):
        make((8, 2), SPLIT, [*parts[:7], parts[0]])
    with pytest.raises(ValueError, match=r"shard shape \(2, 3\) doesn't match.*\(2, 2\)"):
        make((8, 3), SPLIT, parts)
    with pytest.raises(ValueError, match=r"matching dtypes\. Got int32, expected float32"):
        make((8, 2), SPLIT, [*parts[:7], parts[7].astype(int)])
    with pytest.raises(ValueError, match="one shard each, got one with 8 shards"):
        make((8, 2), SPLIT, [xpr.device_put(VALUES, SPLIT)] * 8)
    with pytest.raises(IndivisibleError, match="axis 0 is partitioned 4 times"):
        make((7, 2), SPLIT, parts)
    with pytest.raises(TypeError, match="must be a list or tuple, got <class 'int'>"):
        make((8, 2), SPLIT, 3)  # type: ignore[arg-type]
    four = NamedSharding(Mesh(CPUS[:4], "x"), P("x"))
    with pytest.raises(ValueError, match=r"expected an array on CpuDevice\(id=0\), got arrays on"):
        make((8, 2), four, parts[4:])


@pytest.mark.parametrize(("spec", "calls"), [(P("x"), 4), (P(("x", "y")), 8), (P(), 1)], ids=str)
def test_from_a_callback_called_once_for_each_part(spec: P, calls: int) -> None:
    seen = []

    def part(index: tuple[slice, ...]) -> np.ndarray:
        seen.append(index)
        return VALUES[index]

    x = xpr.make_array_from_callback((8, 2), NamedSharding(MESH, spec), part)
    np.testing.assert_array_equal(np.asarray(x), VALUES)
    assert len(seen) == calls
    assert x.dtype == np.float32
    mesh = xpr.make_mesh((4, 2), ("x", "y"))
    y = xpr.make_array_from_callback((8, 2), NamedSharding(mesh, spec), lambda i: VALUES[i])
    assert xpr.typeof(y).sharding.mesh is mesh.abstract_mesh


def test_what_a_callback_may_return() -> None:
    make = xpr.make_array_from_callback
    for convert in (jnp.asarray, lambda v: xpr.device_put(v, CPUS[5]), lambda v: v.astype("f8")):
        x = make((8, 2), SPLIT, lambda i, f=convert: f(VALUES[i]))
        np.testing.assert_array_equal(np.asarray(x), VALUES)
    scalar = make((), NamedSharding(MESH, P()), lambda i: 3)
    assert int(scalar) == 3
    source = VALUES.copy()
    x = make((8, 2), SPLIT, lambda i: source[i])
    source[...] = 0
    np.testing.assert_array_equal(np.asarray(x), VALUES)
    with pytest.raises(ValueError, match=r"shard shape \(2, 2\) doesn't match.*\(8, 2\)"):
        make((8, 2), SPLIT, lambda i: VALUES)
    with pytest.raises(ValueError, match="Got int32, expected float32"):
        make((8, 2), SPLIT, lambda i: VALUES[i].astype("i4") if i[0].start else VALUES[i])
    with pytest.raises(ValueError, match="got int32 for parts of float32"):
        make((8, 2), SPLIT, lambda i: VALUES[i], dtype="int32")


def test_no_part_of_a_callback_outlives_its_copy() -> None:
    alive: list[weakref.ref] = []

    def part(index: tuple[slice, ...]) -> np.ndarray:
        gc.collect()
        assert all(r() is None for r in alive)
        found = VALUES[index].copy()
        alive.append(weakref.ref(found))
        return found

    xpr.make_array_from_callback((8, 2), NamedSharding(MESH, P(("x", "y"))), part)
    assert len(alive) == 8


def test_from_the_data_of_the_only_process() -> None:
    make = xpr.make_array_from_process_local_data
    tree = make(SPLIT, {"a": VALUES, "b": VALUES}, {"a": (8, 2), "b": None})
    assert tree["a"].sharding == tree["b"].sharding == SPLIT
    np.testing.assert_array_equal(np.asarray(tree["b"]), VALUES)
    with pytest.raises(ValueError, match=r"axis 0 the data must be the whole, 16.*\(8, 2\)"):
        make(SPLIT, VALUES, (16, 2))
    with pytest.raises(ValueError, match=r"size 7, which the 4 parts of this process do not"):
        make(SPLIT, VALUES[:7])
    with pytest.raises(ValueError, match="another rank"):
        make(SPLIT, VALUES, (8,))
    with pytest.raises(TypeError, match="sharding should be an instance"):
        make(3, VALUES)  # pyright: ignore[reportArgumentType]


class _Remote(Device):
    """A device of another process, which nothing here can read."""

    def __init__(self, number: int) -> None:
        super().__init__(CPUS[0].runtime, number, "remote", 1)


def test_from_the_data_of_one_process_of_two() -> None:
    make = xpr.make_array_from_process_local_data
    remote = [_Remote(8 + i) for i in range(4)]
    mesh = Mesh([remote, CPUS[:4]], ("p", "x"))
    rows = NamedSharding(mesh, P(("p", "x")))
    x = make(rows, VALUES)  # what this process holds: the second half
    assert x.shape == (16, 2)
    assert not x.is_fully_addressable
    for i, shard in enumerate(x.addressable_shards):
        assert shard.index[0] == slice(8 + 2 * i, 10 + 2 * i)
        np.testing.assert_array_equal(np.asarray(shard.data), VALUES[2 * i : 2 * i + 2])
    y = make(rows, VALUES, (8, 2))  # the whole, of which this process holds the second half
    np.testing.assert_array_equal(np.asarray(y.addressable_data(0)), VALUES[4:5])
    columns = NamedSharding(mesh, P(None, "p"))
    z = make(columns, VALUES)
    assert z.shape == (8, 4)
    np.testing.assert_array_equal(np.asarray(z.addressable_data(3)), VALUES)
    mixed = Mesh([[CPUS[0], remote[0]], [CPUS[1], remote[1]]], ("x", "p"))
    w = make(NamedSharding(mixed, P(("x", "p"))), VALUES)  # parts 0 and 2 of 4, one after the other
    assert w.shape == (16, 2)
    assert [s.index[0] for s in w.addressable_shards] == [slice(0, 4), slice(8, 12)]
    for i, shard in enumerate(w.addressable_shards):
        np.testing.assert_array_equal(np.asarray(shard.data), VALUES[4 * i : 4 * i + 4])
    nothing = NamedSharding(Mesh(remote, "x"), P("x"))
    with pytest.raises(ValueError, match="global_shape must be given to a process without"):
        make(nothing, VALUES)
    assert make(nothing, VALUES, (8, 2)).shape == (8, 2)
    with pytest.raises(ValueError, match="dtype must be given"):
        xpr.make_array_from_callback((8, 2), nothing, lambda i: VALUES[i])
    made = xpr.make_array_from_callback((8, 2), nothing, lambda i: VALUES[i], dtype="f4")
    assert made.addressable_shards == []
    with pytest.raises(ValueError, match="dtype must be given"):
        xpr.make_array_from_single_device_arrays((8, 2), nothing, [])


def test_a_callback_of_traced_values_is_refused() -> None:
    place = SingleDeviceSharding(CPUS[0])

    def traced(x: Any) -> Any:
        return xpr.make_array_from_callback((3,), place, lambda i: x[i])

    np.testing.assert_array_equal(traced(np.arange(3)), np.arange(3))
    with pytest.raises(UnexpectedTracerError, match="cannot be called within a traced context"):
        xpr.jit(traced)(np.arange(3))
