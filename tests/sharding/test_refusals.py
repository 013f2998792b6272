"""Programs that contradict themselves about devices and shardings are refused, in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    SingleDeviceSharding,
    auto_axes,
)
from xpr.sharding import PartitionSpec as P

CPUS = xpr.devices("cpu")
PAIR = Mesh(np.array(CPUS[:2]), ("x",))
MESH = Mesh(np.array(CPUS[:4]).reshape(2, 2), ("x", "y"))
V = np.arange(8, dtype=np.float32)
M = np.ones((4, 4), np.float32)
OTHER = "Received incompatible devices for jitted computation"


def test_kinds_of_memory_of_a_mesh_without_devices() -> None:
    mesh = AbstractMesh((2,), ("x",))
    assert NamedSharding(mesh, P(), memory_kind="pinned_host").memory_kind == "pinned_host"
    assert NamedSharding(mesh, P()).memory_kind is None
    with pytest.raises(ValueError, match="Got invalid memory kind: weird_device"):
        NamedSharding(mesh, P(), memory_kind="weird_device")


def test_shardings_of_jit_are_complete() -> None:
    open_spec = NamedSharding(MESH, P(P.UNCONSTRAINED, "y"))
    for name in ("in_shardings", "out_shardings"):
        options: dict[str, Any] = {name: open_spec}
        with pytest.raises(ValueError, match=f"Unconstrained dims are not allowed .* to {name}"):
            xpr.jit(lambda x: x, **options)


def test_a_device_for_jit_and_a_mesh_inside() -> None:
    def f(x: Any) -> Any:
        return lax.with_sharding_constraint(x, NamedSharding(MESH, P("x")))

    with pytest.raises(ValueError, match=OTHER):
        xpr.jit(f, device=CPUS[0])(V)
    assert xpr.jit(lambda x: x * 2, device=CPUS[1])(V).devices() == {CPUS[1]}


def test_constraints_move_no_arrays() -> None:
    whole = xpr.device_put(V, NamedSharding(PAIR, P()))
    turned = Mesh(np.array(CPUS[:2][::-1]), ("x",))
    alone = xpr.device_put(V, CPUS[0])
    with pytest.raises(ValueError, match=OTHER):
        lax.with_sharding_constraint(whole, NamedSharding(turned, P("x")))
    with pytest.raises(ValueError, match=OTHER):
        lax.with_sharding_constraint(alone, NamedSharding(PAIR, P("x")))
    with pytest.raises(ValueError, match=OTHER):
        lax.with_sharding_constraint(alone, SingleDeviceSharding(CPUS[1]))
    free = lax.with_sharding_constraint(jnp.arange(8), NamedSharding(PAIR, P("x")))
    assert free.sharding.spec == P("x")


def test_constraints_over_a_mesh_without_devices() -> None:
    target = NamedSharding(PAIR.abstract_mesh, P("x"))
    x = xpr.device_put(V, NamedSharding(PAIR, P()))
    assert lax.with_sharding_constraint(x, target).sharding == NamedSharding(PAIR, P("x"))
    with pytest.raises(ValueError, match=r"requires the input passed should be a `xpr\.Array`"):
        lax.with_sharding_constraint(V, target)
    with pytest.raises(TypeError, match="sharding on the input must be a `NamedSharding`"):
        lax.with_sharding_constraint(jnp.arange(8), target)
    y = xpr.device_put(M, NamedSharding(MESH, P("x")))
    with pytest.raises(ValueError, match=r"Mesh shape of the input .* does not match"):
        lax.with_sharding_constraint(y, target)


@pytest.mark.parametrize("axes", [{"x"}, {"x", "y"}])
def test_constraints_in_shard_map_name_no_manual_axes(axes: set[str]) -> None:
    def f(v: Any) -> Any:
        return lax.with_sharding_constraint(v, NamedSharding(MESH, P("x", "y")))

    mapped = xpr.shard_map(
        f, mesh=MESH, in_specs=P("x"), out_specs=P("x"), axis_names=axes, check_vma=False
    )
    with pytest.raises(ValueError, match=r"contains a manual axes \('x'.*of mesh"):
        xpr.jit(mapped)(M)


def test_shard_map_does_not_close_over_parts() -> None:
    mesh = xpr.make_mesh((2,), ("x",), devices=CPUS[:2])
    with xpr.set_mesh(mesh):
        w = xpr.device_put(V, P("x"))

        def over(w: Any) -> Any:
            return xpr.shard_map(lambda v: v * w.sum(), in_specs=P("x"), out_specs=P("x"))(w)

        text = r"Closing over inputs to shard_map.*closes over an array of type f32\[8@x\]"
        with pytest.raises(NotImplementedError, match=text):
            over(w)
        with pytest.raises(NotImplementedError, match=text):
            xpr.jit(over)(w)
        whole = xpr.device_put(V, P())
        f = xpr.shard_map(lambda v: v * whole.sum(), in_specs=P("x"), out_specs=P("x"))
        np.testing.assert_array_equal(f(w), V * V.sum())


def test_shard_map_over_a_mesh_without_devices() -> None:
    f = xpr.shard_map(lambda v: v, mesh=PAIR.abstract_mesh, in_specs=P("x"), out_specs=P("x"))
    np.testing.assert_array_equal(f(xpr.device_put(V, NamedSharding(PAIR, P("x")))), V)
    for x in (V, jnp.arange(8)):
        with pytest.raises(ValueError, match=r"Please pass `xpr\.Array`s with a `NamedSharding`"):
            f(x)
    four = Mesh(np.array(CPUS[:4]), ("y",))
    with pytest.raises(ValueError, match="does not match the mesh shape passed to shard_map"):
        f(xpr.device_put(V, NamedSharding(four, P("y"))))


def test_out_sharding_over_another_mesh_or_memory() -> None:
    mesh = xpr.make_mesh((2,), ("x",), devices=CPUS[:2])
    automatic = xpr.make_mesh((2,), ("x",), axis_types=(AxisType.Auto,), devices=CPUS[:2])
    with xpr.set_mesh(mesh):
        other = NamedSharding(automatic.abstract_mesh, P(None, None))
        with pytest.raises(ValueError, match=r"Context mesh .* should match the mesh of sharding"):
            xpr.jit(lambda x: jnp.einsum("ij->ji", x, out_sharding=other))(M)
        host = NamedSharding(mesh, P("x"), memory_kind="pinned_host")
        with pytest.raises(ValueError, match="sharding with memory_kind is not allowed"):
            jnp.full((2,), 0, out_sharding=host)


def test_a_device_for_jit_takes_parts_together() -> None:
    x = xpr.device_put(V.reshape(4, 2), NamedSharding(MESH, P("x", "y")))
    f = xpr.jit(lambda x: x @ x.T, device=CPUS[1])
    for _ in range(2):
        out = f(x)
        assert out.devices() == {CPUS[1]}
        np.testing.assert_array_equal(out, V.reshape(4, 2) @ V.reshape(4, 2).T)


def test_a_mesh_whose_axes_are_auto_already() -> None:
    with xpr.set_mesh(PAIR):
        f = auto_axes(lambda x: x * 2, out_sharding=P("x"))
        np.testing.assert_array_equal(f(V), 2 * V)
        np.testing.assert_array_equal(xpr.jit(f)(V), 2 * V)
        assert "reshard" not in str(xpr.make_jaxpr(f)(V))


def test_a_device_for_local_data() -> None:
    made = xpr.make_array_from_process_local_data(CPUS[1], {"a": V}, V.shape)
    assert made["a"].devices() == {CPUS[1]}
    np.testing.assert_array_equal(made["a"], V)


def test_the_guard_of_transfers_lets_arrays_be_spread_anew() -> None:
    turned = Mesh(np.array(CPUS[:4][::-1]).reshape(2, 2), ("x", "y"))
    x = xpr.device_put(M, NamedSharding(MESH, P("x", "y")))
    with xpr.transfer_guard("disallow_explicit"):
        y = xpr.device_put(x, NamedSharding(turned, P("y")))
    np.testing.assert_array_equal(y, M)
    with (
        xpr.transfer_guard("disallow_explicit"),
        pytest.raises(RuntimeError, match="Disallowed device-to-device transfer"),
    ):
        xpr.device_put(x, CPUS[5])
