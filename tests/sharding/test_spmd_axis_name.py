"""`vmap` with `spmd_axis_name`: batches that are cut over axes of a mesh, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.sharding import Mesh, NamedSharding, SingleDeviceSharding
from xpr.sharding import PartitionSpec as P

MESH = Mesh(np.array(xpr.devices("cpu")[:4]).reshape(2, 2), ("x", "y"))
V = np.arange(16, dtype=np.float32).reshape(4, 4) / 7
BODIES: dict[str, tuple[P, Callable[[Any], Any]]] = {
    "sum inside": (P("y"), lambda v: jnp.sin(lax.psum(jnp.sum(v), "y"))),
    "sum outside": (P("y"), lambda v: lax.psum(jnp.sum(jnp.sin(v) * v), "y")),
    "replicated": (P(), lambda v: jnp.sin(jnp.sum(v * v))),
}
WAYS: dict[str, Callable[..., Any]] = {
    "vmap of grad": lambda f, **k: xpr.vmap(xpr.grad(f), **k),
    "grad of vmap": lambda f, **k: xpr.grad(lambda x: xpr.vmap(f, **k)(x).sum()),
    "vmap of jit of grad": lambda f, **k: xpr.vmap(xpr.jit(xpr.grad(f)), **k),
    "vmap of grad of checkpoint": lambda f, **k: xpr.vmap(xpr.grad(xpr.checkpoint(f)), **k),
    "vmap of jvp": lambda f, **k: xpr.vmap(lambda x: xpr.jvp(f, (x,), (x,))[1], **k),
    "vmap of hessian": lambda f, **k: xpr.vmap(xpr.jacrev(xpr.grad(f)), **k),
}


@pytest.mark.parametrize("check_vma", [False, True])
@pytest.mark.parametrize("body", BODIES)
def test_derivatives_of_shard_map(body: str, check_vma: bool) -> None:
    """As without the name: derivatives of the same function of one device, example by example."""
    spec, f = BODIES[body]
    mapped = xpr.shard_map(f, mesh=MESH, in_specs=spec, out_specs=P(), check_vma=check_vma)
    alone = {
        "sum inside": lambda v: jnp.sin(jnp.sum(v)),
        "sum outside": lambda v: jnp.sum(jnp.sin(v) * v),
        "replicated": lambda v: jnp.sin(jnp.sum(v * v)),
    }[body]
    for name, way in WAYS.items():
        found = way(mapped, spmd_axis_name="x")(V)
        np.testing.assert_allclose(found, way(alone)(V), rtol=1e-4, atol=1e-5, err_msg=name)


def test_the_batch_is_cut() -> None:
    f = xpr.shard_map(lambda v: v * 2, mesh=MESH, in_specs=P("y"), out_specs=P("y"))
    out = xpr.jit(xpr.vmap(f, spmd_axis_name="x"))(V)
    np.testing.assert_array_equal(out, 2 * V)
    assert out.sharding.spec == P("x", "y")


def test_constraints_cut_the_batch() -> None:
    def f(v: Any) -> Any:
        return lax.with_sharding_constraint(v, NamedSharding(MESH, P("y")))

    for way in (lambda f: f, xpr.jit):
        out = way(xpr.vmap(f, spmd_axis_name="x"))(V)
        assert out.sharding.spec == P("x", "y")
        np.testing.assert_array_equal(out, V)
    out = xpr.jit(xpr.vmap(f, in_axes=1, out_axes=1, spmd_axis_name="x"))(V)
    assert out.sharding.spec == P("y", "x")
    program = xpr.make_jaxpr(xpr.vmap(f))(V)
    assert program.eqns[0].params["unconstrained_dims"] == {0}


def test_an_axis_may_not_be_named_twice() -> None:
    def constrained(v: Any) -> Any:
        return lax.with_sharding_constraint(v, NamedSharding(MESH, P("x")))

    text = r"vmap spmd_axis_name \('x',\) cannot appear in with_sharding_constraint spec"
    with pytest.raises(ValueError, match=text):
        xpr.vmap(constrained, spmd_axis_name="x")(V)
    with pytest.raises(ValueError, match=text):
        xpr.jit(xpr.vmap(constrained, spmd_axis_name="x"))(V)
    cut = xpr.shard_map(lambda v: v, mesh=MESH, in_specs=P("y"), out_specs=P("y"))
    with pytest.raises(ValueError, match="cannot appear in shard_map in_specs: the batch is cut"):
        xpr.vmap(cut, spmd_axis_name="y")(V)
    made = xpr.shard_map(lambda v: v, mesh=MESH, in_specs=P(), out_specs=P("y"), check_vma=False)
    with pytest.raises(ValueError, match="cannot appear in shard_map out_specs: the batch is cut"):
        xpr.vmap(made, spmd_axis_name="y")(V)


def test_constraints_without_a_mesh() -> None:
    place = SingleDeviceSharding(xpr.devices()[0])
    f = xpr.vmap(lambda v: lax.with_sharding_constraint(v, place), spmd_axis_name="x")
    with pytest.raises(ValueError, match=r"inside the mesh context manager.*SingleDeviceSharding"):
        xpr.jit(f)(V)


def test_types_that_say_other_axes() -> None:
    mesh = xpr.make_mesh((2, 2), ("x", "y"), devices=xpr.devices("cpu")[:4])
    with xpr.set_mesh(mesh):
        v = xpr.device_put(V, P("x", None))
        same = xpr.vmap(lambda v: v * 2, spmd_axis_name="x")(v)
        assert same.sharding.spec == P("x", None)
        with pytest.raises(ValueError, match="Only one of spmd_axis_name or arrays sharded on"):
            xpr.vmap(lambda v: v * 2, spmd_axis_name="y")(v)
