"""`device_put` to shardings, from anywhere: values, memory, donation and errors."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import NamedSharding, P
from xpr.sharding import IndivisibleError, Mesh, SingleDeviceSharding

LONG = os.environ.get("XPR_LONG_TESTS") == "1"
CPUS = xpr.devices("cpu")
MESH = Mesh(np.array(CPUS).reshape(4, 2), ("x", "y"))
OTHER = Mesh(np.array(CPUS)[[5, 2, 7, 0]].reshape(2, 2), ("a", "b"))
ONE = SingleDeviceSharding(CPUS[3])
PLACES = [
    NamedSharding(MESH, P("x")),
    NamedSharding(MESH, P(None, "y")),
    NamedSharding(MESH, P(("y", "x"))),
    NamedSharding(MESH, P("y", "x")),
    NamedSharding(MESH, P()),
    NamedSharding(OTHER, P("b", "a")),
    NamedSharding(OTHER, P("a")),
    ONE,
]
VALUES = np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)


def _addresses(x: xpr.Array) -> list[int]:
    return [np.asarray(s.data).__array_interface__["data"][0] for s in x.addressable_shards]


@pytest.mark.parametrize(("source", "target"), list(itertools.product(PLACES, PLACES)))
def test_from_every_sharding_to_every_other(source: object, target: object) -> None:
    x = xpr.device_put(VALUES, source)
    y = xpr.device_put(x, target)
    assert y.sharding == target
    for shard in y.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), VALUES[shard.index])
    if source == target:
        assert y is x
        return
    x.delete()
    np.testing.assert_array_equal(np.asarray(y), VALUES)
    z = xpr.device_put(y, source, donate=True)
    assert y.is_deleted()
    np.testing.assert_array_equal(np.asarray(z), VALUES)


@pytest.mark.parametrize("dtype", ["int8", "bool", "complex64", ml_dtypes.bfloat16, "float64"])
def test_from_the_host(dtype: Any) -> None:
    values = (VALUES > 0).astype(dtype)
    for layout in (values, np.asfortranarray(values), values[::-1, ::-1]):
        x = xpr.device_put(layout, NamedSharding(MESH, P("x", "y")))
        assert x.dtype == (np.float32 if dtype == "float64" else np.dtype(dtype))
        np.testing.assert_array_equal(np.asarray(x), layout)
    before = values.copy()
    y = xpr.device_put(values, NamedSharding(MESH, P("x")))
    z = xpr.device_put(values, NamedSharding(MESH, P()))
    values[...] = 0
    np.testing.assert_array_equal(np.asarray(y), before)
    np.testing.assert_array_equal(np.asarray(z), before)


def test_numbers_and_trees() -> None:
    split, whole = NamedSharding(MESH, P("x")), NamedSharding(MESH, P())
    out = xpr.device_put({"a": VALUES, "b": (1.5, 2)}, {"a": split, "b": whole})
    assert out["a"].sharding == split
    assert out["b"][0].sharding == whole
    assert (float(out["b"][0]), int(out["b"][1])) == (1.5, 2)
    assert [v.sharding for v in xpr.device_put([VALUES, jnp.ones(8)], split)] == [split] * 2
    key = xpr.device_put(xpr.random.key(7), whole)
    np.testing.assert_array_equal(xpr.random.key_data(key), xpr.random.key_data(xpr.random.key(7)))


def test_specs_mean_the_mesh_in_use() -> None:
    with pytest.raises(ValueError, match=r"Please set a mesh via `xpr\.set_mesh`"):
        xpr.device_put(VALUES, P("x"))
    with xpr.set_mesh(MESH):
        assert xpr.device_put(VALUES, P("x")).sharding == NamedSharding(MESH, P("x"))
        tree = xpr.device_put({"a": VALUES, "b": VALUES}, {"a": P("y"), "b": P()})
        assert tree["a"].sharding == NamedSharding(MESH, P("y"))
        with pytest.raises(ValueError, match="Resource axis: z"):
            xpr.device_put(VALUES, P("z"))


def test_parts_that_lie_there_already_stay() -> None:
    x = xpr.device_put(np.ones((64, 128), np.float32), NamedSharding(MESH, P("x")))
    y = xpr.device_put(x, NamedSharding(MESH, P("x", None)))
    assert y.sharding.spec == P("x", None)
    assert _addresses(x) == _addresses(y)
    x.delete()
    assert not y.is_deleted()
    z = xpr.device_put(y, NamedSharding(MESH, P(("x",))), donate=True)
    assert y.is_deleted()
    np.testing.assert_array_equal(np.asarray(z), np.ones((64, 128)))


def test_arrays_on_one_host_device_are_spread_without_a_copy() -> None:
    x = jnp.arange(4096.0).reshape(64, 64) + 0
    y = xpr.device_put(x, NamedSharding(MESH, P(("x", "y"))))
    start = np.asarray(x).__array_interface__["data"][0]
    assert _addresses(y) == [start + i * 8 * 64 * 4 for i in range(8)]
    # Whoever may write to a part gets memory of his own.
    double = xpr.jit(lambda v: v * 2, donate_argnums=0)
    double(y.addressable_data(0))
    np.testing.assert_array_equal(np.asarray(x), np.arange(4096.0).reshape(64, 64))


def test_places_that_do_not_fit_are_refused() -> None:
    with pytest.raises(IndivisibleError, match=r"axis 0 is partitioned 4 times.*size is 7"):
        xpr.device_put(np.arange(7), NamedSharding(MESH, P("x")))
    with pytest.raises(IndivisibleError, match=r"axis 0 is partitioned 4 times.*size is 7"):
        xpr.device_put(jnp.arange(7), NamedSharding(MESH, P("x")))
    with pytest.raises(ValueError, match="One of device_put args is incompatible with its shard"):
        xpr.device_put(1.0, NamedSharding(MESH, P("x")))
    with pytest.raises(ValueError, match=r"over devices, got NamedSharding\(mesh=Abstr"):
        xpr.device_put(VALUES, NamedSharding(MESH.abstract_mesh, P("x")))
    with pytest.raises(ValueError, match="must know every axis"):
        xpr.device_put(VALUES, NamedSharding(MESH, P(P.UNCONSTRAINED)))
    with pytest.raises(ValueError, match="must be a Device, a Sharding, a PartitionSpec or None"):
        xpr.device_put(VALUES, MESH)
    unreduced = NamedSharding(xpr.make_mesh((8,), ("x",)), P(unreduced={"x"}))
    with pytest.raises(NotImplementedError, match="unreduced"):
        xpr.device_put(VALUES, unreduced)
    with xpr.transfer_guard("disallow_explicit"):
        with pytest.raises(RuntimeError, match="Disallowed host-to-device transfer"):
            xpr.device_put(VALUES, NamedSharding(MESH, P()))
    x = xpr.device_put(VALUES, NamedSharding(MESH, P("x")))
    with xpr.transfer_guard("disallow_explicit"):
        assert xpr.device_put(x, NamedSharding(MESH, P("x"))) is x
        with pytest.raises(RuntimeError, match="Disallowed device-to-device transfer"):
            xpr.device_put(x, CPUS[0])


@pytest.mark.parametrize(
    "mesh", [MESH, xpr.make_mesh((4, 2), ("x", "y"))], ids=["auto", "explicit"]
)
def test_inside_a_program(mesh: Mesh) -> None:
    rows, columns = NamedSharding(mesh, P("x")), NamedSharding(mesh, P(None, "y"))

    def f(v: xpr.Array) -> xpr.Array:
        return xpr.device_put(v, columns) * 2

    for x in (VALUES, xpr.device_put(VALUES, rows)):
        out = xpr.jit(f)(x)
        assert out.sharding.is_equivalent_to(columns, 2)
        np.testing.assert_array_equal(np.asarray(out), VALUES * 2)
    shown = xpr.typeof(xpr.device_put(VALUES, columns)).sharding
    assert xpr.make_jaxpr(f)(x).out_avals[0].sharding == shown
    grad = xpr.grad(lambda v: (f(v) ** 2).sum())(x)
    np.testing.assert_allclose(np.asarray(grad), VALUES * 8, rtol=1e-6)
    with pytest.raises(IndivisibleError, match="axis 0 is partitioned 4 times"):
        xpr.jit(lambda v: xpr.device_put(v, rows))(np.ones(7))
    same = xpr.make_jaxpr(lambda v: xpr.device_put(v, CPUS[1]))(VALUES)
    assert not same.jaxpr.eqns  # one device is the caller's choice


_MEMORY = """
import re
import numpy as np, xpr
from xpr import NamedSharding, P
def peak():
    # Not getrusage, which counts the process that started this one.
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024
xpr.config.update("num_cpu_devices", 8)
mesh = xpr.sharding.Mesh(xpr.devices(), "x")
rows, cols = ROWS, 1 << 11
place = NamedSharding(mesh, P("x"))
def part(index):
    start, stop, _ = index[0].indices(rows)
    return np.full((stop - start, cols), float(start), np.float32)
xpr.make_array_from_callback((8, cols), place, lambda i: np.zeros((1, cols), np.float32))
before = peak()
x = xpr.make_array_from_callback((rows, cols), place, part)
made = peak()
total = float(xpr.jit(lambda v: (v.mean(axis=1) / rows).sum())(x))
computed = peak()
y = xpr.device_put(x, NamedSharding(mesh, P(None, "x")), donate=True)
print(*((b - a) / x.nbytes for a, b in ((before, made), (made, computed), (made, peak()))))
print(total, float(y[-1, -1]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process's memory is Linux's")
def test_a_spread_array_never_takes_memory_twice() -> None:
    rows = 1 << (17 if LONG else 13)  # 1 GB, or 64 MB
    ran = subprocess.run(
        [sys.executable, "-c", _MEMORY.replace("ROWS", str(rows))],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    made, computed, moved, total, last = map(float, ran.stdout.split())
    assert 0.5 < made < 1.3  # the array, and the part that the callback has just made
    assert computed < (0.05 if LONG else 0.5)  # the compiler, and no second copy
    assert moved < 1.3  # old and new parts at the same time
    assert last == 7 * rows / 8
    assert total == pytest.approx(3.5 * rows / 8)


def test_errors_name_the_leaf_that_does_not_fit() -> None:
    mesh = Mesh(np.array(xpr.devices("cpu")[:4]), ("x",))
    place = NamedSharding(mesh, P("x"))
    params = {"w": np.ones((8, 8)), "b": [np.ones(8), np.ones(6)]}
    cases = (
        (lambda: xpr.device_put(params, place), r"for the leaf \['b'\]\[1\] that device_put"),
        (
            lambda: xpr.jit(lambda p: p["w"], in_shardings=place)(params),
            r"for the argument p\['b'\]\[1\] of <lambda>",
        ),
        (
            lambda: xpr.jit(lambda p: {"z": p["b"]}, out_shardings=place)(params),
            r"for the result \['z'\]\[1\] of <lambda>",
        ),
    )
    for call, which in cases:
        with pytest.raises(IndivisibleError, match=which) as caught:
            call()
        assert "the dimension size is 6" in str(caught.value)
    # A single leaf needs no name.
    with pytest.raises(IndivisibleError, match="size is 6") as caught:
        xpr.device_put(np.ones(6), place)
    assert not hasattr(caught.value, "__notes__")
