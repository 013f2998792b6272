"""Named shardings: which part of an array each device holds."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import numpy as np
import pytest

import xpr
from xpr import NamedSharding, P
from xpr.core.aval import ShapedArray
from xpr.runtimes.base import Device
from xpr.sharding import AbstractMesh, AxisType, IndivisibleError, Mesh, SingleDeviceSharding
from xpr.sharding.base import number_of_parts, replica_ids
from xpr.sharding.named import DuplicateSpecError, explicit_sharding

CPUS = xpr.devices("cpu")
MESH = Mesh(np.array(CPUS).reshape(4, 2), ("x", "y"))
CUBE = Mesh(np.array(CPUS)[[3, 1, 4, 0, 5, 7, 2, 6]].reshape(2, 2, 2), ("a", "b", "c"))
EXPLICIT = xpr.make_mesh((4, 2), ("x", "y"))

ENTRIES = [None, "a", ("b",), ("c", "a"), ("a", "b", "c"), ("c", "b")]


def _plain_map(mesh: Mesh, spec: P, shape: tuple[int, ...]) -> dict[Device, tuple[slice, ...]]:
    """By a loop over all places of the mesh: the digits of an axis's part, major first."""
    found = {}
    for place in np.ndindex(mesh.devices.shape):
        at = dict(zip(mesh.axis_names, place, strict=True))
        index = []
        for i, size in enumerate(shape):
            entry = spec[i] if i < len(spec) else None
            names = (entry,) if isinstance(entry, str) else entry or ()
            number, count = 0, 1
            for name in names:
                number, count = number * mesh.shape[name] + at[name], count * mesh.shape[name]
            step = size // count
            index.append(slice(number * step, (number + 1) * step) if count > 1 else slice(None))
        found[mesh.devices[place]] = tuple(index)
    return found


@pytest.mark.parametrize("entries", list(itertools.product(ENTRIES, ENTRIES)), ids=str)
def test_the_part_of_each_device(entries: tuple[Any, ...]) -> None:
    names = [n for e in entries for n in ((e,) if isinstance(e, str) else e or ())]
    if len(set(names)) < len(names):
        with pytest.raises(DuplicateSpecError, match="has duplicate entries for"):
            NamedSharding(CUBE, P(*entries))
        return
    sharding = NamedSharding(CUBE, P(*entries))
    shape = (16, 8, 3)
    found = sharding.devices_indices_map(shape)
    assert found == _plain_map(CUBE, P(*entries), shape)
    assert list(found) == list(CUBE.flat_devices)
    assert sharding.addressable_devices_indices_map(shape) == found
    whole = np.zeros(shape, int)
    for index in {str(i): i for i in found.values()}.values():
        assert whole[index].shape == sharding.shard_shape(shape)
        whole[index] += 1
    assert (whole == 1).all()
    assert number_of_parts(sharding, 3) == len(set(map(str, found.values())))
    assert sharding.is_fully_replicated == (number_of_parts(sharding, 3) == 1)
    copies = list(zip(map(str, found.values()), replica_ids(sharding, 3), strict=True))
    assert len(set(copies)) == 8
    assert {c for _, c in copies} == set(range(8 // number_of_parts(sharding, 3)))


def test_what_a_sharding_tells() -> None:
    sharding = NamedSharding(MESH, P("x", None))
    assert repr(sharding) == (
        "NamedSharding(mesh=Mesh('x': 4, 'y': 2, axis_types=(Auto, Auto)), spec=P('x', None), "
        "memory_kind=device)"
    )
    assert sharding._device_assignment == tuple(CPUS)
    assert sharding.device_set == sharding.addressable_devices == set(CPUS)
    assert (sharding.num_devices, sharding.memory_kind) == (8, "device")
    assert sharding.is_fully_addressable
    assert sharding.replicated_axes == {"y"}
    assert sharding.normalized_spec(3) == (("x",), (), ())
    assert NamedSharding(MESH, P(P.UNCONSTRAINED, ("y", "x"))).normalized_spec(2) == (
        (),
        ("y", "x"),
    )
    assert sharding.with_spec(P("y")) == sharding.update(spec=("y",)) == NamedSharding(MESH, P("y"))
    assert sharding.update(mesh=EXPLICIT).mesh is EXPLICIT
    assert sharding.with_memory_kind("device") == sharding
    assert copy.copy(sharding) == sharding
    scalar = NamedSharding(MESH, P())
    assert scalar.devices_indices_map(()) == dict.fromkeys(CPUS, ())
    assert scalar.shard_shape(()) == ()


def test_equal_and_equivalent() -> None:
    sharding = NamedSharding(MESH, P("x"))
    assert sharding == NamedSharding(Mesh(np.array(CPUS).reshape(4, 2), ("x", "y")), P(("x",)))
    assert hash(sharding) == hash(NamedSharding(MESH, P("x"), memory_kind="device"))
    for other in (P("x", None), P("y"), P()):
        assert sharding != NamedSharding(MESH, other)
    assert sharding != NamedSharding(EXPLICIT, P("x"))
    assert sharding != NamedSharding(MESH.abstract_mesh, P("x"))
    assert sharding.is_equivalent_to(NamedSharding(MESH, P("x", None)), 2)
    assert sharding.is_equivalent_to(NamedSharding(EXPLICIT, P("x")), 2)
    assert not sharding.is_equivalent_to(NamedSharding(MESH, P(None, "x")), 2)
    assert not sharding.is_equivalent_to(SingleDeviceSharding(CPUS[0]), 2)
    flat = Mesh(CPUS, "z")
    assert NamedSharding(flat, P("z")).is_equivalent_to(NamedSharding(MESH, P(("x", "y"))), 1)
    assert not NamedSharding(flat, P("z")).is_equivalent_to(NamedSharding(MESH, P(("y", "x"))), 1)
    back = Mesh(CPUS[::-1], "z")
    assert not NamedSharding(flat, P("z")).is_equivalent_to(NamedSharding(back, P("z")), 1)
    one, single = NamedSharding(Mesh(CPUS[:1], "x"), P("x")), SingleDeviceSharding(CPUS[0])
    assert one.is_equivalent_to(single, 2)
    assert single.is_equivalent_to(one, 2)
    assert not single.is_equivalent_to(SingleDeviceSharding(CPUS[1]), 2)
    abstract = AbstractMesh((4, 2), ("x", "y"))
    assert NamedSharding(abstract, P("x")).is_equivalent_to(
        NamedSharding(abstract, P("x", None)), 2
    )
    assert pickle.loads(pickle.dumps(NamedSharding(abstract, P("x")))) == NamedSharding(
        abstract, P("x")
    )


def test_shardings_over_abstract_meshes_have_no_devices() -> None:
    sharding = NamedSharding(AbstractMesh((4, 2), ("x", "y")), P("x"))
    assert sharding.shard_shape((8, 3)) == (2, 3)
    assert sharding.memory_kind is None
    assert repr(sharding).endswith("spec=P('x',))")
    for name in ("device_set", "is_fully_addressable", "addressable_devices", "_device_assignment"):
        with pytest.raises(ValueError, match=f"{name} is not implemented for `xpr.sharding.Abs"):
            getattr(sharding, name)


def test_specs_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Resource axis: z of P\('z',\) is not found in mesh"):
        NamedSharding(MESH, P("z"))
    with pytest.raises(DuplicateSpecError, match=r"P\('x', 'x'\) has duplicate entries for `x`"):
        NamedSharding(MESH, P("x", "x"))
    with pytest.raises(TypeError, match=r"takes a PartitionSpec, got \('x',\)"):
        NamedSharding(MESH, ("x",))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes a Mesh, got 3"):
        NamedSharding(3, P("x"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"cannot contain `P\.UNCONSTRAINED`"):
        NamedSharding(EXPLICIT, P(P.UNCONSTRAINED))
    with pytest.raises(ValueError, match=r"Unreduced axes can only.*type `Explicit`"):
        NamedSharding(MESH, P(unreduced={"x"}))
    with pytest.raises(ValueError, match=r"Reduced axes z is not found"):
        NamedSharding(EXPLICIT, P(reduced={"z"}))
    with pytest.raises(ValueError, match="Got memory kind: foo"):
        NamedSharding(MESH, P("x"), memory_kind="foo")
    with pytest.raises(
        IndivisibleError, match=r"axis 0 is partitioned 4 times.*size is 7.*\[4, 1\]"
    ):
        NamedSharding(MESH, P("x")).shard_shape((7, 4))
    with pytest.raises(ValueError, match="rank at least 2, but was applied to a value of rank 1"):
        NamedSharding(MESH, P("x", "y")).shard_shape((8,))
    with pytest.raises(ValueError, match=r"For scalars the PartitionSpec should be P\(\)"):
        NamedSharding(MESH, P("x")).check_compatible_aval(())
    unreduced = NamedSharding(EXPLICIT, P(unreduced={"x"}))
    assert not unreduced.is_fully_replicated
    assert not unreduced.is_equivalent_to(NamedSharding(EXPLICIT, P()), 1)
    with pytest.raises(NotImplementedError, match="unreduced array"):
        unreduced.devices_indices_map((8,))


def test_types_show_the_explicit_axes() -> None:
    mixed = MESH.update(axis_types=(AxisType.Explicit, AxisType.Auto))
    rows = [
        (EXPLICIT, P("x"), "float32[8@x,8]"),
        (EXPLICIT, P(("x", "y")), "float32[8@(x,y),8]"),
        (EXPLICIT, P(None, "y"), "float32[8,8@y]"),
        (EXPLICIT, P(), "float32[8,8]"),
        (EXPLICIT, P("y", unreduced={"x"}), "float32[8@y,8]{U:x}"),
        (EXPLICIT, P(unreduced={"y", "x"}), "float32[8,8]{U:(x,y)}"),
        (EXPLICIT, P(unreduced={"x"}, reduced={"y"}), "float32[8,8]{U:x, R:y}"),
        (mixed, P(("x", "y")), "float32[8@x,8]"),
        (mixed, P("y"), "float32[8,8]"),
    ]
    for mesh, spec, text in rows:
        sharding = explicit_sharding(NamedSharding(mesh, spec), 2)
        aval = ShapedArray((8, 8), np.dtype("float32"), sharding=sharding)
        assert str(aval) == text
        assert repr(aval) == f"ShapedArray({text})"
        assert aval.str_short() == text.replace("float32", "f32")
        assert len(aval.sharding.spec) == 2
        assert aval.sharding.mesh is mesh.abstract_mesh
        assert aval != aval.update(sharding=None)
    assert explicit_sharding(NamedSharding(MESH, P("x")), 2) is None
    assert explicit_sharding(SingleDeviceSharding(CPUS[0]), 2) is None
