"""Partitioned programs give each device its part of what the whole program gives."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xpr
import xpr.numpy as jnp
from tests.reliability import random_arrays
from tests.sharding.whole_and_parts import all_specs, check, kinds
from xpr import lax
from xpr.sharding.communication import communication
from xpr.sharding.layout import fitting
from xpr.sharding.rule import Spec

SIZES = {"x": 2, "y": 2}
X, Y, N = ("x",), ("y",), ()
LONG = os.environ.get("XPR_LONG_TESTS") == "1"


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


MATRIX = [(X, Y), (Y, X), (X, N), (N, X), (Y, N), (N, Y), (N, N), ((*X, *Y), N), (N, (*X, *Y))]


@pytest.mark.parametrize("lhs", MATRIX)
def test_products_of_matrices_in_all_combinations(lhs: Spec) -> None:
    a, b = normal(8, 4), normal(4, 8, seed=1)
    for rhs in MATRIX:
        check(jnp.matmul, SIZES, [lhs, rhs], a, b)


def test_a_contraction_over_a_sharded_axis_is_one_sum() -> None:
    found = check(jnp.matmul, SIZES, [(N, X), (X, N)], normal(4, 4), normal(4, 4))
    assert kinds(found) == ["all_reduce"]
    found = check(
        jnp.matmul, SIZES, [(N, X), (X, N)], normal(4, 4), normal(4, 4), out_specs=[(X, N)]
    )
    assert kinds(found) == ["reduce_scatter"]


def test_elementwise_operations_move_nothing() -> None:
    def chain(x: Any, y: Any) -> Any:
        return jnp.where(x > 0, jnp.sin(x) * y + 1, jnp.exp(-y))

    for spec in all_specs(2, ["x", "y"]):
        assert kinds(check(chain, SIZES, [spec, spec], normal(8, 4), normal(8, 4))) == []
        assert kinds(check(chain, SIZES, [spec, None], normal(8, 4), normal(8, 4))) == []


def loss(w: Any, batch: Any) -> Any:
    w1, b1, w2 = w
    x, y = batch
    return jnp.mean((jnp.tanh(x @ w1 + b1) @ w2 - y) ** 2)


def step(w1: Any, b1: Any, w2: Any, x: Any, y: Any) -> Any:
    value, slopes = xpr.value_and_grad(loss)((w1, b1, w2), (x, y))
    return value, [w - 0.1 * s for w, s in zip((w1, b1, w2), slopes, strict=True)]


WEIGHTS = (normal(8, 16), normal(16, seed=2), normal(16, 4, seed=3))
BATCH = (normal(12, 8, seed=4), normal(12, 4, seed=5))


def test_data_parallel_training_sums_each_gradient_once() -> None:
    specs: list[Spec] = [(N, N), (N,), (N, N), (X, N), (X, N)]
    found = check(step, SIZES, specs, *WEIGHTS, *BATCH, out_specs=[(), *specs[:3]])
    assert kinds(found) == ["all_reduce"] * 4


def test_tensor_parallel_training() -> None:
    specs: list[Spec] = [(N, X), (X,), (X, N), (N, N), (N, N)]
    found = check(step, SIZES, specs, *WEIGHTS, *BATCH, out_specs=[(), *specs[:3]])
    assert set(kinds(found)) == {"all_reduce"}
    assert len(kinds(found)) <= 2


def test_fully_sharded_training() -> None:
    specs: list[Spec] = [(X, N), (X,), (X, N), (X, N), (X, N)]
    found = check(step, SIZES, specs, *WEIGHTS, *BATCH, out_specs=[(), *specs[:3]])
    assert set(kinds(found)) <= {"all_gather", "reduce_scatter", "all_reduce"}
    assert kinds(found).count("reduce_scatter") >= 2


def scanned(x: Any, w: Any) -> Any:
    def body(c: Any, row: Any) -> Any:
        c = jnp.tanh(c @ w) + row
        return c, c.sum(0)

    return lax.scan(body, x, normal(3, 8, 4, seed=9))


def repeated(x: Any, w: Any) -> Any:
    return lax.while_loop(
        lambda c: jnp.abs(c[0]).sum() < 1e4, lambda c: (c[0] * 1.5 + c[0] @ w, c[1] + 1), (x, 0)
    )


def branched(x: Any, w: Any) -> Any:
    return lax.cond(x.sum() > 0, lambda v: (v @ w).T, lambda v: v.T - w.sum(), x)


def checkpointed(x: Any, w: Any) -> Any:
    return xpr.grad(lambda v: xpr.checkpoint(lambda u: jnp.sin(u @ w))(v).sum())(x)


@pytest.mark.parametrize("program", [scanned, repeated, branched, checkpointed])
def test_loops_and_branches(program: Callable[..., Any]) -> None:
    for lhs, rhs in itertools.product([(X, Y), (X, N), (N, Y), None], [(X, N), (N, Y), None]):
        check(program, SIZES, [lhs, rhs], normal(8, 4), normal(4, 4, seed=1) / 4)


def attention(x: Any, wq: Any, wk: Any, wv: Any, wo: Any) -> Any:
    def heads(w: Any) -> Any:
        return jnp.einsum("bld,dhk->bhlk", x, w)

    q, k, v = heads(wq), heads(wk), heads(wv)
    mask = jnp.tril(jnp.ones((x.shape[1],) * 2, bool))
    weights = xpr.nn.softmax(jnp.where(mask, jnp.einsum("bhlk,bhmk->bhlm", q, k), -1e9))
    mixed = jnp.einsum("bhlm,bhmk->blhk", weights, v)
    y = x + jnp.einsum("blhk,hkd->bld", mixed, wo)
    return (y - y.mean(-1, keepdims=True)) / jnp.sqrt(y.var(-1, keepdims=True) + 1e-5)


def attention_step(x: Any, *w: Any) -> Any:
    slopes = xpr.grad(lambda ws: (attention(x, *ws) ** 3).sum())(w)
    return [p - 0.1 * s for p, s in zip(w, slopes, strict=True)]


@pytest.mark.parametrize("layout", ["data", "tensor", "both", "sharded"])
def test_a_transformer_block_and_its_gradient(layout: str) -> None:
    x = normal(4, 6, 8)
    w = [normal(8, 4, 2, seed=i) / 3 for i in range(3)] + [normal(4, 2, 8, seed=7) / 3]
    w_in: Spec = {"data": (N, N, N), "sharded": (X, N, N)}.get(layout, (N, Y, N))
    w_out: Spec = {"data": (N, N, N), "sharded": (X, N, N)}.get(layout, (Y, N, N))
    batch: Spec = (N, N, N) if layout == "tensor" else (X, N, N)
    specs = [batch, w_in, w_in, w_in, w_out]
    check(attention, SIZES, specs, x, *w, out_specs=[batch], atol=1e-4)
    check(attention_step, SIZES, specs, x, *w, out_specs=specs[1:], rtol=2e-3, atol=2e-3)


NUMBERS = st.integers(0, (1 << 30) - 1)
MESHES: list[dict[str, int]] = [{"x": 2}, {"x": 4}, {"x": 2, "y": 2}, {"x": 2, "y": 3}]


@st.composite
def a_spec(draw: st.DrawFn, shape: tuple[int, ...], sizes: dict[str, int]) -> Spec:
    """A spec that divides an array of that shape: for each mesh axis where it goes, if anywhere."""
    spec: list[tuple[str, ...]] = [()] * len(shape)
    for axis in draw(st.permutations(sorted(sizes))):
        dim = draw(st.none() | st.integers(0, len(shape) - 1))
        if dim is not None:
            longer = (*spec[dim], axis)
            spec[dim] = longer if fitting(longer, shape[dim], sizes) == longer else spec[dim]
    return tuple(spec)


@settings(max_examples=400 if LONG else 40, deadline=None, derandomize=True)
@given(st.data(), NUMBERS, st.lists(NUMBERS, min_size=1, max_size=13), st.sampled_from(MESHES))
def test_random_programs_with_random_shardings(
    data: st.DataObject, seed: int, program: list[int], sizes: dict[str, int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(random_arrays, "SIZES", (2, 4, 6, 8, 12, 5))
        arrays = random_arrays.operands(np.random.default_rng(seed))
    specs = [data.draw(st.none() | a_spec(x.shape, sizes), label="spec") for x in arrays]

    def whole(*xs: Any) -> Any:
        return random_arrays.results(program, xs, 3)

    check(whole, sizes, specs, *arrays, rtol=1e-4, atol=1e-4)


# ---- sizes that do not divide


def heat(u: Any) -> Any:
    inner = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
    return u.at[1:-1, 1:-1].add(0.1 * inner)


@pytest.mark.parametrize("spec", [(X, N), (N, X), (X, Y), ((*X, *Y), N)])
def test_a_stencil_exchanges_borders_only(spec: Spec) -> None:
    found = check(heat, SIZES, [spec], normal(16, 24))
    assert set(kinds(found)) == {"permute"}
    moved = sum(t.bytes for t in communication(found.closed.jaxpr).transfers)
    assert moved <= 4 * (24 + 16) * 4
    check(lambda u: lax.fori_loop(0, 3, lambda _, v: heat(v), u), SIZES, [spec], normal(16, 24))


def shifted(x: Any) -> Any:
    return [
        x[1:] - x[:-1],
        jnp.diff(x, axis=0, prepend=0.0).sum(),
        jnp.roll(x, 1, 0) * x,
        jnp.roll(x, -2, 0),
        jnp.pad(x, ((1, 2), (0, 0)), mode="edge")[2:-1].max(0),
        jnp.pad(x, ((2, 0), (1, 1)), constant_values=3.0).min(),
        (x[1:-1] @ x[1:-1].T)[0],
        x[1:].T @ x[:-1],
        x[3:].prod(0),
        jnp.concatenate([x[:1] * 2, x[2:], x[:1]]).sum(1),
        x.at[2:5].set(1.0),
        x.at[1:].set(x[:-1]),
        jnp.sort(x[1:], axis=0)[0],
        jnp.cumsum(x[1:], 0)[-1],
        jnp.argmax(x[1:], 0),
        (x[1:] > 0).all(),
        lax.scan(lambda c, r: (c + r, c * r), x[0], x[1:])[0],
        jnp.linalg.norm(x[:-1]),
    ]


@pytest.mark.parametrize("rows", [8, 10, 12, 16, 33])
def test_shifts_along_a_sharded_axis(rows: int) -> None:
    for sizes, spec in (({"x": 2}, (X, N)), ({"x": 4}, (X, N)), (SIZES, ((*X, *Y), N))):
        count = math.prod(sizes[a] for a in spec[0])
        if rows % count == 0:
            check(shifted, sizes, [spec], normal(rows, 3), rtol=1e-4)


def test_gradients_of_shifts() -> None:
    def slope(u: Any) -> Any:
        return xpr.grad(lambda v: (heat(v) ** 3).sum() + (v[1:] * jnp.roll(v, 1, 0)[:-1]).sum())(u)

    for spec in [(X, N), (X, Y), ((*X, *Y), N)]:
        check(slope, SIZES, [spec], normal(16, 8), rtol=1e-4, atol=1e-4)
