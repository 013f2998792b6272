"""Programs that name several meshes of the same devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
from xpr import lax
from xpr.sharding import Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P

DEVICES = np.array(xpr.devices("cpu")[:8])
ROWS = Mesh(DEVICES.reshape(4, 2), ("a", "b"))
FLAT = Mesh(DEVICES, ("x",))
OTHER = Mesh(DEVICES.reshape(2, 4), ("c", "d"))


def put(mesh: Mesh, spec: P, *shape: int) -> Any:
    x = np.arange(float(np.prod(shape)), dtype="f").reshape(shape)
    return xpr.device_put(x, NamedSharding(mesh, spec))


def test_a_constraint_over_another_mesh_is_kept() -> None:
    x = put(ROWS, P(("a", "b")), 16)
    out = xpr.jit(lambda v: lax.with_sharding_constraint(v * 2, NamedSharding(FLAT, P("x"))))(x)
    np.testing.assert_array_equal(out, np.arange(16) * 2)
    assert out.sharding.is_equivalent_to(NamedSharding(FLAT, P("x")), 1)
    half = xpr.jit(lambda v: lax.with_sharding_constraint(v, NamedSharding(OTHER, P("c"))))(x)
    assert half.sharding.is_equivalent_to(NamedSharding(OTHER, P("c")), 1)
    assert half.addressable_shards[0].data.shape == (8,)


def test_shard_map_over_another_mesh() -> None:
    def body(v: Any) -> Any:
        return v + lax.psum(v.sum(), "x") + lax.axis_index("x")

    x = put(ROWS, P("b", "a"), 16, 4)
    out = xpr.jit(xpr.shard_map(body, mesh=FLAT, in_specs=P("x"), out_specs=P("x")))(x)
    whole = np.arange(64.0).reshape(16, 4)
    wanted = whole + whole.sum() + np.repeat(np.arange(8), 2)[:, None]
    np.testing.assert_allclose(out, wanted)


def test_two_meshes_whose_groups_nest() -> None:
    """Groups of 2, 4 and 8 devices: the refined mesh has 2 x 2 x 2."""

    def first(v: Any) -> Any:
        return v * lax.psum(1.0, "b") + lax.axis_index("a")

    def second(v: Any) -> Any:
        return v + lax.axis_index(("c", "d")) * 10

    def program(x: Any) -> Any:
        x = xpr.shard_map(first, mesh=ROWS, in_specs=P("a", "b"), out_specs=P("a", "b"))(x)
        return xpr.shard_map(second, mesh=OTHER, in_specs=P(("c", "d")), out_specs=P(("c", "d")))(x)

    found = xpr.jit(program)(put(OTHER, P("d"), 8, 4))
    wanted = np.arange(32.0).reshape(8, 4) * 2 + np.repeat(np.arange(4), 2)[:, None]
    np.testing.assert_allclose(found, wanted + np.arange(8)[:, None] * 10)


def test_operations_on_arrays_of_two_meshes() -> None:
    out = put(ROWS, P(("a", "b")), 16) + put(FLAT, P("x"), 16)
    np.testing.assert_array_equal(out, np.arange(16) * 2)
    assert out.addressable_shards[0].data.shape == (2,)


def test_meshes_that_do_not_go_together() -> None:
    three = Mesh(DEVICES[:6].reshape(2, 3), ("c", "d"))
    two = Mesh(DEVICES[:6].reshape(3, 2), ("a", "b"))
    with pytest.raises(ValueError, match="groups of 2 and of 3 devices do not nest"):
        _ = put(two, P("a"), 6) + put(three, P("c"), 6)
    back = Mesh(DEVICES[::-1].reshape(4, 2), ("e", "f"))
    with pytest.raises(ValueError, match="the same devices in another order"):
        _ = put(ROWS, P("a"), 8) + put(back, P("f"), 8)
