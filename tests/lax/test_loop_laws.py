"""Random loops: compiled, at once and written out in Python they are the same, gradients too.

Small loops run as one dispatch with the state in registers, so these are programs of that form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import xpr
import xpr.numpy as jnp
from xpr import lax

STEPS = 5
W = np.array([[0.5, -0.3, 0.2], [0.1, 0.7, -0.4], [-0.6, 0.2, 0.3]])
TABLE = np.linspace(-1.0, 1.0, 24).reshape(4, 2, 3)
LONG = np.sin(np.arange(1500.0))  # longer than what is kept in registers

# Operations on two vectors of three elements and an integer: all give such a vector.
Op = Callable[[Any, Any, Any], Any]
_OPS: list[Op] = [
    lambda u, v, n: jnp.sin(u) + v,
    lambda u, v, n: jnp.tanh(u) * v,
    lambda u, v, n: jnp.exp(-jnp.abs(u)) - v,
    lambda u, v, n: u / (1 + v * v),
    lambda u, v, n: jnp.sqrt(u * u + 1) * jnp.cos(v),
    lambda u, v, n: jnp.maximum(u, 0.5 * v),
    lambda u, v, n: jnp.where(u > v, u, 0.3 * v),
    lambda u, v, n: jnp.where(n % 2 == 0, u, -v),
    lambda u, v, n: jnp.clip(u, -0.8, 0.9),
    lambda u, v, n: u @ _w(u),
    lambda u, v, n: _w(u) @ v,
    lambda u, v, n: jnp.dot(u, v) * v,
    lambda u, v, n: (u[:, None] * v[None] @ _w(u)).sum(0),
    lambda u, v, n: jnp.einsum("i,ij,kj->k", u, _w(u), _w(u)) - v,
    lambda u, v, n: u[::-1],
    lambda u, v, n: jnp.roll(u, 1) - v,
    lambda u, v, n: u - u.mean(),
    lambda u, v, n: jnp.concatenate([u[1:], v[:1]]),
    lambda u, v, n: jnp.stack([u, v]).T.reshape(2, 3)[1],
    lambda u, v, n: jnp.pad(u, (1, 1))[:3] + v.max(),
    lambda u, v, n: jnp.prod(jnp.stack([u, v]), axis=0),
    lambda u, v, n: u.astype(jnp.int32).astype(u.dtype) + v * 0.5,
    # Indices that are known in the loop only: into constants, also reshaped ones, and the state.
    lambda u, v, n: _table(u)[n % 4, 1] + u,
    lambda u, v, n: _table(u).reshape(8, 3)[n] * v,
    lambda u, v, n: _long(u)[7 * n] * u,
    lambda u, v, n: lax.dynamic_slice(_long(u).reshape(500, 3), (9 * n, 0), (1, 3))[0] - v,
    lambda u, v, n: _long(u)[4:7] * u,
    lambda u, v, n: u[n % 3] + v,
    lambda u, v, n: u.at[n % 3].set(v[0]),
    lambda u, v, n: u.at[1].add(v[2]),
    # Programs inside the program.
    lambda u, v, n: lax.cond(n > 2, jnp.sin, jnp.cos, u),
    lambda u, v, n: lax.switch(n, [lambda x: x, lambda x: x * v, lambda x: 0.5 - x], u),
    lambda u, v, n: lax.fori_loop(0, 3, lambda i, x: 0.5 * x + v * i, u),
    lambda u, v, n: lax.scan(lambda c, x: (c * 0.5 + x, c - x), u[0], v)[1],
    lambda u, v, n: xpr.jit(lambda x: x * jnp.sin(x))(u),
    lambda u, v, n: xpr.grad(lambda x: jnp.sum(jnp.sin(x) * v))(u),
    xpr.vmap(lambda u, v, n: jnp.sin(u) * v, (0, 0, None)),
    # Beyond registers: the loop takes the plain form.
    lambda u, v, n: jnp.sort(u) - v,
    lambda u, v, n: jnp.cumsum(u) * 0.5,
]


def _w(like: Any) -> Any:
    return jnp.asarray(W, like.dtype)


def _table(like: Any) -> Any:
    return jnp.asarray(TABLE, like.dtype)


def _long(like: Any) -> Any:
    return jnp.asarray(LONG, like.dtype)


Program = list[tuple[int, int, int]]
_seeds = st.integers(0, 2**32 - 1)


def random_programs(seed: int, count: int = 6) -> list[Program]:
    rng = np.random.default_rng(seed)
    return [
        [
            (int(rng.integers(len(_OPS))), int(rng.integers(10)), int(rng.integers(10)))
            for _ in range(length)
        ]
        for length in rng.integers(2, 6, count)
    ]


def body(program: Program) -> Callable[[Any, Any], Any]:
    """A step of a scan: the carry is a vector, a matrix and an integer."""

    def step(carry: Any, x: Any) -> Any:
        a, m, n = carry
        values = [a, m[0], m[1], x["v"]]
        for op, i, k in program:
            values.append(_OPS[op](values[i % len(values)], values[k % len(values)], n))
        # Sines keep what is carried in bounds.
        new = (
            jnp.sin(values[-1]) + 0.1 * x["v"],
            jnp.stack([a, jnp.sin(values[-2])]),
            (3 * n + x["k"]) % 8,
        )
        return new, {"last": values[-1], "n": n, "far": new[0] @ m.T}

    return step


def written_out(step: Callable[[Any, Any], Any], carry: Any, xs: Any, reverse: bool) -> Any:
    order = range(STEPS - 1, -1, -1) if reverse else range(STEPS)
    ys: dict[int, Any] = {}
    for i in order:
        carry, ys[i] = step(carry, xpr.tree.map(lambda x, i=i: x[i], xs))
    return carry, xpr.tree.map(lambda *rows: jnp.stack(rows), *(ys[i] for i in range(STEPS)))


def inputs(seed: int, dtype: Any) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    carry = (
        jnp.asarray(rng.uniform(-1, 1, 3).astype(dtype)),
        jnp.asarray(rng.uniform(-1, 1, (2, 3)).astype(dtype)),
        jnp.asarray(rng.integers(0, 8, dtype=np.int32)),
    )
    xs = {
        "v": jnp.asarray(rng.uniform(-1, 1, (STEPS, 3)).astype(dtype)),
        "k": jnp.asarray(rng.integers(0, 8, STEPS, dtype=np.int32)),
    }
    return carry, xs


def agree(found: Any, expected: Any, rtol: float, what: Any) -> None:
    assert xpr.tree.structure(found) == xpr.tree.structure(expected)
    for a, b in zip(xpr.tree.leaves(found), xpr.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(
            np.asarray(a), np.asarray(b), rtol=rtol, atol=rtol, err_msg=str(what)
        )


@pytest.fixture(autouse=True, scope="module")
def double() -> Iterator[None]:
    with xpr.enable_x64(True):
        yield


# Programs of one example are compiled together, which costs little more than one of them. To make
# a failing example smaller would compile hundreds.
_SETTINGS = settings(max_examples=3, deadline=None, derandomize=True, phases=[Phase.generate])


@_SETTINGS
@given(_seeds, st.booleans())
def test_a_scan_is_its_loop(seed: int, reverse: bool) -> None:
    programs = random_programs(seed)
    for dtype, rtol in ((np.float64, 1e-9), (np.float32, 2e-3)):
        carry, xs = inputs(seed, dtype)
        compiled = xpr.jit(
            lambda carry, xs: [lax.scan(body(p), carry, xs, reverse=reverse) for p in programs]
        )(carry, xs)
        for p, found in zip(programs, compiled, strict=True):
            agree(found, written_out(body(p), carry, xs, reverse), rtol, p)
    agree(lax.scan(body(programs[0]), carry, xs, reverse=reverse), compiled[0], rtol, programs[0])


@_SETTINGS
@given(_seeds, st.booleans())
def test_gradients_of_a_scan_are_those_of_its_loop(seed: int, reverse: bool) -> None:
    programs = random_programs(seed)
    carry, xs = inputs(seed, np.float64)
    weight = np.random.default_rng(seed).uniform(-1, 1, (STEPS, 3))

    def loss(run: Callable[..., Any], p: Program, a: Any, m: Any, v: Any) -> Any:
        last, ys = run(body(p), (a, m, carry[2]), {"v": v, "k": xs["k"]}, reverse)
        return jnp.sum(last[0]) + jnp.sum(last[1] ** 2) + jnp.sum(weight * ys["last"])

    def scanned(step: Any, carry: Any, xs: Any, reverse: bool) -> Any:
        return lax.scan(step, carry, xs, reverse=reverse)

    def gradients(run: Callable[..., Any], p: Program, *args: Any) -> Any:
        return xpr.grad(lambda *xs: loss(run, p, *xs), argnums=(0, 1, 2))(*args)

    args = (carry[0], carry[1], xs["v"])
    compiled = xpr.jit(lambda *xs: [gradients(scanned, p, *xs) for p in programs])(*args)
    for p, found in zip(programs, compiled, strict=True):
        agree(found, gradients(written_out, p, *args), 1e-8, p)


@_SETTINGS
@given(_seeds)
def test_a_while_loop_ends_when_pythons_does(seed: int) -> None:
    programs = random_programs(seed)
    carry, xs = inputs(seed, np.float64)
    x = xpr.tree.map(lambda v: v[0], xs)

    def unfinished(state: Any) -> Any:
        i, (a, m, _), _ = state
        return (i < 25) & (a[0] < 0.8) & (m.sum() < 2.5)

    def step(p: Program) -> Callable[[Any], Any]:
        def advance(state: Any) -> Any:
            i, carry, total = state
            carry, y = body(p)(carry, x)
            return i + 1, carry, total + jnp.abs(y["last"]).sum()

        return advance

    start = (jnp.int32(0), carry, jnp.float64(0))

    def loop(p: Program) -> Callable[[Any], Any]:
        return lambda s: lax.while_loop(unfinished, step(p), s)

    # Those that run as one dispatch.
    programs = [
        p
        for p in programs
        if "stablehlo.while" not in xpr.jit(loop(p)).lower(start).as_text("iree")
    ]
    compiled = xpr.jit(lambda s: [loop(p)(s) for p in programs])(start)
    for p, found in zip(programs, compiled, strict=True):
        state = start
        while unfinished(state):
            state = step(p)(state)
        agree(found, state, 1e-8, p)


def test_examples_of_a_batch_end_on_their_own() -> None:
    def collatz(n: Any) -> Any:
        return lax.while_loop(
            lambda s: s[0] != 1,
            lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1),
            (n, 0),
        )[1]

    def plain(n: int) -> int:
        count = 0
        while n != 1:
            n, count = (n // 2 if n % 2 == 0 else 3 * n + 1), count + 1
        return count

    found = xpr.jit(xpr.vmap(collatz))(jnp.arange(1, 30))
    assert found.tolist() == [plain(n) for n in range(1, 30)]


# ---- programs that random ones seldom hold


@pytest.mark.parametrize(
    "f",
    [
        lambda i, t: lax.dynamic_slice(t.reshape(-1), (i,), (4,)),
        lambda i, t: lax.dynamic_slice(t.reshape(2, -1), (i % 2, 0), (1, t.size // 2)),
        lambda i, t: t.reshape(-1, 6)[2 * i],
        lambda i, t: t.reshape(-1)[3:6] * i,
        lambda i, t: t.astype(jnp.int32).astype(jnp.uint32)[i % 2].astype(jnp.float32),
        lambda i, t: t.sum() * i,
        lambda i, t: t.T[i % 3],
    ],
)
@pytest.mark.parametrize("rows", [10, 500])
def test_constants_of_a_loop_seen_in_other_shapes(f: Callable[..., Any], rows: int) -> None:
    """In registers and, where they are large, in memory."""
    table = np.arange(rows * 3, dtype="f4").reshape(rows, 3)

    @xpr.jit
    def run(table: Any) -> Any:
        return lax.scan(lambda i, _: (i + 1, f(i, table)), jnp.int32(0), None, length=5)[1]

    found = run(table)
    expected = [np.asarray(f(jnp.int32(i), jnp.asarray(table))) for i in range(5)]
    np.testing.assert_allclose(np.asarray(found), np.stack(expected), rtol=1e-6)


def test_a_branch_that_is_not_taken_may_never_end() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            up = lambda n: lax.while_loop(lambda n: n != 100, lambda n: n + 1, n)  # noqa: E731
            return lax.cond(c < 100, up, lambda n: n + 1, c), c

        return lax.scan(step, x, None, length=3)

    last, seen = xpr.jit(f)(jnp.float32(98))
    assert float(last) == 102.0
    assert seen.tolist() == [98.0, 100.0, 101.0]


def test_products_made_ahead_of_a_loop_may_need_functions_of_constants() -> None:
    rng = np.random.default_rng(2)
    w, xs = rng.normal(size=(64, 64)) * 0.1, rng.normal(size=(4, 64, 64))

    def f(w: Any, xs: Any) -> Any:
        return lax.scan(lambda c, x: (0.5 * c + x @ jnp.exp(w), c.sum()), w, xs)

    last, sums = xpr.jit(f)(w, xs)
    c, expected = w, []
    for x in xs:
        expected.append(c.sum())
        c = 0.5 * c + x @ np.exp(w)
    np.testing.assert_allclose(np.asarray(last), c, rtol=1e-9)
    np.testing.assert_allclose(np.asarray(sums), expected, rtol=1e-9)
