"""Meshes: their shape, names and types, what makes them equal, and which one is in use."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import xpr
from xpr.core.config import own_settings, state, with_settings
from xpr.experimental import mesh_utils
from xpr.runtimes.base import Device
from xpr.sharding import (
    AbstractDevice,
    AbstractMesh,
    AxisType,
    ManualAxisType,
    Mesh,
    get_abstract_mesh,
    get_mesh,
    use_abstract_mesh,
)
from xpr.sharding.context import entered_mesh

CPUS = xpr.devices("cpu")
GRID = np.array(CPUS).reshape(4, 2)
AUTO, EXPLICIT, MANUAL = AxisType.Auto, AxisType.Explicit, AxisType.Manual


def test_a_mesh_knows_its_axes_and_devices() -> None:
    mesh = Mesh(GRID, ("x", "y"))
    assert mesh.shape == OrderedDict(x=4, y=2)
    assert mesh.shape_tuple == (("x", 4), ("y", 2))
    assert mesh.axis_sizes == (4, 2)
    assert mesh.axis_types == (AUTO, AUTO)
    assert (mesh.size, mesh.empty, mesh.is_scalar, mesh.is_multi_process) == (
        8,
        False,
        False,
        False,
    )
    np.testing.assert_array_equal(mesh.device_ids, np.arange(8).reshape(4, 2))
    assert mesh.flat_devices == tuple(CPUS)
    assert mesh.device_set == set(CPUS)
    assert mesh.local_mesh is mesh
    assert mesh.local_devices == CPUS
    assert mesh.devices.tolist() == GRID.tolist()
    assert not mesh.devices.flags.writeable
    assert GRID.flags.writeable


def test_texts() -> None:
    mesh = Mesh(GRID, ("x", "y"))
    assert repr(mesh) == "Mesh(axis_sizes=(4, 2), axis_names=('x', 'y'), axis_types=(Auto, Auto))"
    assert str(mesh) == "Mesh('x': 4, 'y': 2, axis_types=(Auto, Auto))"
    kind = CPUS[0].device_kind
    device = f"device_kind={kind}, num_cores=None, platform=cpu"
    assert repr(mesh.abstract_mesh) == (
        f"AbstractMesh('x': 4, 'y': 2, axis_types=(Auto, Auto), {device})"
    )
    assert repr(mesh.abstract_mesh.abstract_device) == f"AbstractDevice({device})"
    assert repr(get_mesh()) == "Mesh(axis_sizes=(), axis_names=())"
    assert repr(Mesh(GRID[0, 0], ())) == "Mesh(axis_sizes=(), axis_names=(), axis_types=())"
    assert (repr(AUTO), str(AUTO)) == ("Auto", "AxisType.Auto")


def test_equal_meshes_are_one_object() -> None:
    mesh = Mesh(GRID, ("x", "y"))
    assert Mesh(GRID.tolist(), ["x", "y"]) is mesh
    assert Mesh(GRID, ("x", "y"), axis_types=(AUTO, AUTO)) is mesh
    assert copy.copy(mesh) is copy.deepcopy(mesh) is mesh
    assert mesh != Mesh(GRID, ("y", "x"))
    assert mesh != Mesh(GRID.T.reshape(4, 2), ("x", "y"))
    assert mesh != mesh.update(axis_types=(EXPLICIT, AUTO))
    assert mesh != mesh.abstract_mesh
    assert mesh.update(axis_types=(EXPLICIT, AUTO)).update(axis_types=(AUTO, AUTO)) is mesh
    assert mesh.update(devices=GRID[:2]).shape == {"x": 2, "y": 2}
    abstract = AbstractMesh((4, 2), ("x", "y"))
    assert AbstractMesh([4, 2], ["x", "y"]) is abstract
    assert pickle.loads(pickle.dumps(abstract)) is abstract
    assert copy.deepcopy(abstract) is abstract
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(mesh)


def test_meshes_that_nobody_uses_are_forgotten() -> None:
    mesh = Mesh(GRID, ("for", "gotten"))
    _ = mesh.device_ids, mesh.shape, hash(mesh)
    found = weakref.ref(mesh)
    del mesh
    gc.collect()
    assert found() is None


def test_axis_types() -> None:
    mesh = Mesh(GRID, ("x", "y"), axis_types=(EXPLICIT, AUTO))
    assert (mesh.explicit_axes, mesh.auto_axes, mesh.manual_axes) == (("x",), ("y",), ())
    assert not mesh.are_all_axes_auto
    assert not mesh.are_all_axes_explicit
    abstract = AbstractMesh((4, 2), ("x", "y")).update_axis_types({"x": MANUAL})
    assert abstract.axis_types == (MANUAL, AUTO)
    assert abstract.axis_type("x") is MANUAL
    assert Mesh(CPUS, "x", axis_types=EXPLICIT).are_all_axes_explicit
    assert abstract.update(axis_types=(MANUAL, MANUAL)).are_all_axes_manual
    assert not get_abstract_mesh().are_all_axes_auto


def test_bad_meshes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"devices\.ndim == 2 and len\(axis_names\) == 1"):
        Mesh(GRID, ("x",))
    with pytest.raises(ValueError, match=r"cannot be None\. Got: \(None,\)"):
        Mesh(CPUS, (None,))
    with pytest.raises(TypeError, match=r"must be of type `xpr\.sharding\.AxisType`"):
        Mesh(CPUS, "x", axis_types=("auto",))
    with pytest.raises(ValueError, match=r"axis_names=\('x',\) and axis_types=\(Auto, Auto\)"):
        Mesh(CPUS, "x", axis_types=(AUTO, AUTO))
    with pytest.raises(TypeError, match=r"takes devices, got np\.int64\(1\)"):
        Mesh([1, 2], "x")
    with pytest.raises(ValueError, match=r"one size for each axis name.*\(4, 2\).*\('x',\)"):
        AbstractMesh((4, 2), ("x",))
    mesh = Mesh(CPUS, "x")
    with pytest.raises(AttributeError, match="cannot assign to field 'size'"):
        mesh.size = 3
    with pytest.raises(AttributeError, match="cannot delete field 'size'"):
        del mesh.size
    for name in ("devices", "device_ids", "local_devices", "local_mesh", "is_multi_process"):
        with pytest.raises(ValueError, match=f"AbstractMesh does not implement {name}"):
            getattr(mesh.abstract_mesh, name)
    with pytest.raises(ValueError, match="AbstractMesh does not implement __enter__"):
        mesh.abstract_mesh.__enter__()


def test_make_mesh_takes_the_first_devices_and_is_explicit() -> None:
    assert xpr.make_mesh((4, 2), ("x", "y")) is Mesh(GRID, ("x", "y"), (EXPLICIT, EXPLICIT))
    assert xpr.make_mesh((2,), "x", (AUTO,)) is Mesh(CPUS[:2], "x")
    assert xpr.make_mesh((2,), ("x",), devices=CPUS[6:]).device_ids.tolist() == [6, 7]
    with pytest.raises(ValueError, match=r"8 must be >= the product of mesh_shape \(16,\)"):
        xpr.make_mesh((16,), ("x",))
    with pytest.raises(ValueError, match=r"devices\.ndim == 2"):
        xpr.make_mesh((4, 2), ("x",))


class _Remote(Device):
    """A device of another process, as far as meshes look at it."""

    def __init__(self, number: int, process: int) -> None:
        super().__init__(CPUS[0].runtime, number, "remote", process)


def test_the_local_part_of_a_mesh() -> None:
    other = [_Remote(8 + i, 1) for i in range(4)]
    mesh = Mesh(np.array([*CPUS[:4], *other]).reshape(2, 4), ("x", "y"))
    assert mesh.is_multi_process
    assert mesh.local_mesh is Mesh([CPUS[:4]], ("x", "y"))
    with pytest.raises(ValueError, match=r"the 4 devices of process 0 are no block.*has 8"):
        _ = Mesh([[*CPUS[:3], other[0]], [*other[1:], CPUS[3]]], ("x", "y")).local_mesh
    with pytest.raises(ValueError, match="process 0 has no device"):
        _ = Mesh(other, "x").local_mesh


def test_device_grids() -> None:
    grid = mesh_utils.create_device_mesh((4, 2))
    assert grid.tolist() == GRID.tolist()
    with pytest.raises(ValueError, match=r"8 must equal the product of mesh_shape \(3, 2\)"):
        mesh_utils.create_device_mesh((3, 2))
    with pytest.raises(ValueError, match="cpu:0 does not have attribute slice_index"):
        mesh_utils.create_hybrid_device_mesh((4, 2), (1, 1))
    devices = [_Remote(p * 4 + i, p) for p in (1, 0) for i in range(4)]
    make = mesh_utils.create_hybrid_device_mesh
    found = make((2, 2), (2, 1), devices, process_is_granule=True)
    ids = np.vectorize(lambda d: d.id)
    np.testing.assert_array_equal(ids(found), [[0, 1], [2, 3], [4, 5], [6, 7]])
    found = make((2, 2), (1, 2), devices, process_is_granule=True)
    np.testing.assert_array_equal(ids(found), [[0, 1, 4, 5], [2, 3, 6, 7]])
    found = make((4,), (2,), devices, process_is_granule=True, should_sort_granules_by_key=False)
    np.testing.assert_array_equal(ids(found), [4, 5, 6, 7, 0, 1, 2, 3])
    with pytest.raises(ValueError, match=r"slices 2 must equal the product.*\(3, 1\)"):
        make((2, 2), (3, 1), devices, process_is_granule=True)
    with pytest.raises(ValueError, match=r"the same length, got \(4,\) and \(2, 1\)"):
        make((4,), (2, 1), devices, process_is_granule=True)


def test_the_mesh_in_use() -> None:
    mesh, other = Mesh(GRID, ("x", "y")), Mesh(CPUS[:2], "z")
    assert get_mesh().empty
    assert get_abstract_mesh().empty
    with xpr.set_mesh(mesh):
        assert get_mesh() is mesh
        assert get_abstract_mesh() is mesh.abstract_mesh
        with xpr.set_mesh(other):
            assert get_mesh() is other
        assert get_mesh() is mesh
        manual = mesh.abstract_mesh.update_axis_types({"x": MANUAL})
        with use_abstract_mesh(manual):
            assert get_abstract_mesh() is manual
            assert get_mesh() is mesh
        assert get_abstract_mesh() is mesh.abstract_mesh
        smaller = AbstractMesh((2,), ("x",))
        with pytest.raises(ValueError, match=r"cannot change the size.*size=2.*size=8"):
            use_abstract_mesh(smaller).__enter__()
        with xpr.set_mesh(None):
            assert get_mesh().empty
    assert get_mesh().empty
    xpr.set_mesh(mesh)
    try:
        assert get_mesh() is mesh
    finally:
        xpr.set_mesh(None)
    assert get_mesh().empty


def test_the_mesh_in_use_is_part_of_the_trace_key() -> None:
    mesh = Mesh(GRID, ("x", "y"))
    outside = state.trace_key
    with xpr.set_mesh(mesh):
        inside = state.trace_key
        with xpr.set_mesh(mesh):
            assert state.trace_key == inside
    assert state.trace_key == outside != inside
    seen = []

    @xpr.jit
    def f(x):
        seen.append(get_abstract_mesh())
        return x

    for _ in range(2):
        f(1.0)
        with xpr.set_mesh(mesh):
            f(1.0)
    assert [m.empty for m in seen] == [True, False]


def test_each_thread_has_a_mesh_of_its_own() -> None:
    mesh = Mesh(GRID, ("x", "y"))
    found = []

    def look(settings: dict[str, Any] | None) -> None:
        with with_settings(settings or {}):
            found.append(get_mesh())

    with xpr.set_mesh(mesh):
        for settings in (None, own_settings()):
            thread = threading.Thread(target=look, args=(settings,))
            thread.start()
            thread.join()
    assert found[0].empty
    assert found[1] is mesh


def test_meshes_that_cannot_be_in_use() -> None:
    mesh = Mesh(CPUS, "x")
    with pytest.raises(ValueError, match=r"of type `xpr\.sharding\.Mesh`\. Got <class"):
        xpr.set_mesh(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="contains manual axes"):
        xpr.set_mesh(mesh.update(axis_types=MANUAL))
    with pytest.raises(ValueError, match=r"of type `xpr\.sharding\.AbstractMesh`"):
        use_abstract_mesh(mesh)  # type: ignore[arg-type]

    def sets(x):
        with xpr.set_mesh(mesh):
            return x

    with pytest.raises(ValueError, match="`set_mesh` can only be used outside"):
        xpr.make_jaxpr(sets)(1.0)
    with pytest.raises(ValueError, match="`get_mesh` can only be used outside"):
        xpr.make_jaxpr(lambda x: (get_mesh(), x)[1])(1.0)


def test_the_block_of_a_mesh() -> None:
    mesh, other = Mesh(GRID, ("x", "y")), Mesh(CPUS[:2], "z")
    assert entered_mesh().empty
    with pytest.warns(DeprecationWarning, match=r"with xpr\.set_mesh\(mesh\)"):
        assert _seen_inside(mesh, other) == [mesh, other, mesh]
    assert entered_mesh().empty


def _seen_inside(mesh: Mesh, other: Mesh) -> list[Mesh]:
    with mesh as first:
        assert get_mesh().empty
        with other:
            second = entered_mesh()
        return [first, second, entered_mesh()]


def test_manual_axis_types() -> None:
    kind = ManualAxisType(varying={"x"})
    assert repr(kind) == (
        "ManualAxisType(varying=frozenset({'x'}), unreduced=frozenset(), reduced=frozenset())"
    )
    assert kind == ManualAxisType(varying=frozenset("x"))
    assert hash(kind) == hash(ManualAxisType(varying=frozenset("x")))
    assert pickle.loads(pickle.dumps(kind)) == copy.deepcopy(kind) == kind
    with pytest.raises(AttributeError, match="cannot be changed"):
        kind.varying = frozenset("y")
    assert kind != ManualAxisType()
    with pytest.raises(ValueError, match=r"varying and unreduced cannot have common mesh axes"):
        ManualAxisType(varying={"x"}, unreduced={"x"})
    with pytest.raises(TypeError, match="varying must be a set, got 'x'"):
        ManualAxisType(varying="x")


def test_abstract_devices_are_values() -> None:
    device = AbstractDevice("a", None, "cpu")
    assert device == AbstractDevice("a", None, "cpu")
    assert repr(device) == "AbstractDevice(device_kind=a, num_cores=None, platform=cpu)"
    assert AbstractMesh((2,), "x", abstract_device=device).update(
        abstract_device=None
    ) is AbstractMesh((2,), "x")
