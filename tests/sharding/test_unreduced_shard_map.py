"""`shard_map` with values that are parts of sums: kinds of values, collectives, derivatives.

`KINDS` is what JAX 0.10.2 says of the same bodies on a mesh (x: 4): the type that the body gives,
or the name of the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.core.aval import ManualAxisType
from xpr.sharding import PartitionSpec as P
from xpr.sharding import reshard

N = np.arange(32, dtype=np.float32).reshape(8, 4)
PARTS = N.reshape(4, 2, 4)
SUM, RED = P(unreduced={"x"}), P(reduced={"x"})


@pytest.fixture(autouse=True)
def mesh() -> Iterator[Any]:
    made = xpr.make_mesh((4,), ("x",))
    with xpr.set_mesh(made):
        yield made


def put(value: Any, *entries: Any, **sets: Any) -> Any:
    return reshard(jnp.asarray(value), P(*entries, **sets))


def unreduced(x: Any) -> Any:
    return lax.pcast(x, "x", to="unreduced")


def cast(to: str) -> Callable[[Any], Any]:
    return lambda x: lax.pcast(x, "x", to=to)


def _gathered(x: Any) -> Any:
    return lax.all_gather(x, "x", tiled=True, to="reduced")


# Body, operand ("v" varies, "u" is unreduced, "r" reduced, "n" the same for all), specs of the
# results, what comes of it.
KINDS: list[tuple[Callable[[Any], Any], str, P, str]] = [
    (unreduced, "v", SUM, "float32[2,4]{U:x}"),
    (unreduced, "u", SUM, "ValueError"),
    (unreduced, "n", SUM, "ValueError"),
    (unreduced, "r", SUM, "ValueError"),
    (cast("varying"), "v", P("x"), "ValueError"),
    (cast("varying"), "u", P("x"), "ValueError"),
    (cast("varying"), "r", P("x"), "float32[8,4]{V:x}"),
    (cast("varying"), "n", P("x"), "float32[8,4]{V:x}"),
    (cast("reduced"), "v", RED, "ValueError"),
    (cast("reduced"), "u", RED, "ValueError"),
    (cast("reduced"), "n", RED, "float32[8,4]{R:x}"),
    (cast("other"), "n", RED, "ValueError"),
    (lambda x: lax.psum(x, "x"), "u", P(), "float32[8,4]"),
    (lambda x: lax.psum(x, "x"), "r", P(), "ValueError"),
    (lambda x: lax.pmean(unreduced(x), "x"), "v", P(), "float32[2,4]"),
    (lambda x: lax.psum_scatter(x, "x", tiled=True), "u", P("x"), "float32[2,4]{V:x}"),
    (lambda x: lax.psum_scatter(x[:4], "x"), "u", P("x"), "float32[4]{V:x}"),
    (lambda x: lax.psum_scatter(x[:2], "x", tiled=True), "u", P("x"), "ValueError"),
    (lambda x: lax.pmax(x, "x"), "u", P(), "ValueError"),
    (lambda x: lax.ppermute(x, "x", [(0, 1)]), "u", P(), "ValueError"),
    (lambda x: lax.all_gather(x, "x"), "u", P("x"), "ValueError"),
    (_gathered, "v", RED, "float32[8,4]{R:x}"),
    (_gathered, "n", RED, "ValueError"),
    (lambda x: lax.all_gather(x, "x", to="reduced"), "v", RED, "float32[4,2,4]{R:x}"),
    (lambda x: lax.all_gather(x, "x", to="nobody"), "v", RED, "ValueError"),
    (lambda x: x, "r", RED, "float32[8,4]{R:x}"),
    (lambda x: x, "r", P(), "ValueError"),
    (lambda x: x, "u", SUM, "float32[8,4]{U:x}"),
    (lambda x: x, "u", P(), "ValueError"),
    (lambda x: x, "n", SUM, "ValueError"),
    (lambda x: x, "n", RED, "ValueError"),
    (lambda x: x, "v", RED, "ValueError"),
    (lambda x: x, "v", SUM, "float32[2,4]{V:x}"),
    (lambda x: x + x, "u", SUM, "float32[8,4]{U:x}"),
    (lambda x: x.sum(), "u", SUM, "float32[]{U:x}"),
    (lambda x: x[:2], "u", SUM, "float32[2,4]{U:x}"),
    (lambda x: x * 2, "u", SUM, "ShardingTypeError"),
    (lambda x: -x, "u", SUM, "NotImplementedError"),
    (lambda x: x + lax.axis_index("x"), "u", P("x"), "ValueError"),
    (lambda x: x * x, "r", RED, "float32[8,4]{R:x}"),
    (lambda x: x + jnp.ones((8, 4)), "r", RED, "ShardingTypeError"),
    (jnp.tanh, "r", RED, "float32[8,4]{R:x}"),
]


def test_kinds_of_values_are_those_of_jax() -> None:
    operands = {"v": put(N, "x"), "u": put(N, unreduced={"x"}), "n": put(N)}
    operands["r"] = put(N, reduced={"x"})
    wrong: list[str] = []
    for i, (body, operand, spec, wanted) in enumerate(KINDS):
        seen: list[str] = []

        def noting(x: Any, body: Any = body, seen: list[str] = seen) -> Any:
            found = body(x)
            seen.append(str(xpr.typeof(found)))
            return found

        try:
            xpr.make_jaxpr(xpr.shard_map(noting, out_specs=spec))(operands[operand])
            found = seen[0]
        except (ValueError, NotImplementedError, xpr.errors.ShardingTypeError) as error:
            found = type(error).__name__
        if found != wanted:
            wrong.append(f"{i}: {found}, not {wanted}")
    assert not wrong, "\n".join(wrong)


def _close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=1e-5)


def test_sums_are_completed_inside_and_outside() -> None:
    v, u = put(N, "x"), put(N, unreduced={"x"})
    for jit in (xpr.jit, lambda f: f):
        found = jit(xpr.shard_map(unreduced, out_specs=SUM))(v)
        assert str(xpr.typeof(found)) == "float32[2,4]{U:x}"
        for shard, wanted in zip(found.addressable_shards, PARTS, strict=True):
            _close(shard.data, wanted)
        _close(reshard(found, P()), PARTS.sum(0))
        _close(jit(xpr.shard_map(lambda x: lax.psum(x, "x"), out_specs=P()))(u), N)
        scatter = xpr.shard_map(lambda x: lax.psum_scatter(x, "x", tiled=True), out_specs=P("x"))
        _close(jit(scatter)(u), N)
    implied = xpr.shard_map(lambda x: x, out_specs=SUM)  # what varies is taken for parts
    _close(reshard(implied(v), P()), PARTS.sum(0))
    unchecked = xpr.shard_map(lambda x: x, in_specs=P("x"), out_specs=SUM, check_vma=False)
    _close(reshard(xpr.jit(unchecked)(v), P()), PARTS.sum(0))
    whole = xpr.shard_map(lambda x: lax.psum(x, "x"), in_specs=SUM, out_specs=P(), check_vma=False)
    _close(xpr.jit(whole)(u), N)
    both = xpr.shard_map(lambda r, u: r * u, out_specs=SUM)
    _close(reshard(both(put(N, reduced={"x"}), u), P()), N * N)


def test_casts_are_put_in_as_in_jax() -> None:
    r, v = put(N, reduced={"x"}), put(N, "x")
    jaxpr = xpr.make_jaxpr(xpr.shard_map(lambda w, x: x @ w.T, out_specs=P("x")))(r, v)
    text = str(jaxpr)
    assert "in_specs=(P(None, None, reduced={'x'}), P('x', None))" in text
    assert "f32[4,8]{V:x} = reduced_vary_cast[axes=('x',)]" in text


def test_manual_types() -> None:
    seen: list[Any] = []

    def body(x: Any) -> Any:
        u = unreduced(x)
        seen.append(xpr.typeof(u))
        return lax.psum(u, "x")

    xpr.shard_map(body, out_specs=P())(put(N, "x"))
    assert seen[0].mat == ManualAxisType(unreduced={"x"})
    assert seen[0].str_short() == "f32[2,4]{U:x}"


def _product(check: bool) -> Callable[[Any, Any], Any]:
    given: dict[str, Any] = {} if check else {"in_specs": (RED, P("x"))}
    f = xpr.shard_map(lambda w, x: x @ w.T, out_specs=P("x"), check_vma=check, **given)
    return lambda w, x: jnp.sin(f(w, x)).sum()


def test_gradients_of_reduced_operands_are_unreduced() -> None:
    w, x = put(N / 32, reduced={"x"}), put(N / 32, "x")
    wanted = np.cos(N @ N.T / 1024).T @ (N / 32)
    for check in (True, False):
        for jit in (xpr.jit, lambda f: f):
            found = jit(xpr.grad(_product(check)))(w, x)
            assert str(xpr.typeof(found)) == "float32[8,4]{U:x}"
            _close(reshard(found, P()), wanted)
        sent = xpr.jit(xpr.grad(_product(check))).lower(w, x).communication()
        assert not sent.transfers


def test_gradients_of_collectives() -> None:
    v = put(N / 32, "x")
    weights = jnp.asarray(np.arange(8, dtype=np.float32)[:, None])

    def gathered(x: Any, w: Any) -> Any:  # a sharded parameter, gathered for a while
        whole = lax.pcast(_gathered(x), "x", to="varying")
        return (jnp.sin(whole) * w * (1 + lax.axis_index("x"))).sum()[None]

    f = xpr.shard_map(gathered, in_specs=(P("x"), P()), out_specs=P("x"))
    found = xpr.jit(xpr.grad(lambda x: f(x, reshard(weights, P())).sum()))
    _close(found(v), 10 * np.cos(N / 32) * np.arange(8)[:, None])
    kinds = [t.kind for t in found.lower(v).communication().transfers]
    assert kinds == ["all_gather", "reduce_scatter"]

    def summed(x: Any) -> Any:
        return jnp.sin(lax.psum(unreduced(x), "x"))

    def scattered(x: Any) -> Any:
        return jnp.sin(lax.psum_scatter(jnp.concatenate([unreduced(x)] * 2), "x", tiled=True))

    total = PARTS.sum(0) / 32
    whole = np.tile(np.cos(total), (4, 1))
    for body, spec, wanted in ((summed, P(), whole), (scattered, P("x"), 2 * whole)):
        g = xpr.shard_map(body, out_specs=spec)
        for jit in (xpr.jit, lambda f: f):
            _close(jit(xpr.grad(lambda x, g=g: g(x).sum()))(v), wanted)


def test_loops_remat_and_vmap() -> None:
    v, r = put(N / 32, "x"), put(N / 32, reduced={"x"})

    def accumulated(x: Any) -> Any:
        start = unreduced(jnp.zeros_like(x[0]))
        return lax.scan(lambda c, row: (c + unreduced(row), None), start, x)[0]

    found = xpr.jit(xpr.shard_map(accumulated, out_specs=SUM))(v)
    _close(reshard(found, P()), N.sum(0) / 32)
    remat = xpr.shard_map(xpr.checkpoint(lambda w, x: jnp.sin(x @ w.T)), out_specs=P("x"))
    wanted = np.cos(N @ N.T / 1024).T @ (N / 32)
    _close(reshard(xpr.jit(xpr.grad(lambda w: remat(w, v).sum()))(r), P()), wanted)
    rows = xpr.shard_map(xpr.vmap(lambda x: lax.psum(unreduced(x), "x")), out_specs=P())
    _close(xpr.jit(rows)(v), PARTS.sum(0) / 32)
    gathers = xpr.shard_map(xpr.vmap(_gathered, in_axes=1, out_axes=1), out_specs=RED)
    _close(xpr.jit(gathers)(v), N / 32)
    scatters = xpr.vmap(lambda x: lax.psum_scatter(x, "x", tiled=True), in_axes=1, out_axes=1)
    u = put(N, unreduced={"x"})
    _close(xpr.jit(xpr.shard_map(scatters, out_specs=P("x")))(u), N)
    batch = xpr.vmap(
        xpr.shard_map(lambda x: lax.psum(unreduced(x), "x"), in_specs=P("x"), out_specs=P())
    )
    _close(xpr.jit(batch)(np.stack([N, 2 * N])), np.stack([PARTS.sum(0), 2 * PARTS.sum(0)]))


def test_on_one_device() -> None:
    """What the reference rule makes of parts of sums."""
    f = xpr.shard_map(lambda a, b: (a + unreduced(b), a), in_specs=(SUM, P("x")), out_specs=SUM)
    u, v = np.arange(8, dtype=np.float32).reshape(2, 4), N
    jaxpr = xpr.make_jaxpr(f)(u, v).jaxpr
    (eqn,) = jaxpr.eqns
    total, same = eqn.primitive.reference(u, v, **eqn.params)
    _close(total, u + PARTS.sum(0))
    _close(same, u)


def test_what_is_refused() -> None:
    v, u = put(N, "x"), put(N, unreduced={"x"})
    with pytest.raises(
        ValueError, match=r"does not match the specs of the input: P\(None, None, unr"
    ):
        xpr.shard_map(lambda x: x, in_specs=P(), out_specs=P())(u)
    with pytest.raises(ValueError, match=r"does not match the specs of the input: P\('x', None\)"):
        xpr.shard_map(lambda x: x, in_specs=RED, out_specs=P())(v)
    with pytest.raises(
        ValueError, match="vary_unreduced_cast only accepts inputs that are varying"
    ):
        xpr.shard_map(lambda x: x, out_specs=SUM)(put(N))
    with pytest.raises(ValueError, match="equal to the unreduced axes of the result"):
        xpr.shard_map(lambda x: x, out_specs=P())(u)
    with pytest.raises(ValueError, match="Unsupported pcast from=unreduced, to='varying'"):
        xpr.shard_map(lambda x: lax.pcast(x, "x", to="varying"), out_specs=P("x"))(u)
    with pytest.raises(ValueError, match="pvary cannot accept args which are unreduced"):
        xpr.shard_map(lambda x: lax.pmax(x, "x"), out_specs=P())(u)
    with pytest.raises(NotImplementedError, match="all_gather: axis_index_groups is not supported"):
        xpr.shard_map(
            lambda x: lax.all_gather(x, "x", to="reduced", axis_index_groups=[[0, 1], [2, 3]]),
            out_specs=RED,
        )(v)


def test_two_axes() -> None:
    mesh = xpr.make_mesh((2, 2), ("x", "y"))
    with xpr.set_mesh(mesh):
        a = put(N, "x", "y")

        def body(x: Any) -> Any:
            u = unreduced(x)
            return u + u

        f = xpr.shard_map(body, out_specs=P(None, "y", unreduced={"x"}))
        found = xpr.jit(f)(a)
        assert str(xpr.typeof(found)) == "float32[4,4@y]{U:x}"
        _close(reshard(found, P()), 2 * (N[:4] + N[4:]))
        along_y = xpr.shard_map(
            lambda x: lax.all_gather(lax.pcast(x, "y", to="unreduced"), "x", tiled=True),
            in_specs=P("x", "y"),
            out_specs=P("x", unreduced={"y"}),
        )
        assert str(xpr.typeof(xpr.jit(along_y)(a))) == "float32[16@x,2]{U:y}"
        mixed = xpr.shard_map(lambda x: lax.psum(unreduced(x), ("x", "y")), out_specs=P())
        with pytest.raises(ValueError, match=r"input state: \['unreduced', 'varying'\]"):
            mixed(a)
        r = put(N[:4, :2], reduced={"x"})
        product = xpr.shard_map(lambda w, x: w * x, out_specs=P("x", "y"))
        with pytest.raises(ValueError, match="pvary cannot accept args which are reduced"):
            product(r, a)
        part = xpr.shard_map(lambda x: x, out_specs=SUM, axis_names={"x"})
        with pytest.raises(NotImplementedError, match="in full manual mode"):
            part(put(N, "x"))


def test_meshes_that_are_not_explicit_have_no_sums() -> None:
    auto = xpr.make_mesh((2,), ("x",), axis_types=(xpr.sharding.AxisType.Auto,))
    with xpr.set_mesh(auto):
        with pytest.raises(ValueError, match="contains axis names all of type `Explicit`"):
            xpr.shard_map(lambda x: x, in_specs=P("x"), out_specs=SUM)(N)
