"""`ShapeDtypeStruct` with shardings, and bare specs that mean the mesh in use."""

from __future__ import annotations

import numpy as np
import pytest

import xpr
from xpr import NamedSharding, P, ShapeDtypeStruct
from xpr.sharding import Mesh, SingleDeviceSharding, use_abstract_mesh

CPUS = xpr.devices("cpu")
MESH = Mesh(np.array(CPUS).reshape(4, 2), ("x", "y"))
EXPLICIT = xpr.make_mesh((4, 2), ("x", "y"))
SPLIT = NamedSharding(MESH, P("x"))


def test_shapes_with_shardings() -> None:
    kind = ShapeDtypeStruct((8, 2), "float32", sharding=SPLIT)
    assert kind.sharding == SPLIT
    assert repr(kind) == f"ShapeDtypeStruct(shape=(8, 2), dtype=float32, sharding={SPLIT})"
    assert kind != ShapeDtypeStruct((8, 2), "float32")
    assert kind == ShapeDtypeStruct((8, 2), "float32").update(sharding=SPLIT)
    assert hash(kind) == hash(kind.update())
    assert kind.update(shape=(16, 2), dtype="int8", weak_type=True) == ShapeDtypeStruct(
        (16, 2), np.int8, sharding=SPLIT, weak_type=True
    )
    single = SingleDeviceSharding(CPUS[0])
    assert ShapeDtypeStruct((), "float32", sharding=single).sharding == single
    shown = ShapeDtypeStruct((8,), "float32", sharding=NamedSharding(EXPLICIT, P("x")))
    assert str(xpr.make_jaxpr(lambda v: v)(shown).in_avals[0]) == "float32[8@x]"


def test_bad_shardings_of_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"rank at least 1, but was applied to a value of rank 0"):
        ShapeDtypeStruct((), "float32", sharding=SPLIT)
    with pytest.raises(ValueError, match=r"should be an instance of .*Sharding.* Got 3 of type"):
        ShapeDtypeStruct((8,), "float32", sharding=3)
    with pytest.raises(TypeError, match="the context mesh cannot be empty"):
        ShapeDtypeStruct((8,), "float32", sharding=P("x"))


def test_specs_mean_the_mesh_in_use() -> None:
    values = np.arange(8.0, dtype=np.float32)
    with xpr.set_mesh(MESH):
        assert ShapeDtypeStruct((8, 2), "float32", sharding=P("x")).sharding == SPLIT
        x = xpr.make_array_from_process_local_data(P("x"), values)
    assert x.sharding == SPLIT
    np.testing.assert_array_equal(np.asarray(x), values)
    with use_abstract_mesh(EXPLICIT.abstract_mesh):
        kind = ShapeDtypeStruct((8,), "float32", sharding=P("y"))
        assert kind.sharding == NamedSharding(EXPLICIT.abstract_mesh, P("y"))
        with pytest.raises(ValueError, match="takes a sharding over devices"):
            xpr.device_put(values, P("x"))
    with pytest.raises(ValueError, match=r"Please set a mesh via `xpr\.set_mesh`"):
        xpr.make_array_from_process_local_data(P("x"), values)
