"""`shard_map` on eight devices: collectives, derivatives and transformations against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
from xpr import lax
from xpr import numpy as jnp
from xpr.experimental.shard_map import shard_map as first_shard_map
from xpr.primitives._shard_bodies import on_one_device
from xpr.sharding import Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P

MESH = Mesh(np.array(xpr.devices("cpu")[:8]).reshape(4, 2), ("x", "y"))
LINE = Mesh(np.array(xpr.devices("cpu")[:8]), ("x",))
A = np.random.default_rng(0).normal(size=(8, 8, 3)).astype("f4")

# A collective on a line of devices: the result of each device from the parts of all of them.
Oracle = Callable[[list[np.ndarray]], list[np.ndarray]]


def over(f: Any, in_specs: Any, out_specs: Any, mesh: Mesh = LINE, **options: Any) -> Any:
    return xpr.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)


def close(found: Any, wanted: Any, tolerance: float = 2e-5) -> None:
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=tolerance, atol=tolerance)


def everybody(f: Callable[[list[np.ndarray]], np.ndarray]) -> Oracle:
    return lambda parts: [f(parts)] * len(parts)


def _groups_of_two(f: Callable[[list[np.ndarray]], np.ndarray]) -> Oracle:
    return lambda parts: [f(parts[i // 2 * 2 : i // 2 * 2 + 2]) for i in range(len(parts))]


def _exchanged(parts: list[np.ndarray]) -> list[np.ndarray]:
    pieces = [np.split(p, len(parts), axis=1) for p in parts]
    return [np.concatenate([p[i] for p in pieces], axis=2) for i in range(len(parts))]


def _exchanged_in_pairs(parts: list[np.ndarray]) -> list[np.ndarray]:
    out = []
    for i in range(len(parts)):
        first = i // 2 * 2
        pieces = [np.split(p, 2, axis=1)[i % 2] for p in parts[first : first + 2]]
        out.append(np.concatenate(pieces, axis=1))
    return out


def _scattered(parts: list[np.ndarray]) -> list[np.ndarray]:
    return list(np.split(sum(parts), len(parts), axis=1))


def _shifted(parts: list[np.ndarray]) -> list[np.ndarray]:
    return [np.zeros_like(parts[0]), *parts[:-1]]


PAIRS = [[0, 1], [2, 3], [4, 5], [6, 7]]
# Each part is [1, 8, 3]; each result has a first axis along which those of the devices are joined.
COLLECTIVES: dict[str, tuple[Callable[[Any], Any], Oracle]] = {
    "psum": (lambda a: lax.psum(a, "x"), everybody(sum)),  # pyright: ignore
    "pmean": (lambda a: lax.pmean(a, "x"), everybody(lambda p: sum(p) / 8)),  # pyright: ignore
    "pmax": (lambda a: lax.pmax(a, "x"), everybody(lambda p: np.max(p, axis=0))),
    "pmin": (lambda a: lax.pmin(a, "x"), everybody(lambda p: np.min(p, axis=0))),
    "all_gather": (
        lambda a: lax.all_gather(a, "x", axis=1),
        everybody(lambda p: np.stack(p, axis=1)),
    ),
    "all_gather_tiled": (
        lambda a: lax.all_gather(a, "x", axis=2, tiled=True),
        everybody(lambda p: np.concatenate(p, axis=2)),
    ),
    "all_gather_invarying": (
        lambda a: lax.all_gather(a, "x", axis=1, to="invarying"),
        everybody(lambda p: np.stack(p, axis=1)),
    ),
    "psum_scatter": (
        lambda a: lax.psum_scatter(a, "x", scatter_dimension=1),
        lambda p: [s[:, 0] for s in _scattered(p)],
    ),
    "psum_scatter_tiled": (
        lambda a: lax.psum_scatter(a, "x", scatter_dimension=1, tiled=True),
        _scattered,
    ),
    "all_to_all": (
        lambda a: lax.all_to_all(a, "x", 1, 2),
        lambda p: [np.stack([q[:, i] for q in p], axis=2) for i in range(8)],
    ),
    "all_to_all_tiled": (lambda a: lax.all_to_all(a, "x", 1, 2, tiled=True), _exchanged),
    "pswapaxes": (
        lambda a: lax.pswapaxes(a, "x", 1),
        lambda p: [np.stack([q[:, i] for q in p], axis=1) for i in range(8)],
    ),
    "ppermute": (lambda a: lax.ppermute(a, "x", [(i, i + 1) for i in range(7)]), _shifted),
    "pshuffle": (lambda a: lax.pshuffle(a, "x", list(range(7, -1, -1))), lambda p: p[::-1]),
    "pbroadcast": (lambda a: lax.pbroadcast(a, "x", 5), everybody(lambda p: p[5])),
    "axis_index": (
        lambda a: a + lax.axis_index("x"),
        lambda p: [q + i for i, q in enumerate(p)],
    ),
    "axis_size": (
        lambda a: a * lax.axis_size("x") * lax.psum(1, "x"),
        lambda p: [q * 64 for q in p],
    ),
}  # fmt: skip
GROUPED: dict[str, tuple[Callable[[Any], Any], Oracle]] = {
    "psum": (lambda a: lax.psum(a, "x", axis_index_groups=PAIRS), _groups_of_two(sum)),  # pyright: ignore
    "psum_uneven": (
        lambda a: lax.psum(a, "x", axis_index_groups=[[0, 7, 2], [1, 3, 4, 5, 6]]),
        lambda p: [
            p[0] + p[7] + p[2] if i in (0, 7, 2) else p[1] + p[3] + p[4] + p[5] + p[6]
            for i in range(8)
        ],
    ),
    "pmean": (
        lambda a: lax.pmean(a, "x", axis_index_groups=PAIRS),
        _groups_of_two(lambda p: (p[0] + p[1]) / 2),
    ),
    "pmax": (
        lambda a: lax.pmax(a, "x", axis_index_groups=PAIRS),
        _groups_of_two(lambda p: np.maximum(*p)),
    ),
    "all_gather": (
        lambda a: lax.all_gather(a, "x", axis=1, axis_index_groups=PAIRS),
        _groups_of_two(lambda p: np.stack(p, axis=1)),
    ),
    "psum_scatter": (
        lambda a: lax.psum_scatter(
            a, "x", scatter_dimension=1, tiled=True, axis_index_groups=PAIRS
        ),
        lambda p: [np.split(p[i // 2 * 2] + p[i // 2 * 2 + 1], 2, axis=1)[i % 2] for i in range(8)],
    ),
    "all_to_all": (
        lambda a: lax.all_to_all(a, "x", 1, 1, tiled=True, axis_index_groups=PAIRS),
        _exchanged_in_pairs,
    ),
}


def _check_all(table: dict[str, Any], jit: bool, check_vma: bool) -> None:
    def body(a: Any) -> Any:
        return {name: f(a) for name, (f, _) in table.items()}

    f = over(body, P("x"), P("x"), check_vma=check_vma)
    found = (xpr.jit(f) if jit else f)(A)
    parts = np.split(A, 8, axis=0)
    for name, (_, oracle) in table.items():
        close(found[name], np.concatenate(oracle(parts), axis=0))


@pytest.mark.parametrize(("jit", "check_vma"), [(True, True), (False, True), (True, False)])
def test_each_collective(jit: bool, check_vma: bool) -> None:
    _check_all(COLLECTIVES, jit, check_vma)


@pytest.mark.parametrize("jit", [True, False])
def test_collectives_among_groups(jit: bool) -> None:
    _check_all(GROUPED, jit, check_vma=False)


def test_collectives_over_several_axes() -> None:
    """Places along several axes are counted with the last running fastest."""

    def body(a: Any) -> Any:
        both = ("x", "y")
        return {
            "psum": lax.psum(a, both),
            "one": lax.psum(a, "y"),
            "gather": lax.all_gather(a, both, tiled=True),
            "turned": lax.all_gather(a, ("y", "x"), tiled=True),
            "scatter": lax.psum_scatter(jnp.tile(a, (8, 1)), both, tiled=True),
            "shift": lax.ppermute(a, both, [(i, (i + 1) % 8) for i in range(8)]),
            "index": a[:, :1] * 0 + lax.axis_index(both),
            "exchange": lax.all_to_all(a, both, 1, 0, tiled=True),
        }

    f = over(body, P(("x", "y")), P(("x", "y")), MESH)
    a = A[:, :, 0]
    found = xpr.jit(f)(a)
    close(found["psum"], np.tile(a.sum(0), (8, 1)))
    close(found["one"], np.repeat(a.reshape(4, 2, 8).sum(1), 2, axis=0))
    close(found["gather"], np.tile(a, (8, 1)))
    close(found["turned"], np.tile(a.reshape(4, 2, 8).transpose(1, 0, 2).reshape(8, 8), (8, 1)))
    close(found["scatter"], np.tile(a.sum(0), (8, 1)))
    close(found["shift"], np.roll(a, 1, axis=0))
    close(found["index"], np.arange(8.0)[:, None])
    close(found["exchange"], a.T.reshape(64, 1))


def test_results_are_where_their_specs_say() -> None:
    f = over(
        lambda a: (a * 2, lax.psum(a, "x"), a[:, :2]), P("x"), (P("x"), P(), P("x", "y")), MESH
    )
    for g in (f, xpr.jit(f)):
        one, two, three = g(A)
        for array, spec in ((one, P("x")), (two, P()), (three, P("x", "y"))):
            assert array.sharding.is_equivalent_to(NamedSharding(MESH, spec), array.ndim)
        close(one, A * 2)
        close(two, A.reshape(4, 2, 8, 3).sum(0))
        close(three, np.concatenate([A[:, :2]] * 2, axis=1))


def test_ragged_exchange() -> None:
    """Device i sends i % 3 rows to each device, device j puts those of i at row 2 * i."""
    rows = np.arange(8 * 24, dtype="f4").reshape(8, 24)

    def body(a: Any) -> Any:
        here = lax.axis_index("x")
        count = jnp.full(8, here % 3, "int32")
        starts = jnp.arange(8) * 3
        out = lax.ragged_all_to_all(
            a[0], jnp.full(16, -1.0), starts, count, jnp.full(8, here * 2, "int32"),
            jnp.arange(8) % 3, axis_name="x",
        )  # fmt: skip
        return out[None]

    wanted = np.full((8, 16), -1.0)
    for sender in range(8):
        for receiver in range(8):
            n = sender % 3
            wanted[receiver, 2 * sender : 2 * sender + n] = rows[
                sender, 3 * receiver : 3 * receiver + n
            ]
    close(xpr.jit(over(body, P("x"), P("x")))(rows), wanted)


# ---- derivatives: against those of the same function without devices


def _model(psum: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def loss(w: Any, a: Any) -> Any:
        h = jnp.tanh(a @ w["first"])
        total = psum(jnp.sum(h @ w["second"]))
        return total + psum(jnp.sum(h * h)) * jnp.sum(w["first"])

    return loss


# Without types the gradients that a body takes itself are those of each device.
@pytest.mark.parametrize(
    ("where", "check_vma"),
    [("outside", True), ("outside", False), ("inside", True), ("remat", True), ("remat", False)],
)
def test_gradients_of_shared_weights(where: str, check_vma: bool) -> None:
    rng = np.random.default_rng(1)
    w = {
        "first": rng.normal(size=(3, 4)).astype("f4"),
        "second": rng.normal(size=(4, 2)).astype("f4"),
    }
    a = A[:, 0]
    wanted = xpr.grad(_model(lambda s: s), argnums=(0, 1))(w, a)
    local = _model(lambda s: lax.psum(s, "x"))
    if where == "remat":
        local = xpr.checkpoint(local)
    if where == "inside":
        f = over(xpr.grad(local, argnums=(0, 1)), (P(), P("x")), (P(), P("x")))
    else:
        whole = over(local, (P(), P("x")), P(), check_vma=check_vma)
        f = xpr.grad(whole, argnums=(0, 1))
    found = xpr.jit(f)(w, a)
    for x, y in zip(xpr.tree.leaves(found), xpr.tree.leaves(wanted), strict=True):
        close(x, y, 1e-4)


def test_derivatives_of_collectives() -> None:
    """Each against the derivative of the sum that a device-free program writes."""
    v = np.random.default_rng(2).normal(size=(64, 3)).astype("f4")
    cases: dict[str, tuple[Any, Any]] = {
        "psum": (
            lambda a: lax.psum(jnp.sin(a), "x"),
            lambda a: jnp.tile(jnp.sin(a).sum(0), (8, 1)),
        ),
        "gather": (
            lambda a: lax.all_gather(jnp.sin(a), "x", tiled=True),
            lambda a: jnp.tile(jnp.sin(a), (8, 1)),
        ),
        "gather_invarying": (
            lambda a: lax.all_gather(jnp.sin(a), "x", tiled=True, to="invarying"),
            lambda a: jnp.tile(jnp.sin(a), (8, 1)),
        ),
        "scatter": (
            lambda a: lax.psum_scatter(jnp.tile(jnp.sin(a), (8, 1)), "x", tiled=True),
            lambda a: jnp.tile(jnp.sin(a).sum(0), (8, 1)),
        ),
        "exchange": (
            lambda a: lax.all_to_all(jnp.tile(jnp.sin(a), (8, 1)), "x", 0, 0, tiled=True),
            lambda a: jnp.tile(jnp.sin(a), (8, 1)),
        ),
        "permute": (
            lambda a: lax.ppermute(jnp.sin(a), "x", [(i, i + 2) for i in range(6)]),
            lambda a: jnp.concatenate([jnp.zeros((2, 3)), jnp.sin(a)[:6]]),
        ),
        "shared": (lambda a: a * lax.psum(a, "x"), lambda a: a * a.sum(0)),
    }

    def totals(pick: int) -> Any:
        def total(a: Any) -> Any:
            out = 0.0
            for f in cases.values():
                g = over(f[0], P("x"), P("x")) if pick == 0 else f[1]
                result = g(a)
                out = out + jnp.sum(result * v[: result.shape[0]])
            return out

        return total

    a = A[:, 0]
    close(xpr.jit(xpr.grad(totals(0)))(a), xpr.grad(totals(1))(a), 1e-4)
    tangent = A[:, 1]
    found = xpr.jit(lambda a, t: xpr.jvp(totals(0), (a,), (t,))[1])(a, tangent)
    close(found, xpr.jvp(totals(1), (a,), (tangent,))[1], 1e-4)


def test_custom_rules_scans_and_branches_inside() -> None:
    @xpr.custom_vjp
    def clipped(a: Any) -> Any:
        return a

    clipped.defvjp(lambda a: (a, None), lambda _, ct: (jnp.clip(ct, -0.5, 0.5),))

    @xpr.custom_jvp
    def cube(a: Any) -> Any:
        return a**3

    cube.defjvps(lambda t, out, a: 3 * a * a * t)

    def body(w: Any, a: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            return jnp.tanh(carry * w + cube(row)), carry.sum()

        start = lax.pcast(jnp.zeros(3), "x", to="varying")
        last, sums = lax.scan(step, start, a)
        branch = lax.cond(lax.axis_index("x") < 0, lambda z: z * 2, lambda z: z + w, last)
        return lax.psum(jnp.sum(clipped(branch)) + jnp.sum(sums), "x")

    def whole(w: Any, a: Any) -> Any:
        total = 0.0
        for i in range(8):
            carry = jnp.zeros(3)
            for row in a[i]:
                total = total + carry.sum()
                carry = jnp.tanh(carry * w + row**3)
            total = total + jnp.sum(clipped(carry + w))
        return total

    f = over(lambda w, a: body(w, a[0]), (P(), P("x")), P())
    w, a = np.float32(0.3), A[:, :4]
    found = xpr.jit(xpr.value_and_grad(f, argnums=(0, 1)))(w, a)
    value, (dw, da) = xpr.value_and_grad(whole, argnums=(0, 1))(w, a)
    close(found[0], value, 1e-4)
    close(found[1][0], dw, 1e-3)
    close(found[1][1], da, 1e-4)


# ---- other transformations


def test_batches() -> None:
    f = over(
        lambda a, b: (lax.psum(a * b, "x"), a - lax.pmean(a, "y")),
        (P("x"), P(None)),
        (P(), P("x")),
        MESH,
    )
    a = A.transpose(1, 0, 2)  # [batch 8, 8, 3]
    b = A[:, 0]
    found = xpr.jit(xpr.vmap(f, in_axes=(0, None)))(a, b[:2])
    wanted = (a.reshape(8, 4, 2, 3) * b[:2]).sum(1)
    close(found[0], wanted)
    close(found[1], 0 * a)
    cut = xpr.vmap(
        over(lambda a: a * 2 + lax.psum(a, "x"), P("x"), P("x"), MESH), spmd_axis_name="y"
    )
    sums = np.tile(a.reshape(8, 4, 2, 3).sum(1), (1, 4, 1))
    out = xpr.jit(cut)(a)
    close(out, a * 2 + sums)
    assert out.sharding.is_equivalent_to(NamedSharding(MESH, P("y", "x")), 3)
    # Collectives over the batch, inside and around.
    named = xpr.vmap(lambda a: f(a, jnp.ones(1))[1] + lax.psum(a, "b"), axis_name="b")
    close(xpr.jit(named)(a), np.broadcast_to(a.sum(0), a.shape), 1e-4)


def test_nested_and_partly_manual() -> None:
    def body(a: Any) -> Any:
        rows = a + lax.axis_index("x")

        @xpr.shard_map(in_specs=P(None, "y"), out_specs=P(None, "y"))
        def inner(b: Any) -> Any:
            return b * lax.axis_index("y") + lax.psum(b, "x")

        return inner(rows) + jnp.sum(rows, axis=1, keepdims=True)

    a = A[:, :4, 0]
    with xpr.set_mesh(MESH):
        f = xpr.shard_map(body, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
        found = xpr.jit(f)(a)
        gradient = xpr.jit(xpr.grad(lambda a: jnp.sum(f(a) ** 2)))(a)

    def whole(a: Any) -> Any:
        rows = a + jnp.repeat(jnp.arange(4.0), 2)[:, None]
        sums = jnp.tile(rows.reshape(4, 2, 4).sum(0), (4, 1))
        return rows * jnp.array([0.0, 0, 1, 1]) + sums + rows.sum(1, keepdims=True)

    close(found, whole(a), 1e-4)
    close(gradient, xpr.grad(lambda a: jnp.sum(whole(a) ** 2))(a), 1e-3)


def test_on_one_device_the_same_comes_out() -> None:
    """The meaning of the primitive, on whole arrays and without devices."""
    f = over(
        lambda a, b: (
            lax.psum(a * b, "x"), lax.ppermute(a, "y", [(0, 1)]), a + lax.axis_index("x")
        ),
        (P("x", "y"), P(None, "y")), (P(None, "y"), P("x", "y"), P("x", "y")), MESH,
    )  # fmt: skip
    a, b = A[:, :, 0], A[:2, :, 1]
    (eqn,) = xpr.make_jaxpr(f)(a, b).eqns
    for x, y in zip(on_one_device(a, b, **eqn.params), xpr.jit(f)(a, b), strict=True):
        close(x, y)


def test_closures_and_arrays_that_are_cut_already() -> None:
    c = xpr.device_put(A[:, 0], NamedSharding(LINE, P("x")))

    def f(a: Any) -> Any:
        return over(lambda b: b * 2 + c.sum() + a.sum(), P("x"), P("x"))(c)

    wanted = A[:, 0] * 2 + A[:, 0].sum() + A[:, 1].sum()
    close(xpr.jit(f)(A[:, 1]), wanted, 1e-4)
    close(f(jnp.array(A[:, 1])), wanted, 1e-4)


def test_axes_that_are_not_manual_stay_with_the_compiler() -> None:
    """Parts are sharded over them as the wholes are, and nothing is gathered."""

    def body(a: Any) -> Any:
        b = jnp.sin(a) * 2 + a.sum(1, keepdims=True)
        _, ys = lax.scan(lambda c, r: (c + r, c * r), b[0] * 0, b)
        return lax.psum(b, "x"), b, ys, lax.all_gather(b, "x", tiled=True)

    specs = (P(), P("x"), P("x"), P("x"))
    f = xpr.jit(over(body, P("x"), specs, MESH, axis_names={"x"}))
    a = A[:, :, 0]
    sharded = xpr.device_put(a, NamedSharding(MESH, P("x", "y")))
    total, b, ys, gathered = f(sharded)
    wanted = np.sin(a) * 2 + a.sum(1, keepdims=True)
    parts = wanted.reshape(4, 2, 8)
    close(total, parts.sum(0))
    close(b, wanted)
    close(ys, np.stack([0 * parts[:, 0], parts[:, 0] * parts[:, 1]], axis=1).reshape(8, 8))
    close(gathered, np.tile(wanted, (4, 1)))
    assert [r.sharding.spec for r in (total, b, ys)] == [P(None, "y"), P("x", "y"), P("x", "y")]
    text = str(f.lower(sharded).communication())
    assert text.count("all_reduce") == 2  # the sum over rows, of one column each, and psum
    everywhere = over(body, P("x"), specs, MESH)

    def squares(f: Any) -> Any:
        return xpr.jit(xpr.grad(lambda a: sum(jnp.sum(r**2) for r in f(a))))

    close(squares(f)(sharded), squares(everywhere)(a), 1e-4)


def test_explicit_types_outside_and_inside() -> None:
    mesh = xpr.make_mesh((4, 2), ("x", "y"))
    with xpr.set_mesh(mesh):
        a = xpr.device_put(A[:, :, 0], P("x", "y"))
        seen: list[str] = []

        def body(a: Any) -> Any:
            seen.append(str(xpr.typeof(a * 2)))
            return lax.psum(a * 2, "x")

        f = xpr.shard_map(body, out_specs=P(), axis_names={"x"})
        found = xpr.jit(f)(a)
        whole = xpr.shard_map(lambda a: lax.psum(a, ("x", "y")), out_specs=P())(a)
    assert seen == ["float32[2,8@y]{V:x}"]
    assert str(xpr.typeof(found)) == "float32[2,8@y]"
    close(found, A[:, :, 0].reshape(4, 2, 8).sum(0) * 2)
    close(whole, A[:, :, 0].reshape(4, 2, 2, 4).sum((0, 2)))


def test_under_its_first_name() -> None:
    g = first_shard_map(lambda a: lax.psum(a, "x"), LINE, P("x"), P(None), check_rep=False)
    close(g(A), A.sum(0, keepdims=True))


def test_collectives_keep_the_sharding_of_the_axes_that_they_leave_alone() -> None:
    def body(a: Any) -> Any:
        return {
            "gather": lax.all_gather(a, "x", axis=1),
            "tiled": lax.all_gather(a, "x", axis=2, tiled=True),
            "scatter": lax.psum_scatter(a[0], "x", scatter_dimension=0, tiled=False),
            "exchange": lax.all_to_all(a, "x", 1, 0, tiled=True),
            "swapped": lax.all_to_all(a, "x", 1, 1),
            "shifted": lax.ppermute(a, "x", [(0, 1)]),
        }

    rng = np.random.default_rng(3)
    a = rng.normal(size=(4, 4, 6, 2)).astype("f4")
    f = xpr.jit(over(body, P("x"), P("x"), MESH, axis_names={"x"}))
    sharded = xpr.device_put(a, NamedSharding(MESH, P("x", None, "y")))
    found = f(sharded)
    whole = xpr.jit(over(body, P("x"), P("x"), MESH))(a)
    places = {"gather": 3, "tiled": None, "scatter": 0, "exchange": 2, "swapped": 2, "shifted": 2}
    for name, place in places.items():
        close(found[name], np.asarray(whole[name]))
        entries = [*found[name].sharding.spec, *[None] * 4]
        if place is not None:
            entry = entries[place]
            assert "y" in (entry if isinstance(entry, tuple) else (entry,)), name
    # The two devices along y meet for what joins the axis that is sharded over them, alone.
    lines = str(f.lower(sharded).communication()).splitlines()[1:-1]
    assert [line.split()[0] for line in lines if line.split()[1] == "2"] == ["all_gather"]
