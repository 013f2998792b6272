"""Straight-line programs of pads, concatenations and slices in one pass over memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.core.config import override
from xpr.lowering.loops.passes_over_memory import in_few_passes


@pytest.fixture(autouse=True)
def _in_double_precision() -> Any:
    with override("enable_x64", True), override("enable_checks", True):
        yield


def _passes(function: Callable[..., Any], *args: Any) -> list[int]:
    """The numbers of workgroups of a program's passes."""
    lines = xpr.jit(function).lower(*args).as_text("iree").splitlines()
    return [int(x.split()[3]) for x in lines if x.strip().startswith("%count = ")]


def _padded(x: Any, value: Any, config: Sequence[tuple[int, int]]) -> Any:
    """NumPy's `pad`, with negative edges."""
    for axis, (low, high) in enumerate(config):
        part = [slice(None)] * x.ndim
        part[axis] = slice(max(0, -low), x.shape[axis] - max(0, -high))
        edges = [(0, 0)] * x.ndim
        edges[axis] = max(0, low), max(0, high)
        x = np.pad(x[tuple(part)], edges, constant_values=value)
    return x


def _differences(np_: Any, x: Any) -> Any:
    return sum(np_.sum(np_.square(np_.diff(x, axis=i))) for i in range(x.ndim))


@pytest.mark.parametrize(
    "shape",
    [(20_011,), (97, 211), (3, 7001), (7001, 3), (19, 31, 37), (6, 5, 4, 211)],
)
def test_gradient_of_differences(shape: tuple[int, ...]) -> None:
    """Along each axis; the axes are no multiples of a vector, nor of the shares."""
    x = np.random.default_rng(0).standard_normal(shape)
    given = x.copy()
    gradient = xpr.grad(lambda x: _differences(jnp, x))
    wanted = np.zeros(shape)
    for axis in range(x.ndim):
        d = 2 * np.diff(x, axis=axis)
        edges = [(0, 0)] * x.ndim
        edges[axis] = (1, 0)
        wanted += np.pad(d, edges)
        edges[axis] = (0, 1)
        wanted -= np.pad(d, edges)
    assert len(_passes(gradient, x)) == 1
    np.testing.assert_allclose(xpr.jit(gradient)(x), wanted, rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(x, given)


@pytest.mark.parametrize("size", [60, 300, 1023])
def test_shares_of_a_large_array(size: int) -> None:
    """Each workgroup stores its part of the rows, and of the columns where there are no rows."""

    def stencil(np_: Any, x: Any) -> Any:
        return 4 * x - sum(np_.roll(x, s, a) for a in (0, 1) for s in (1, -1))

    x = np.random.default_rng(1).standard_normal((size, size))
    (count,) = _passes(lambda x: stencil(jnp, x), x)
    assert count == max(1, min(64, x.nbytes >> 16))
    f = xpr.jit(lambda x: stencil(jnp, x))
    np.testing.assert_allclose(f(x), stencil(np, x), rtol=1e-13, atol=1e-13)
    row = x.reshape(1, -1)
    np.testing.assert_allclose(
        xpr.jit(lambda x: stencil(jnp, x))(row), stencil(np, row), rtol=1e-13, atol=1e-13
    )


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "u4", "u8"])
def test_types_and_special_values(dtype: str) -> None:
    rng = np.random.default_rng(2)
    x = (rng.standard_normal((70, 130)) * 100).astype(dtype)
    if x.dtype.kind == "f":
        x.flat[::7] = [np.nan, np.inf, -np.inf, -0.0, 0.0][0]
        x.flat[1::7], x.flat[2::7], x.flat[3::7] = np.inf, -np.inf, -0.0
        edge = np.array(np.nan, dtype)
    else:
        x.flat[::7], x.flat[1::7] = np.iinfo(dtype).max, np.iinfo(dtype).min
        edge = np.array(np.iinfo(dtype).max, dtype)

    def program(pad: Any, np_: Any, x: Any) -> Any:
        wide = pad(x, edge, ((2, 1), (0, 3)))
        narrow = pad(x, edge, ((4, -1), (-2, 5)))
        return np_.where(wide > narrow, wide, narrow * np_.asarray(3, dtype)) + wide

    def by_lax(x: Any, value: Any, config: Any) -> Any:
        return lax.pad(x, value, [(low, high, 0) for low, high in config])

    f = xpr.jit(lambda x: program(by_lax, jnp, x))
    assert len(_passes(lambda x: program(by_lax, jnp, x), x)) == 1
    with np.errstate(all="ignore"):
        wanted = program(_padded, np, x)
    found = np.asarray(f(x))
    np.testing.assert_array_equal(found, wanted)
    if x.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted), strict=True)


def test_an_edge_that_only_the_running_program_knows() -> None:
    def program(np_: Any, pad: Any, x: Any, value: Any) -> Any:
        return 2 * pad(x, value + 1) + np_.concatenate([x, x[:2]])

    def by(np_: Any) -> Callable[..., Any]:
        edges = ((1, 1), (0, 0))
        pad = lambda x, value: np_.pad(x, edges, constant_values=value)  # noqa: E731
        return lambda x, value: program(np_, pad, x, value)

    x, value = np.random.default_rng(3).standard_normal((300, 40)), np.float64(0.25)
    f, wanted = by(jnp), by(np)(x, value)
    assert len(_passes(f, x, value)) == 1
    np.testing.assert_allclose(xpr.jit(f)(x, value), wanted, rtol=1e-14)


def _random_program(np_: Any, pad: Any, rng: np.random.Generator, x: Any, y: Any) -> list[Any]:
    """Operations that keep the shape of `x`: the same ones for both libraries."""
    pool = [x, y]
    rank = x.ndim
    for _ in range(int(rng.integers(4, 12))):
        a, b = (pool[int(rng.integers(len(pool)))] for _ in range(2))
        axis, kind = int(rng.integers(rank)), int(rng.integers(7))
        n = x.shape[axis]
        k = int(rng.integers(1, min(n, 5)))
        inside = [slice(None)] * rank
        edges = [(0, 0)] * rank
        if kind == 0:
            new = a + 0.5 * b
        elif kind == 1:
            new = np_.where(a > b, a - b, 0.3 * a)
        elif kind == 2:
            new = np_.roll(a, k if rng.integers(2) else -k, axis)
        elif kind == 3:
            inside[axis] = slice(k, None)
            edges[axis] = (0, k) if rng.integers(2) else (k, 0)
            new = pad(a[tuple(inside)], 0.5, edges)
        elif kind == 4:
            inside[axis] = slice(0, n - k)
            rest = [slice(None)] * rank
            rest[axis] = slice(n - k, n)
            new = np_.concatenate([b[tuple(rest)], a[tuple(inside)]], axis)
        elif kind == 5:
            edges[axis] = (k, -k) if rng.integers(2) else (-k, k)
            new = pad(a, -1.0, edges)
        else:
            inside[axis] = slice(0, 1)
            new = a * 0.7 + np_.broadcast_to(b[tuple(inside)], a.shape)
        pool.append(new)
    chosen = rng.integers(len(pool), size=int(rng.integers(1, 3)))
    return [pool[-1], *(pool[int(i)] for i in chosen)]


@pytest.mark.parametrize("seed", range(6))
def test_random_programs(seed: int) -> None:
    """Several of them in one module, on arrays of several ranks; the same as NumPy's."""
    shapes = [(4099,), (61, 67), (5, 1021), (13, 17, 19)]
    rng = np.random.default_rng(seed)
    arrays = [(rng.standard_normal(s), rng.standard_normal(s)) for s in shapes for _ in range(3)]

    def by_lax(x: Any, value: float, config: Any) -> Any:
        return lax.pad(x, np.float64(value), [(low, high, 0) for low, high in config])

    def program(np_: Any, pad: Any, arrays: Any) -> Any:
        return [
            _random_program(np_, pad, np.random.default_rng((seed, i)), x, y)
            for i, (x, y) in enumerate(arrays)
        ]

    f = lambda arrays: program(jnp, by_lax, arrays)  # noqa: E731
    assert _passes(f, arrays)
    found, wanted = xpr.jit(f)(arrays), program(np, _padded, arrays)
    for x, y in zip(xpr.tree.leaves(found), xpr.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


def test_derivatives_and_batches() -> None:
    rng = np.random.default_rng(4)
    x, t = rng.standard_normal((2, 50, 60))

    def f(x: Any) -> Any:
        p = jnp.pad(x, 1)
        return p[1:-1, 1:-1] * (p[2:, 1:-1] - p[:-2, 1:-1]) + p[1:-1, 2:] * p[1:-1, :-2]

    _, tangent = xpr.jit(lambda x, t: xpr.jvp(f, (x,), (t,)))(x, t)
    h = 1e-6
    np.testing.assert_allclose(tangent, (f(x + h * t) - f(x - h * t)) / (2 * h), atol=1e-7)
    (back,) = xpr.jit(lambda x, t: xpr.vjp(f, x)[1](t))(x, t)
    np.testing.assert_allclose(np.vdot(back, t), np.vdot(t, tangent), rtol=1e-11)
    many = np.stack([x, t, x - t])
    for row, y in zip(many, xpr.jit(xpr.vmap(f))(many), strict=True):
        np.testing.assert_allclose(y, f(row), rtol=1e-13, atol=1e-13)


def test_a_donated_array() -> None:
    x = np.random.default_rng(5).standard_normal((200, 150))
    f = xpr.jit(lambda x: 2 * jnp.roll(x, 3, 0) - jnp.roll(x, 1, 1), donate_argnums=0)
    wanted = 2 * np.roll(x, 3, 0) - np.roll(x, 1, 1)
    np.testing.assert_allclose(f(jnp.asarray(x.copy())), wanted, rtol=1e-14)


def test_elements_of_several_arrays_in_turn() -> None:
    """Stacked along the last axes, and a column behind others."""
    x, y = np.random.default_rng(7).standard_normal((2, 53, 61))

    def program(np_: Any, x: Any, y: Any) -> list[Any]:
        turns = np_.stack([np_.stack([x, -y], -1), np_.stack([y, x], -1)], -2)
        triples = np_.stack([x, y, x + y], -1).reshape(-1, 3)
        return [turns, triples, np_.concatenate([x, y[:, :1]], 1), np_.stack([x, y], 1)]

    assert len(_passes(lambda x, y: program(jnp, x, y), x, y)) == 3
    found = xpr.jit(lambda x, y: program(jnp, x, y))(x, y)
    for a, b in zip(found, program(np, x, y), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_work_of_a_pass_is_counted() -> None:
    """Programs of much work get several threads."""
    x = np.ones((300, 300))
    stencil = lambda x: jnp.roll(x, 1, 0) + jnp.roll(x, 1, 1)  # noqa: E731
    cost = xpr.jit(stencil).lower(x).cost_analysis()
    whole = sum(e.outvars[0].aval.size for e in xpr.make_jaxpr(stencil)(x).jaxpr.eqns)
    assert cost["flops"] == whole
    assert cost["bytes accessed"] > 6 * x.nbytes


def test_what_is_left_as_it_is() -> None:
    """Small arrays, pads that others read, and types that would be copied first."""

    def equations(f: Callable[..., Any], *args: Any) -> list[str]:
        jaxpr = in_few_passes(xpr.make_jaxpr(f)(*args).jaxpr)
        return [e.primitive.name for e in jaxpr.eqns]

    x = np.ones((200, 200))
    stencil = lambda x: jnp.roll(x, 1, 0) + jnp.roll(x, 1, 1)  # noqa: E731
    assert equations(stencil, x) == ["one_pass"]
    assert "one_pass" not in equations(stencil, x[:10, :10])
    assert "one_pass" not in equations(stencil, x.astype(np.float16))
    assert "one_pass" not in equations(stencil, x.astype(complex))
    assert "one_pass" not in equations(lambda x: jnp.pad(x, 1) @ jnp.pad(x, 1), x)
    assert "one_pass" not in equations(lambda x: jnp.pad(x > 0, 1) & jnp.pad(x > 1, 1), x)
    assert "one_pass" not in equations(lambda x, y: x[1:] + y[:-1], x, x)


def test_what_costs_much_is_stored_before_it_is_read_at_several_places() -> None:
    """Else a chain of stencils would do its first step for each place of each later one."""
    x = np.random.default_rng(6).standard_normal((100, 100))

    def chain(np_: Any, x: Any) -> Any:
        for _ in range(4):
            x = 0.2 * (x + sum(np_.roll(x, s, a) for a in (0, 1) for s in (1, -1)))
        return x

    assert len(_passes(lambda x: chain(jnp, x), x)) == 4
    f = xpr.jit(lambda x: chain(jnp, x))
    np.testing.assert_allclose(f(x), chain(np, x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(700,), (40, 30), (9, 8, 17), (300, 1), (1, 513)])
def test_reversals(shape: tuple[int, ...]) -> None:
    """Along each axis and all, alone and beside what is not reversed."""
    x = np.random.default_rng(7).standard_normal(shape)
    for axes in (*range(len(shape)), tuple(range(len(shape)))):

        def f(np_: Any, x: Any, axes: Any = axes) -> Any:
            y = np_.flip(x, axes)
            return y, y + x, 2 * np_.flip(np_.exp(x), axes) - y

        assert _passes(lambda x, f=f: f(jnp, x)[:2], x)
        for got, wanted in zip(xpr.jit(lambda x, f=f: f(jnp, x))(x), f(np, x), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-14, atol=0)
    n = np.arange(x.size).reshape(shape)
    np.testing.assert_array_equal(xpr.jit(lambda n: n[::-1])(n), n[::-1])
    slope = xpr.jit(xpr.grad(lambda x: jnp.sum(x[::-1] * x**2)))(x)
    np.testing.assert_allclose(slope, 2 * x * x[::-1] + (x**2)[::-1], rtol=1e-13, atol=1e-13)
