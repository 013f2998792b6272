"""Functions exported for several devices: called on as many, with the shardings they had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import NamedSharding, P, ShapeDtypeStruct, lax
from xpr.export import deserialize, export, symbolic_shape
from xpr.sharding import AxisType, IndivisibleError, Mesh

CPUS = np.array(xpr.devices("cpu"))
MESH = Mesh(CPUS.reshape(4, 2), ("x", "y"))
X = np.random.default_rng(0).normal(size=(16, 8)).astype("f4")
W = np.random.default_rng(1).normal(size=(8, 4)).astype("f4")
TYPES = (ShapeDtypeStruct((16, 8), "float32"), ShapeDtypeStruct((8, 4), "float32"))


def put(x: Any, *spec: Any, mesh: Mesh = MESH) -> Any:
    return xpr.device_put(x, NamedSharding(mesh, P(*spec)))


def layer(x, w):
    return jnp.tanh(x @ w)


def both(exported: Any) -> list[Any]:
    """As it was exported, and as it is read back."""
    return [exported, deserialize(exported.serialize(vjp_order=1))]


def test_a_function_of_one_device_runs_wherever_its_arguments_are() -> None:
    for f in both(export(xpr.jit(layer))(*TYPES)):
        assert f.nr_devices == 1
        out = f.call(put(X, "x", "y"), put(W, "y"))
        assert out.sharding == NamedSharding(MESH, P("x"))
        np.testing.assert_allclose(np.asarray(out), np.tanh(X @ W), rtol=1e-5, atol=1e-6)


def test_shardings_of_arguments_are_part_of_what_is_exported() -> None:
    x, w = put(X, "x", "y"), put(W, "y")
    for f in both(export(xpr.jit(layer))(x, w)):
        assert f.nr_devices == 8
        out = f.call(x, w)
        assert out.sharding == NamedSharding(MESH, P("x"))
        np.testing.assert_allclose(np.asarray(out), np.tanh(X @ W), rtol=1e-5, atol=1e-6)
        message = "layer was exported for 8 devices and is called in a context with 1 devices,"
        with pytest.raises(ValueError, match=message):
            f.call(X, W)
        four = Mesh(CPUS[:4], ("x",))
        with pytest.raises(ValueError, match=r"for 8 devices .* in a context with 4 devices"):
            f.call(put(X, "x", mesh=four), put(W, mesh=four))


def test_types_may_say_the_shardings() -> None:
    types = [
        ShapeDtypeStruct(t.shape, t.dtype, sharding=NamedSharding(MESH, spec))
        for t, spec in zip(TYPES, (P("x", "y"), P("y")), strict=True)
    ]
    exported = export(xpr.jit(layer))(*types)
    assert exported.nr_devices == 8
    # Arguments that lie elsewhere on these devices are moved, by their places in the mesh.
    other = Mesh(CPUS[::-1].reshape(2, 4), ("a", "b"))
    out = exported.call(put(X, "b", mesh=other), put(W, mesh=other))
    assert out.sharding.mesh.devices.tolist() == CPUS[::-1].reshape(4, 2).tolist()
    assert out.sharding.spec == P("x")
    np.testing.assert_allclose(np.asarray(out), np.tanh(X @ W), rtol=1e-5, atol=1e-6)


def test_results_are_where_out_shardings_said() -> None:
    places = {
        "in_shardings": (NamedSharding(MESH, P("x")), NamedSharding(MESH, P())),
        "out_shardings": NamedSharding(MESH, P("y", "x")),
    }
    for f in both(export(xpr.jit(layer, **places))(*TYPES)):
        assert f.nr_devices == 8
        assert f.call(put(X), put(W)).sharding == NamedSharding(MESH, P("y", "x"))
        with xpr.set_mesh(MESH):  # arguments that were put nowhere go to the mesh in use
            assert f.call(X, W).sharding == NamedSharding(MESH, P("y", "x"))


def test_calls_inside_traced_functions() -> None:
    x, w = put(X, "x", "y"), put(W, "y")
    first, read = both(export(xpr.jit(layer))(x, w))
    out = xpr.jit(lambda x, w: first.call(x, w) * 2)(x, w)
    assert out.sharding == NamedSharding(MESH, P("x"))
    np.testing.assert_allclose(np.asarray(out), 2 * np.tanh(X @ W), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match=r"exported for 8 devices: .* xpr.set_mesh\(mesh\) around"):
        xpr.jit(read.call)(x, w)
    with xpr.set_mesh(MESH):
        out = xpr.jit(read.call)(x, w)
    assert out.sharding == NamedSharding(MESH, P("x"))
    np.testing.assert_allclose(np.asarray(out), np.tanh(X @ W), rtol=1e-5, atol=1e-6)


def test_derivatives_are_sharded_as_what_they_belong_to() -> None:
    x, w = put(X, "x", "y"), put(W, "y")
    slope = 1 - np.tanh(X @ W) ** 2
    for f in both(export(xpr.jit(layer))(x, w)):
        pull = f.vjp()
        assert pull.nr_devices == 8
        of_x, of_w = pull.call(x, w, put(np.ones((16, 4), "f4"), "x"))
        assert (of_x.sharding.spec, of_w.sharding.spec) == (P("x", "y"), P("y"))
        np.testing.assert_allclose(np.asarray(of_x), slope @ W.T, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(np.asarray(of_w), X.T @ slope, rtol=1e-4, atol=1e-5)


def total_over_x(x):
    def body(part):
        start = lax.pcast(jnp.zeros(part.shape[1]), ("x", "y"), to="varying")
        rows = lax.scan(lambda s, row: (s + row, None), start, part)[0]
        return lax.psum(rows, "x")[None]

    return xpr.shard_map(body, mesh=MESH, in_specs=P("x", "y"), out_specs=P(None, "y"))(x)


def test_shard_map_is_exported_without_its_devices() -> None:
    for f in both(export(xpr.jit(total_over_x))(TYPES[0])):
        assert f.nr_devices == 8
        out = f.call(put(X, "x", "y"))
        assert out.sharding == NamedSharding(MESH, P(None, "y"))
        np.testing.assert_allclose(np.asarray(out), X.sum(0)[None], rtol=1e-5, atol=1e-5)
    read = deserialize(export(xpr.jit(total_over_x))(TYPES[0]).serialize())
    for sizes in ((4, 2), (2, 4)):
        other = Mesh(CPUS[::-1].reshape(sizes), ("a", "b"))
        out = read.call(put(X, "a", mesh=other))
        assert out.sharding.mesh.flat_devices == other.flat_devices
        np.testing.assert_allclose(np.asarray(out), X.sum(0)[None], rtol=1e-5, atol=1e-5)


def test_constraints_are_exported() -> None:
    def turned(x):
        return lax.with_sharding_constraint(x * 2, NamedSharding(MESH, P(None, "x")))

    for f in both(export(xpr.jit(turned))(TYPES[0])):
        out = f.call(put(X, "x"))
        assert out.sharding == NamedSharding(MESH, P(None, "x"))
        np.testing.assert_array_equal(np.asarray(out), X * 2)


def test_explicit_axes_are_exported() -> None:
    mesh = Mesh(CPUS.reshape(4, 2), ("x", "y"), (AxisType.Explicit,) * 2)
    x = put(X, "x", mesh=mesh)
    with xpr.set_mesh(mesh):
        exported = export(xpr.jit(lambda x: xpr.reshard(x * 2, P(None, "x"))))(x)
    for f in both(exported):
        out = f.call(x)
        assert str(xpr.typeof(out)) == "float32[16,8@x]"
        np.testing.assert_array_equal(np.asarray(out), X * 2)


def test_sizes_may_be_open_along_a_sharded_axis() -> None:
    (rows,) = symbolic_shape("b")
    open_x = ShapeDtypeStruct((rows, 8), "float32", sharding=NamedSharding(MESH, P("x")))
    exported = export(xpr.jit(layer))(open_x, TYPES[1])
    read = deserialize(exported.serialize())
    for f in (exported, read):
        assert f.nr_devices == 8
        for n in (4, 16):
            out = f.call(put(X[:n], "x"), W)
            assert out.sharding == NamedSharding(MESH, P("x"))
            np.testing.assert_allclose(np.asarray(out), np.tanh(X[:n] @ W), rtol=1e-5, atol=1e-6)
        with pytest.raises(IndivisibleError, match=r"axis 0 is partitioned 4 times.* size is 6"):
            f.call(put(X[:6]), W)


def test_bundles_are_of_one_device(tmp_path: Path) -> None:
    exported = export(xpr.jit(layer))(put(X, "x"), put(W))
    with pytest.raises(
        NotImplementedError, match=r"layer was exported for 8 devices, and a bundle"
    ):
        exported.save(tmp_path / "layer.xpr")
    assert list(tmp_path.iterdir()) == []


def test_shardings_over_the_mesh_of_a_run() -> None:
    x, w = put(X, "x", "y"), put(W, "y")
    jitted = xpr.jit(layer, out_shardings=NamedSharding(MESH, P("x")))
    other = Mesh(MESH.devices[::-1], MESH.axis_names)
    for f in both(export(jitted)(x, w)):
        for mesh in (MESH, other, MESH.abstract_mesh):
            expected = tuple(
                NamedSharding(mesh, spec, memory_kind="device") for spec in (P("x", "y"), P("y"))
            )
            assert f.in_shardings_jax(mesh) == expected
            result = NamedSharding(mesh, P("x"), memory_kind="device")
            assert f.out_shardings_jax(mesh) == (result,)
        found = f.in_shardings_jax(other)
        out = f.call(xpr.device_put(X, found[0]), xpr.device_put(W, found[1]))
        assert out.sharding.mesh.devices.tolist() == other.devices.tolist()
        with pytest.raises(ValueError, match="for a mesh with the axes"):
            f.in_shardings_jax(Mesh(CPUS, ("x",)))


def test_own_functions_need_no_jit() -> None:
    for f in both(export(jnp.sin)(1.0)):
        assert f.in_shardings_jax(MESH) == f.out_shardings_jax(MESH) == (None,)
        np.testing.assert_allclose(f.call(2.0), np.sin(2.0), rtol=1e-6)
