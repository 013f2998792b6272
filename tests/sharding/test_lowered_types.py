"""Lowering for types that say where arguments will be: no array of that size has to exist."""

from __future__ import annotations

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import NamedSharding, P, ShapeDtypeStruct
from xpr.sharding import AxisType, Mesh, SingleDeviceSharding

CPUS = xpr.devices("cpu")
MESH = Mesh(np.array(CPUS).reshape(4, 2), ("x", "y"))
X = ShapeDtypeStruct((16, 8), "float32", sharding=NamedSharding(MESH, P("x", "y")))
W = ShapeDtypeStruct((8, 4), "float32", sharding=NamedSharding(MESH, P("y")))


def layer(x, w):
    return jnp.tanh(x @ w)


def test_types_are_lowered_as_arrays_there_would_be() -> None:
    found = xpr.jit(layer).lower(X, W)
    arrays = [xpr.device_put(jnp.ones(s.shape), s.sharding) for s in (X, W)]
    wanted = xpr.jit(layer).lower(*arrays)
    assert found.communication() == wanted.communication()
    assert [t.kind for t in found.communication().transfers] == ["all_reduce"]
    compiled = found.compile()
    assert compiled.input_shardings == ((X.sharding, W.sharding), {})
    assert compiled.output_shardings == NamedSharding(MESH, P("x"))
    assert compiled.out_info.sharding == NamedSharding(MESH, P("x"))
    out = compiled(*arrays)
    np.testing.assert_allclose(np.asarray(out), np.tanh(np.full((16, 4), 8.0)), rtol=1e-6)


def test_types_without_a_sharding_are_placed_by_propagation() -> None:
    free = ShapeDtypeStruct((8, 4), "float32")
    compiled = xpr.jit(layer).lower(X, free).compile()
    assert compiled.input_shardings == ((X.sharding, NamedSharding(MESH, P("y"))), {})


def test_explicit_axes_of_types_are_in_the_types_of_the_program() -> None:
    mesh = Mesh(np.array(CPUS).reshape(4, 2), ("x", "y"), (AxisType.Explicit,) * 2)
    x = ShapeDtypeStruct((16, 8), "float32", sharding=NamedSharding(mesh, P("x")))
    w = ShapeDtypeStruct((8, 4), "float32", sharding=NamedSharding(mesh, P(None, "y")))
    traced = xpr.jit(layer).trace(x, w)
    assert str(traced.jaxpr.out_avals[0]) == "float32[16@x,4@y]"
    assert traced.out_info.sharding == NamedSharding(mesh.abstract_mesh, P("x", "y"))
    assert traced.lower().compile().output_shardings.spec == P("x", "y")


def test_one_device_of_a_type_is_where_the_program_runs() -> None:
    there = SingleDeviceSharding(CPUS[3])
    x = ShapeDtypeStruct((16, 8), "float32", sharding=there)
    compiled = xpr.jit(layer).lower(x, ShapeDtypeStruct((8, 4), "float32")).compile()
    assert compiled.output_shardings == there


def test_types_on_different_devices_are_refused() -> None:
    x = ShapeDtypeStruct((16, 8), "float32", sharding=SingleDeviceSharding(CPUS[1]))
    with pytest.raises(ValueError, match=r"incompatible devices .*argument x of layer .*\[1\]"):
        xpr.jit(layer).lower(x, W)


def test_in_shardings_must_be_those_of_the_types() -> None:
    f = xpr.jit(layer, in_shardings=NamedSharding(MESH, P("y")))
    with pytest.raises(
        ValueError, match=r"Sharding passed to jit does not match (.|\n)*float32\[16,8\]"
    ):
        f.lower(X, W)
