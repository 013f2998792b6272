"""Parts of sums: values that are unreduced along mesh axes, and those that are reduced.

`TYPES` is what JAX 0.10.2 says of the same programs on a mesh (x: 2, y: 2): the type of the result,
or the name of the error. Where JAX stumbles over its own checks ("Using pspec[...] is dangerous")
and its rules allow the operation, or where it gives wrong sums, no row is here.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.sharding import NamedSharding, auto_axes, reshard
from xpr.sharding import PartitionSpec as P

A = np.arange(32, dtype=np.float32).reshape(8, 4)
B = np.arange(24, dtype=np.float32).reshape(4, 6) / 4
S = P(None, None, unreduced={"x"})


@pytest.fixture(autouse=True)
def mesh() -> Iterator[Any]:
    made = xpr.make_mesh((2, 2), ("x", "y"))
    with xpr.set_mesh(made):
        yield made


def put(value: Any, *entries: Any, **sets: Any) -> Any:
    return reshard(jnp.asarray(value), P(*entries, **sets))


def _operands() -> dict[str, Any]:
    a, b = put(A, None, "x"), put(B, "x")
    return {
        "a": a,
        "b": b,
        "h": put(A, "x"),
        "u": xpr.jit(lambda a, b: jnp.dot(a, b, out_sharding=S))(a, b),
        "w": put(B, reduced={"x"}),
        "ids": put(np.array([0, 1, 2, 3]), "x"),
        "r": put(np.float32(2), reduced={"x"}),
        "big": put(np.full((8, 6), 2, np.float32), reduced={"x"}),
        "v": put(np.arange(8, dtype=np.float32), unreduced={"x"}),
    }


TYPES: dict[str, str] = {
    # contractions
    "jnp.dot(a, b, out_sharding=P(None, None, unreduced={'x'}))": "float32[8,6]{U:x}",
    "jnp.dot(a, b, out_sharding=P(unreduced={'x'}))": "float32[8,6]{U:x}",
    "jnp.matmul(a, b, out_sharding=P(unreduced={'x'}))": "float32[8,6]{U:x}",
    "jnp.tensordot(a, b, 1, out_sharding=P(unreduced={'x'}))": "float32[8,6]{U:x}",
    "jnp.einsum('ik,kj->ij', a, b, out_sharding=P(unreduced={'x'}))": "float32[8,6]{U:x}",
    "jnp.einsum('ik,kj->ji', a, b, out_sharding=P(unreduced={'y'}))": "ShardingTypeError",
    "jnp.einsum('ik,kj,jl->il', a, b, jnp.ones((6, 2)), out_sharding=P(unreduced={'x'}))":
    "float32[8,2]{U:x}",
    "jnp.dot(reshard(a, P('y', 'x')), b, out_sharding=P('y', None, unreduced={'x'}))":
    "float32[8@y,6]{U:x}",
    "jnp.dot(a, reshard(b, P()), out_sharding=P(unreduced={'x'}))": "ShardingTypeError",
    "jnp.dot(a, b, out_sharding=P(unreduced={'y'}))": "ShardingTypeError",
    "jnp.dot(a, b, out_sharding=P(unreduced={'x', 'y'}))": "ShardingTypeError",
    "xpr.vmap(lambda r: jnp.dot(r, b, out_sharding=P(None, unreduced={'x'})))(a)":
    "float32[8,6]{U:x}",
    "u @ jnp.ones((6, 3))": "ShardingTypeError",
    "jnp.einsum('ij,ij->ij', u, u)": "ShardingTypeError",
    # sums
    "lax.reduce_sum(h, (0,), out_sharding=P(None, unreduced={'x'}))": "float32[4]{U:x}",
    "lax.reduce_sum(h, (0,), out_sharding=P(None, unreduced={'y'}))": "ShardingTypeError",
    "h.sum(0)": "float32[4]",
    "u.sum()": "float32[]{U:x}",
    "u.sum(0)": "float32[6]{U:x}",
    "u.max()": "ValueError",
    "u.mean()": "NotImplementedError",
    "jnp.cumsum(u, 0)": "ValueError",
    "jnp.sort(u)": "ValueError",
    # moves
    "reshard(u, P())": "float32[8,6]",
    "reshard(u, P('x'))": "float32[8@x,6]",
    "reshard(u, P('y'))": "float32[8@y,6]",
    "reshard(u, P(unreduced={'x', 'y'}))": "float32[8,6]{U:(x,y)}",
    "reshard(u, P(reduced={'x'}))": "float32[8,6]{R:x}",
    "reshard(h, P(unreduced={'x'}))": "float32[8,4]{U:x}",
    "reshard(jnp.asarray(1.0), P(unreduced={'x'}))": "~float32[]{U:x}",
    "auto_axes(lambda x: x * 2, out_sharding=P())(u)": "float32[8,6]",
    "auto_axes(jnp.dot, out_sharding=P(unreduced={'x'}))(a, b)": "float32[8,6]{U:x}",
    "xpr.device_put(jnp.ones((4, 4)), P(unreduced={'x'}))": "float32[4,4]{U:x}",
    "xpr.device_put(np.ones((4, 4), np.float32), P(reduced={'x'}))": "float32[4,4]{R:x}",
    "xpr.device_put(np.ones((4, 4), np.float32), P(unreduced={'x'}))": "NotImplementedError",
    "xpr.device_put(u, P())": "NotImplementedError",
    # elementwise, unreduced
    "u + u": "float32[8,6]{U:x}",
    "u - u": "NotImplementedError",
    "-u": "NotImplementedError",
    "+u": "float32[8,6]{U:x}",
    "u * 2": "ShardingTypeError",
    "u * jnp.float32(2)": "ShardingTypeError",
    "u / 2": "NotImplementedError",
    "u + jnp.ones((8, 6))": "ShardingTypeError",
    "u + 1.0": "ShardingTypeError",
    "1.0 + u": "ShardingTypeError",
    "u * u": "ShardingTypeError",
    "u * big": "float32[8,6]{U:x}",
    "big * u": "float32[8,6]{U:x}",
    "u * r": "float32[8,6]{U:x}",
    "u + reshard(u, P('x'))": "ShardingTypeError",
    "jnp.exp(u)": "NotImplementedError",
    "u == u": "NotImplementedError",
    "jnp.where(u > 0, u, u)": "NotImplementedError",
    "jnp.where(jnp.ones((8, 6), bool), u, u)": "float32[8,6]{U:x}",
    "lax.select(jnp.ones((8, 6), bool), u, jnp.zeros((8, 6)))": "ShardingTypeError",
    "jnp.clip(u, 0, 1)": "NotImplementedError",
    "xpr.nn.relu(u)": "NotImplementedError",
    "u.astype(jnp.bfloat16)": "bfloat16[8,6]{U:x}",
    "lax.reduce_precision(u, 5, 10)": "float32[8,6]{U:x}",
    "lax.stop_gradient(u)": "float32[8,6]{U:x}",
    "lax.optimization_barrier(u)": "float32[8,6]{U:x}",
    "jnp.copy(u)": "float32[8,6]{U:x}",
    "u.view(jnp.int32)": "NotImplementedError",
    # shapes, unreduced
    "u.T": "float32[6,8]{U:x}",
    "u.reshape(2, 4, 6)": "float32[2,4,6]{U:x}",
    "lax.reshape(u, (48,), out_sharding=P(None, unreduced={'x'}))": "float32[48]{U:x}",
    "lax.reshape(u, (48,), out_sharding=P(None))": "ValueError",
    "lax.reshape(h, (2, 4, 4), out_sharding=P('x', unreduced={'y'}))": "ValueError",
    "jnp.expand_dims(u, 0)": "float32[1,8,6]{U:x}",
    "lax.squeeze(u[None], (0,))": "float32[8,6]{U:x}",
    "jnp.broadcast_to(u, (3, 8, 6))": "float32[3,8,6]{U:x}",
    "jnp.concatenate([u, u])": "float32[16,6]{U:x}",
    "jnp.concatenate([u, jnp.ones((8, 6))])": "ShardingTypeError",
    "jnp.stack([u, u])": "float32[2,8,6]{U:x}",
    "jnp.split(u, 2)[0]": "float32[4,6]{U:x}",
    "jnp.pad(u, 1)": "float32[10,8]{U:x}",
    "jnp.flip(u)": "NotImplementedError",
    "jnp.tile(u, 2)": "ValueError",
    "lax.dynamic_slice(u, (0, 0), (2, 2))": "NotImplementedError",
    "u[jnp.array([0, 1])]": "ValueError",
    # what is made
    "jnp.zeros((8, 6), out_sharding=P(unreduced={'x'}))": "float32[8,6]{U:x}",
    "jnp.full((4,), 3.0, out_sharding=P(unreduced={'x'}))": "~float32[4]{U:x}",
    "xpr.jit(jnp.zeros_like)(u)": "float32[8,6]{U:x}",
    "xpr.jit(jnp.ones_like)(w)": "float32[4,6]{R:x}",
    "jnp.ones_like(w)": "float32[4,6]{R:x}",
    "jnp.bincount(ids, length=4, out_sharding=P(unreduced={'x', 'y'}))": "int32[4]{U:(x,y)}",
    "jnp.bincount(ids, length=4, out_sharding=P(unreduced={'x'}))": "ShardingTypeError",
    "jnp.zeros((8, 4)).at[ids].add(reshard(jnp.ones((4, 4)), P('x')), "
    "out_sharding=P(unreduced={'x'}))": "float32[8,4]{U:x}",
    # reduced
    "h @ w": "float32[8@x,6]",
    "w.T @ w": "float32[6,6]",
    "jnp.einsum('bi,ij->bj', h, w)": "float32[8@x,6]",
    "w + w": "float32[4,6]{R:x}",
    "w + 1.0": "float32[4,6]{R:x}",
    "w * w": "float32[4,6]{R:x}",
    "w - w": "float32[4,6]{R:x}",
    "w / 2": "float32[4,6]{R:x}",
    "-w": "float32[4,6]{R:x}",
    "jnp.tanh(w)": "float32[4,6]{R:x}",
    "w > 0": "bool[4,6]{R:x}",
    "jnp.where(w > 0, w, w)": "float32[4,6]{R:x}",
    "w + reshard(w, P())": "ShardingTypeError",
    "w + reshard(w, P('x'))": "ShardingTypeError",
    "w + reshard(w, P(reduced={'y'}))": "ShardingTypeError",
    "w ** 2": "NotImplementedError",
    "w.T": "float32[6,4]{R:x}",
    "w.sum()": "float32[]{R:x}",
    "w.mean()": "float32[]{R:x}",
    "w.sum(0)": "float32[6]{R:x}",
    "w.max()": "ValueError",
    "xpr.nn.softmax(w)": "ValueError",
    "w.reshape(2, 2, 6)": "float32[2,2,6]{R:x}",
    "lax.slice(w, (0, 0), (2, 6))": "float32[2,6]{R:x}",
    "lax.dynamic_slice(w, (0, 0), (2, 2))": "float32[2,2]{R:x}",
    "w[jnp.array([0, 1])]": "ValueError",
    "w.at[ids].get(out_sharding=P('x'))": "float32[4@x,6]",
    "xpr.nn.one_hot(ids, 4) @ w": "float32[4@x,6]",
    "xpr.device_put(w, P())": "float32[4,6]",
    "xpr.device_put(w, P('x'))": "float32[4@x,6]",
    "jnp.concatenate([w, w])": "float32[8,6]{R:x}",
    # programs
    "xpr.jit(lambda x: x + x)(u)": "float32[8,6]{U:x}",
    "lax.cond(True, lambda x: x + x, lambda x: x, u)": "float32[8,6]{U:x}",
    "lax.fori_loop(0, 3, lambda i, x: x + x, u)": "float32[8,6]{U:x}",
    "lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + u), (0, u))[1]":
    "float32[8,6]{U:x}",
    "lax.scan(lambda c, x: (c + u, None), jnp.zeros((8, 6)), None, length=3)[0]":
    "ShardingTypeError",
    # derivatives
    "xpr.grad(lambda w: (h @ w).sum())(w)": "float32[4,6]{U:x}",
    "xpr.jit(xpr.grad(lambda w: (h @ w).sum()))(w)": "float32[4,6]{U:x}",
    "xpr.grad(lambda w: (h @ reshard(w, P(reduced={'x'}))).sum())(reshard(w, P()))":
    "float32[4,6]",
    "xpr.grad(lambda w: (h @ reshard(w, P(reduced={'x'}))).sum())(reshard(w, P('x')))":
    "float32[4@x,6]",
    "xpr.grad(lambda w: xpr.checkpoint(lambda w: (h @ w).sum())(w))(w)": "float32[4,6]{U:x}",
    "xpr.grad(lambda w: (w * w).sum())(w)": "float32[4,6]{U:x}",
    "xpr.grad(lambda x: x.sum())(v)": "float32[8]{R:x}",
    "xpr.grad(lambda w: reshard(w, P('x')).sum())(w)": "float32[4,6]{U:x}",
    "xpr.grad(lambda a: reshard(jnp.dot(a, b, out_sharding=P(unreduced={'x'})), P()).sum())(a)":
    "float32[8,4@x]",
    "xpr.vjp(lambda w: w * w, w)[1](reshard(w, P(unreduced={'x'})))[0]": "float32[4,6]{U:x}",
    "xpr.vjp(lambda w: w * w, w)[1](w)[0]": "ValueError",
    "xpr.jvp(lambda w: h @ w, (w,), (w,))[1]": "float32[8@x,6]",
    "xpr.jvp(xpr.grad(lambda w: jnp.tanh(h @ w).sum()), (w,), (w,))[1]": "float32[4,6]{U:x}",
    "xpr.linear_transpose(lambda w: h @ w, w)(h @ w)[0]": "float32[4,6]{U:x}",
    "xpr.grad(lambda e: e.at[ids].get(out_sharding=P('x')).sum())(w)": "float32[4,6]{U:x}",
}  # fmt: skip


def _outcome(program: Callable[[], Any]) -> str:
    try:
        return str(xpr.typeof(program()))
    except (ValueError, NotImplementedError, xpr.errors.ShardingTypeError) as error:
        return type(error).__name__


def test_types_are_those_of_jax() -> None:
    names = {"xpr": xpr, "jnp": jnp, "lax": lax, "np": np, "P": P, "reshard": reshard}
    scope = {**names, "auto_axes": auto_axes, **_operands()}
    wrong: list[str] = []
    for program, wanted in TYPES.items():
        found = _outcome(lambda program=program: eval(program, scope))
        if found != wanted:
            wrong.append(f"{program}: {found}, not {wanted}")
    assert not wrong, "\n".join(wrong)


def _close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=1e-5)


def _parts(x: Any) -> list[Any]:
    return [np.asarray(s.data) for s in x.addressable_shards]


def test_each_device_holds_its_part_of_a_product() -> None:
    o = _operands()
    first, second = A[:, :2] @ B[:2], A[:, 2:] @ B[2:]
    for u in (o["u"], jnp.dot(o["a"], o["b"], out_sharding=S)):
        for part, wanted in zip(_parts(u), [first, first, second, second], strict=True):
            _close(part, wanted)
        _close(reshard(u, P()), A @ B)
    for spec in (P("x"), P("y", "x"), P(None, "y"), P(reduced={"x"}), P(("x", "y"))):
        _close(reshard(o["u"], spec), A @ B)
    _close(reshard(reshard(o["u"], P(unreduced={"x", "y"})), P()), A @ B)


def test_a_whole_value_is_split_into_a_sum_without_communication() -> None:
    x = np.arange(4, dtype=np.float32)
    nothing = np.zeros(4, np.float32)
    for spec, wanted in (
        (P(), [x, x, nothing, nothing]),
        (P("x"), [[0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 2, 3], [0, 0, 2, 3]]),
    ):
        given = put(x, *spec)
        move = xpr.jit(lambda v: reshard(v, P(unreduced={"x"})))
        for part, own in zip(_parts(move(given)), wanted, strict=True):
            _close(part, own)
        assert "no communication" in str(move.lower(given).communication())
    cut = put(np.arange(8, dtype=np.float32), ("x", "y"))
    _close(reshard(reshard(cut, P(unreduced={"x"})), P()), np.arange(8))
    _close(reshard(reshard(cut, P(unreduced={"x", "y"})), P()), np.arange(8))
    # What is made is made by each device.
    ones = jnp.ones((4,), out_sharding=P(unreduced={"x"}))
    _close(reshard(ones, P()), np.full(4, 2))


def test_operations_on_parts_of_sums() -> None:
    whole = A @ B
    o = _operands()

    def programs(u: Any, big: Any) -> list[Any]:
        found = [
            u + u,
            u * big,
            u.T,
            u.sum(0),
            jnp.concatenate([u, u]),
            u[2:4],
            u.reshape(48),
            jnp.roll(u, 1, 0),
            xpr.vmap(lambda r: r + r)(u),
            lax.dynamic_update_slice(u, u[:2], (3, 0)),
            jnp.pad(u, 1),
        ]
        return [reshard(x, P()) for x in found]

    updated = whole.copy()
    updated[3:5] = whole[:2]
    wanted = [
        2 * whole,
        2 * whole,
        whole.T,
        whole.sum(0),
        np.concatenate([whole, whole]),
        whole[2:4],
        whole.reshape(48),
        np.roll(whole, 1, 0),
        2 * whole,
        updated,
        np.pad(whole, 1),
    ]
    for found in (programs(o["u"], o["big"]), xpr.jit(programs)(o["u"], o["big"])):
        for x, y in zip(found, wanted, strict=True):
            _close(x, y)


def _sent(fun: Callable[..., Any], *args: Any) -> list[tuple[str, int]]:
    found = xpr.jit(fun).lower(*args).communication()
    return [(t.kind, t.times) for t in found.transfers]


def test_a_sum_over_microbatches_is_completed_once() -> None:
    xs = np.arange(96, dtype=np.float32).reshape(3, 8, 4) / 8
    b, given = put(B, "x"), put(xs, None, None, "x")

    def total(start: Any, xs: Any, b: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            return c + jnp.dot(x, b, out_sharding=S), None

        return reshard(lax.scan(step, start, xs)[0], P("x"))

    start = jnp.zeros((8, 6), out_sharding=S)
    _close(xpr.jit(total)(start, given, b), (xs @ B).sum(0))
    assert _sent(total, start, given, b) == [("reduce_scatter", 1)]


def _loss(h: Any, w: Any) -> Any:
    return jnp.sin(h @ w).sum()


GRADIENT = (A / 8).T @ np.cos(A / 8 @ B)


def test_gradients_of_reduced_values_are_unreduced() -> None:
    h, w = put(A / 8, "x"), put(B, reduced={"x"})
    gradient = xpr.grad(_loss, argnums=1)
    for found in (gradient(h, w), xpr.jit(gradient)(h, w)):
        _close(reshard(found, P()), GRADIENT)
        half = (A[:4] / 8).T @ np.cos(A[:4] / 8 @ B)
        _close(_parts(found)[0], half)
    assert _sent(gradient, h, w) == []
    value, found = xpr.value_and_grad(_loss, argnums=1)(h, w)
    assert str(xpr.typeof(value)) == "float32[]"
    _close(value, np.sin(A / 8 @ B).sum())
    _close(reshard(found, P()), GRADIENT)


def test_a_sharded_parameter_is_gathered_and_its_gradient_scattered() -> None:
    h, w = put(A / 8, "x"), put(B, "x")

    def sharded(h: Any, w: Any) -> Any:
        return w - 0.5 * xpr.grad(lambda w: _loss(h, reshard(w, P(reduced={"x"}))))(w)

    _close(xpr.jit(sharded)(h, w), B - 0.5 * GRADIENT)
    assert _sent(sharded, h, w) == [("all_gather", 1), ("reduce_scatter", 1)]


def test_gradients_through_programs() -> None:
    h = put(A / 8, "x")
    weights = np.arange(48, dtype=np.float32).reshape(3, 4, 4) / 64
    w = put(weights, reduced={"x"})

    def deep(w: Any) -> Any:
        return lax.scan(lambda h, w: (jnp.tanh(h @ w), None), h, w)[0].sum()

    found = xpr.jit(xpr.grad(deep))(w)
    assert str(xpr.typeof(found)) == "float32[3,4,4]{U:x}"
    alone = xpr.jit(xpr.grad(lambda w, h: _deep_alone(w, h)))(jnp.asarray(weights), A / 8)
    _close(reshard(found, P()), np.asarray(alone))
    shared = put(B[:, :4], reduced={"x"})

    def repeated(w: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, h: jnp.tanh(h @ w), h).sum()

    found = xpr.jit(xpr.grad(repeated))(shared)
    assert str(xpr.typeof(found)) == "float32[4,4]{U:x}"
    alone = xpr.jit(xpr.grad(lambda w: _deep_alone(jnp.broadcast_to(w, (3, 4, 4)), A / 8)))
    _close(reshard(found, P()), np.asarray(alone(jnp.asarray(B[:, :4]))))


def _deep_alone(w: Any, h: Any) -> Any:
    for i in range(3):
        h = jnp.tanh(h @ w[i])
    return h.sum()


def test_gradient_of_an_embedding_is_unreduced() -> None:
    table, ids = put(A, reduced={"x"}), np.array([1, 3, 3, 7])

    def loss(table: Any, ids: Any) -> Any:
        return (table.at[ids].get(out_sharding=P("x")) ** 2).sum()

    wanted = np.zeros_like(A)
    np.add.at(wanted, ids, 2 * A[ids])
    found = xpr.jit(xpr.grad(loss))(table, put(ids, "x"))
    assert str(xpr.typeof(found)) == "float32[8,4]{U:x}"
    _close(reshard(found, P()), wanted)


def test_sums_that_are_held_pass_through_jit(mesh: Any) -> None:
    u = _operands()["u"]
    place = NamedSharding(mesh, P(unreduced={"x"}))
    x = np.arange(2, dtype=np.float32)
    made = xpr.jit(lambda x: x, out_shardings=place)(jnp.asarray(x))
    for part, wanted in zip(_parts(made), [x, x, 0 * x, 0 * x], strict=True):
        _close(part, wanted)
    _close(xpr.jit(lambda: u, out_shardings=NamedSharding(mesh, P()))(), A @ B)
    _close(xpr.jit(lambda: reshard(u, P("x")))(), A @ B)  # closed over
    assert str(xpr.typeof(xpr.jit(operator.pos, in_shardings=place)(u))) == "float32[8,6]{U:x}"
    with pytest.raises(ValueError, match="does not match the sharding on the respective arg"):
        xpr.jit(operator.pos, in_shardings=NamedSharding(mesh, P()))(u)
    w = put(B, reduced={"x"})
    pull = xpr.vjp(lambda w: w * w, w)[1]
    with pytest.raises(
        ValueError, match=r"got float32\[4,6\]\{R:x\}, but expected float32\[4,6\]\{U:x\}"
    ):
        pull(w)


def test_an_unreduced_array_has_parts_and_no_values() -> None:
    u = _operands()["u"]
    shown = (
        "Array(shape=(8, 6), dtype=float32, sharding=NamedSharding(mesh=Mesh('x': 2, 'y': 2, "
        "axis_types=(Explicit, Explicit)), spec=P(None, None, unreduced={'x'}), "
        "memory_kind=device))"
    )
    assert repr(u) == str(u) == f"{u}" == shown
    assert not u.is_fully_replicated
    assert [s.device.id for s in u.addressable_shards] == [0, 1, 2, 3]
    _close(u.addressable_data(1), A[:, :2] @ B[:2])
    for read in (np.asarray, xpr.device_get, lambda x: x.tolist(), lambda x: x.sum().item()):
        with pytest.raises(NotImplementedError, match="unreduced array are on no device"):
            read(u)
    shard = u.addressable_shards[0]
    for name in ("index", "replica_id"):
        with pytest.raises(NotImplementedError, match=f"{name}: no part of an unreduced array"):
            getattr(shard, name)
    with pytest.raises(NotImplementedError, match="no part of an unreduced array"):
        u.sharding.devices_indices_map((8, 6))
    w = put(B, reduced={"x"})
    _close(w, B)
    assert repr(w).startswith("Array([[")


def test_shardings_that_are_not_explicit_have_no_sums() -> None:
    auto = xpr.make_mesh((2,), ("x",), axis_types=(xpr.sharding.AxisType.Auto,))
    with pytest.raises(ValueError, match="Unreduced axes can only refer to mesh axes"):
        NamedSharding(auto, P(unreduced={"x"}))
    with pytest.raises(ValueError, match="Reduced axes can only refer to mesh axes"):
        NamedSharding(auto, P(reduced={"x"}))


def test_custom_derivatives_have_cotangents_of_the_right_kind() -> None:
    h, w = put(A / 8, "x"), put(B, reduced={"x"})

    def product(spec: P) -> Any:
        @xpr.custom_vjp
        def f(w: Any) -> Any:
            return h @ w

        f.defvjp(lambda w: (h @ w, None), lambda _, ct: (jnp.dot(h.T, ct, out_sharding=spec),))
        return f

    good = product(P(None, None, unreduced={"x"}))
    found = xpr.grad(lambda w: jnp.sin(good(w)).sum())(w)
    assert str(xpr.typeof(found)) == "float32[4,6]{U:x}"
    _close(reshard(found, P()), GRADIENT)
    bad = product(P(None, None))
    with pytest.raises(ValueError, match="so the unreduced axes do not match"):
        xpr.grad(lambda w: bad(w).sum())(w)


def test_products_and_what_they_depend_on() -> None:
    o = _operands()

    def loss(u: Any, r: Any) -> Any:
        return reshard(u * r, P()).sum()

    gradient = xpr.grad(loss, argnums=(0, 1))
    for pull in (gradient, xpr.jit(gradient)):
        of_u, of_r = pull(o["u"], o["big"])
        assert str(xpr.typeof(of_u)).endswith("{R:x}")
        assert str(xpr.typeof(of_r)).endswith("{U:x}")
        _close(of_u, np.full((8, 6), 2))
        _close(reshard(of_r, P()), A @ B)
    h, w = put(A / 8, "x"), put(B, reduced={"x"})
    scaled = xpr.grad(lambda w: _loss(h, 2.0 * jnp.tanh(w)))
    wanted = (A / 8).T @ np.cos(A / 8 @ (2 * np.tanh(B))) * 2 * (1 - np.tanh(B) ** 2)
    for pull in (scaled, xpr.jit(scaled)):
        _close(reshard(pull(w), P()), wanted)
    assert _sent(scaled, w) == []


def test_sums_along_explicit_axes_of_a_mesh_that_has_others() -> None:
    kinds = (xpr.sharding.AxisType.Explicit, xpr.sharding.AxisType.Auto)
    mixed = xpr.make_mesh((2, 2), ("x", "y"), axis_types=kinds)
    with xpr.set_mesh(mixed):
        a, b = put(A, None, "x"), put(B, "x")
        u = xpr.jit(lambda a, b: jnp.dot(a, b, out_sharding=P(unreduced={"x"})))(a, b)
        assert str(xpr.typeof(u)) == "float32[8,6]{U:x}"
        _close(reshard(u + u, P()), 2 * (A @ B))


def test_assembled_from_parts(mesh: Any) -> None:
    place = NamedSharding(mesh, P(unreduced={"x"}))
    parts = [
        xpr.device_put(np.full(3, i + 1, np.float32), d) for i, d in enumerate(mesh.devices.flat)
    ]
    # Devices 0 and 1 are the same place along x, and have the same part.
    parts[1], parts[3] = (xpr.device_put(np.asarray(parts[i]), parts[i + 1].device) for i in (0, 2))
    x = xpr.make_array_from_single_device_arrays((3,), place, parts)
    _close(reshard(x, P()), np.full(3, 1 + 3))
    with pytest.raises(NotImplementedError, match="no part of an unreduced array"):
        xpr.make_array_from_callback((3,), place, lambda _: np.zeros(3, np.float32))


def test_exported_programs_keep_sums_open(mesh: Any) -> None:
    u, w = _operands()["u"], put(B, reduced={"x"})

    def program(u: Any, w: Any) -> Any:
        return u + u, jnp.tanh(w)

    made = xpr.export.export(xpr.jit(program))(u, w)
    again = xpr.export.deserialize(made.serialize())
    for exported in (made, again):
        twice, bent = exported.call(u, w)
        assert str(xpr.typeof(twice)) == "float32[8,6]{U:x}"
        assert str(xpr.typeof(bent)) == "float32[4,6]{R:x}"
        _close(reshard(twice, P()), 2 * (A @ B))
        _close(bent, np.tanh(B))
