"""`device_put` under transformations: values, tangents and cotangents are on the right devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.sharding import Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P

DEVICES = xpr.devices("cpu")
A, B = DEVICES[0], DEVICES[1]
FIRST, SECOND = Mesh(np.array(DEVICES[:4]), ("x",)), Mesh(np.array(DEVICES[4:8]), ("x",))
HERE, THERE = NamedSharding(FIRST, P("x")), NamedSharding(SECOND, P("x"))
V = np.arange(4, dtype=np.float32)
M = np.arange(16, dtype=np.float32).reshape(4, 4)
PLACES = {
    "devices": (A, B, {A}, {B}),
    "meshes": (HERE, THERE, set(DEVICES[:4]), set(DEVICES[4:8])),
}


def _is(x: Any, value: Any, devices: set[Any]) -> None:
    np.testing.assert_allclose(np.asarray(x), value, rtol=1e-6)
    assert x.devices() == devices


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("host", [False, True], ids=["array", "numpy"])
def test_values_and_tangents_go_there(kind: str, host: bool) -> None:
    here, there, _, devices = PLACES[kind]
    x = V if host else xpr.device_put(V, here)

    def move(x: Any) -> Any:
        return xpr.device_put(x, there)

    y, t = xpr.jvp(move, (x,), (x,))
    _is(y, V, devices)
    _is(t, V, devices)
    y, forward = xpr.linearize(move, x)
    _is(y, V, devices)
    _is(forward(x), V, devices)
    y = xpr.checkpoint(lambda x: xpr.device_put(x, there))(x)
    _is(y, V, devices)


@pytest.mark.parametrize("kind", PLACES)
def test_cotangents_come_back(kind: str) -> None:
    here, there, first, second = PLACES[kind]
    x = xpr.device_put(V, here)

    def loss(x: Any) -> Any:
        return jnp.sum(xpr.device_put(x * 2, there) ** 3)

    y, gradient = xpr.value_and_grad(loss)(x)
    _is(y, np.sum((2 * V) ** 3), second)
    _is(gradient, 24 * V**2, first)
    y, pull = xpr.vjp(lambda x: xpr.device_put(x, there), x)
    _is(pull(y)[0], V, first)
    _is(xpr.hessian(loss)(x), np.diag(48 * V), first)
    primal, tangent = xpr.jvp(xpr.grad(loss), (x,), (x,))
    _is(primal, 24 * V**2, first)
    _is(tangent, 48 * V**2, first)


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("axis", [0, 1])
def test_batches(kind: str, axis: int) -> None:
    here, there, first, second = PLACES[kind]
    if kind == "meshes" and axis == 0:
        here = NamedSharding(FIRST, P(None, "x"))
    x = xpr.device_put(M, here)
    moved = xpr.vmap(lambda x: xpr.device_put(x, there), in_axes=axis, out_axes=axis)(x)
    _is(moved, M, second)
    gradient = xpr.grad(lambda x: jnp.sum(xpr.device_put(x * 2, there) ** 2))
    _is(xpr.vmap(gradient, in_axes=axis, out_axes=axis)(x), 8 * M, first)


def test_a_chain_of_devices() -> None:
    def loss(x: Any) -> Any:
        for d in DEVICES[1:4]:
            x = xpr.device_put(jnp.sin(x), d)
        return x

    x = xpr.device_put(np.float32(0.5), A)
    y, gradient = xpr.value_and_grad(loss)(x)
    s = np.sin(0.5)
    _is(y, np.sin(np.sin(s)), {DEVICES[3]})
    _is(gradient, np.cos(np.sin(s)) * np.cos(s) * np.cos(0.5), {A})


def test_stages_of_a_pipeline() -> None:
    """Programs on two meshes, and what is between them, in one gradient."""
    first = xpr.jit(lambda x: x**2)
    second = xpr.jit(lambda x: x * 3)

    def loss(x: Any) -> Any:
        return jnp.sum(second(xpr.device_put(first(x), THERE)))

    x = xpr.device_put(V, HERE)
    _is(loss(x), 42, set(DEVICES[4:8]))
    _is(xpr.grad(loss)(x), 6 * V, set(DEVICES[:4]))


def test_custom_rules_move_values() -> None:
    @xpr.custom_jvp
    def double(x: Any) -> Any:
        return xpr.device_put(x, B) * 2

    double.defjvp(lambda p, t: (double(p[0]), 2 * xpr.device_put(t[0], B)))
    x = xpr.device_put(V, A)
    for found, value in zip(xpr.jvp(double, (x,), (x,)), (2 * V, 2 * V), strict=True):
        _is(found, value, {B})

    @xpr.custom_vjp
    def triple(x: Any) -> Any:
        return xpr.device_put(x, B) * 3

    triple.defvjp(lambda x: (triple(x), None), lambda _, ct: (xpr.device_put(3 * ct, A),))
    y, gradient = xpr.value_and_grad(lambda x: jnp.sum(triple(x)))(x)
    _is(y, 18, {B})
    _is(gradient, 3 * np.ones(4), {A})


def test_the_source_may_be_named() -> None:
    x = xpr.device_put(V, A)
    value, pull = xpr.vjp(lambda x: xpr.device_put(x, B, src=DEVICES[2]), x)
    _is(value, V, {B})
    _is(pull(value)[0], V, {DEVICES[2]})


def test_explicit_types() -> None:
    mesh = xpr.make_mesh((4,), ("x",), devices=DEVICES[:4])
    x = xpr.device_put(M, NamedSharding(mesh, P("x", None)))
    there = NamedSharding(mesh, P(None, "x"))

    def loss(x: Any) -> Any:
        y = xpr.device_put(x, there)
        assert xpr.typeof(y).sharding.spec == P(None, "x")
        return jnp.sum(y * y)

    gradient = xpr.grad(loss)(x)
    assert gradient.sharding.spec == P("x", None)
    _is(gradient, 2 * M, set(DEVICES[:4]))


def test_a_shape_that_does_not_divide() -> None:
    with pytest.raises(ValueError, match="should evenly divide the shape"):
        xpr.grad(lambda x: jnp.sum(xpr.device_put(x, THERE)))(np.ones(6, np.float32))


def test_inside_a_program_the_partitioner_is_told() -> None:
    spread = NamedSharding(FIRST, P("x"))
    f = xpr.jit(xpr.grad(lambda x: jnp.sum(xpr.device_put(x, spread) ** 2)))
    _is(f(V), 2 * V, set(DEVICES[:4]))
    pushed = xpr.linearize(lambda x: xpr.device_put(x, spread), V)[1]
    out = xpr.jit(pushed)(V)
    _is(out, V, set(DEVICES[:4]))
    assert out.sharding.spec == P("x")
