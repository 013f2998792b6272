"""Laws that hold for any program, whatever the composition.

Compiled = eager = reference; vjp is the transpose of jvp; Hessians are symmetric; checkpoint
changes no gradient; vmap is a loop; jit and grad commute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import xpr
import xpr.numpy as jnp
from tests.harness import assert_same, run_reference

Step = Callable[[list[Any]], Any]


def _floor_halves(x: Any) -> Any:
    return jnp.floor(x * 2) / 2


@xpr.custom_jvp
def _own_derivative(x: Any) -> Any:
    return jnp.log(1 + jnp.exp(x))


_own_derivative.defjvps(lambda t, _, x: t / (1 + jnp.exp(-x)))


_UNARY: list[Callable[[Any], Any]] = [
    jnp.sin,
    jnp.tanh,
    jnp.abs,
    jnp.negative,
    lambda x: jnp.exp(-jnp.abs(x)),
    lambda x: jnp.sqrt(jnp.abs(x) + 1),
    _floor_halves,
    lambda x: x[::-1],
    lambda x: x.T.reshape(x.shape),
    lambda x: jnp.cumsum(x, axis=0),
    lambda x: jnp.sort(x, axis=-1),
    lambda x: x - x.mean(axis=0),
    lambda x: x / (1 + x.max(axis=1, keepdims=True) ** 2),
    lambda x: jnp.roll(x, 1, axis=0),
    lambda x: x.at[0].add(1.0),
    lambda x: x.at[:, 1].set(x[:, 0]),
    lambda x: jnp.take(x, jnp.array([2, 0, 1]), axis=0),
    lambda x: jnp.where(x > 0, x, 0.5 * x),
    lambda x: jnp.concatenate([x[1:], x[:1]]),
    lambda x: jnp.clip(x, -1.5, 1.5),
    # Transformations are operations of programs, too.
    xpr.vmap(lambda row: jnp.tanh(row) * jnp.max(row) / 2, in_axes=1, out_axes=1),
    xpr.vmap(lambda row: row - xpr.lax.pmean(row, "rows"), axis_name="rows"),
    xpr.checkpoint(lambda x: jnp.sin(x) * x),
    xpr.grad(lambda x: jnp.sum(jnp.sin(x) * x)),
    lambda x: xpr.jvp(jnp.tanh, (x,), (x,))[1],
    lambda x: xpr.lax.cond(x[0, 0] > 0.1, jnp.sin, jnp.cos, x),
    _own_derivative,
]
_BINARY: list[Callable[[Any, Any], Any]] = [
    jnp.add,
    jnp.subtract,
    jnp.multiply,
    jnp.maximum,
    jnp.minimum,
    jnp.arctan2,
    lambda x, y: x / (jnp.abs(y) + 1),
    lambda x, y: (x @ y.T) @ y / 8,
    lambda x, y: jnp.where(x < y, x, y * 0.25),
    lambda x, y: jnp.einsum("ij,kj->ik", x, y) @ x / 8,
    jnp.hypot,
]


def _run(steps: list[tuple[int, int, int]], x: Any, y: Any) -> Any:
    values = [x, y]
    for op, i, k in steps:
        a, b = values[i % len(values)], values[k % len(values)]
        choice = op % (len(_UNARY) + len(_BINARY))
        if choice < len(_UNARY):
            values.append(_UNARY[choice](a))
        else:
            values.append(_BINARY[choice - len(_UNARY)](a, b))
    return values[-1]


_steps = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(0, 10), st.integers(0, 10)), min_size=1, max_size=7
)


# Several random programs are compiled together, which costs little more than one of them.
@settings(max_examples=6, deadline=None, derandomize=True)
@given(st.lists(_steps, min_size=8, max_size=12), st.integers(0, 2**32 - 1))
def test_compiled_is_eager_is_reference(
    programs: list[list[tuple[int, int, int]]], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(-2, 2, (2, 3, 4)).astype(np.float32)
    a, b = jnp.array(x), jnp.array(y)
    eager = [_run(p, a, b) for p in programs]
    compiled = xpr.jit(lambda u, v: [_run(p, u, v) for p in programs])(a, b)
    reference = run_reference([(lambda u, v, p=p: _run(p, u, v), (x, y)) for p in programs])
    for p, e, c, (r,) in zip(programs, eager, compiled, reference, strict=True):
        what = f"program {p}"
        assert_same(np.asarray(e), r, 1e-6, 1e-6, what=what)
        assert_same(np.asarray(c), r, 2e-5, 2e-5, what=what)
    np.testing.assert_array_equal(np.asarray(a), x)
    np.testing.assert_array_equal(np.asarray(b), y)


# ---- laws of transformations, over the same random programs

_Program = list[tuple[int, int, int]]
_seeds = st.integers(0, 2**32 - 1)

# Derivatives are compared where rounding alone cannot change them: without `floor`, whose argument
# may lie at a step, and without `arctan2` and `hypot`, which have none where both operands are 0.
_STEEP = {[*_UNARY, *_BINARY].index(f) for f in (_floor_halves, jnp.arctan2, jnp.hypot)}


def _without_steep(program: _Program) -> _Program:
    """The program with `sin` in place of what is not smooth enough."""
    count = len(_UNARY) + len(_BINARY)
    return [(0 if op % count in _STEEP else op, i, k) for op, i, k in program]


def _matrices(seed: int, count: int, dtype: str) -> tuple[np.ndarray[Any, Any], ...]:
    return tuple(np.random.default_rng(seed).uniform(-2, 2, (count, 3, 4)).astype(dtype))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(_steps, _seeds)
def test_vjp_is_the_transpose_of_jvp(program: _Program, seed: int) -> None:
    """<ct, J t> = <J^T ct, t>, at kinks too, where forward and reverse mode choose alike."""
    with xpr.enable_x64():
        x, y, t, u, ct = _matrices(seed, 5, "f8")

        def f(a: Any, b: Any) -> Any:
            return _run(program, a, b)

        out, moved = xpr.jvp(f, (x, y), (t, u))
        again, derivative = xpr.linearize(f, x, y)
        value, pull = xpr.vjp(f, x, y)
        ct_x, ct_y = pull(ct)
        what = f"program {program}"
        for same in (again, value):
            assert_same(np.asarray(same), np.asarray(out), what=what)
        assert_same(np.asarray(derivative(t, u)), np.asarray(moved), 1e-12, 1e-12, what=what)
        # Both sums have 12 to 24 terms; their size bounds the rounding.
        terms = [ct * np.asarray(moved), np.asarray(ct_x) * t, np.asarray(ct_y) * u]
        forward, backward = terms[0].sum(), terms[1].sum() + terms[2].sum()
        size = max(1.0, *(np.abs(part).sum() for part in terms))
        np.testing.assert_allclose(forward, backward, rtol=0, atol=1e-11 * size, err_msg=what)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(_steps, _seeds, st.sampled_from([(0, 0), (0, None), (None, 0), (1, 0), (2, 1), (-1, None)]))
def test_vmap_is_a_loop(program: _Program, seed: int, axes: tuple[int | None, ...]) -> None:
    """Values and gradients on a batch are those of its examples, whichever axes are mapped."""
    program = _without_steep(program)
    with xpr.enable_x64():
        rng = np.random.default_rng(seed)
        x, y = (rng.uniform(-2, 2, (3, 4) if axis is None else (3, 3, 4)) for axis in axes)
        batch = [
            jnp.array(v if axis is None else np.moveaxis(v, 0, axis))
            for v, axis in zip((x, y), axes, strict=True)
        ]

        def f(a: Any, b: Any) -> tuple[Any, Any]:
            both = xpr.grad(lambda u, v: jnp.sum(jnp.sin(_run(program, u, v))), argnums=(0, 1))
            return _run(program, a, b), both(a, b)

        found = xpr.vmap(f, in_axes=axes)(*batch)
        rows = [
            f(
                *(
                    jnp.array(v if axis is None else v[i])
                    for v, axis in zip((x, y), axes, strict=True)
                )
            )
            for i in range(3)
        ]
        stacked = xpr.tree.map(lambda *each: np.stack([np.asarray(e) for e in each]), *rows)
        for a, b in zip(xpr.tree.leaves(found), xpr.tree.leaves(stacked), strict=True):
            assert_same(np.asarray(a), b, 1e-9, 1e-9, what=f"program {program}, axes {axes}")


@settings(max_examples=60, deadline=None, derandomize=True)
@given(_steps, _seeds)
def test_hessians_are_symmetric_and_checkpoint_changes_no_gradient(
    program: _Program, seed: int
) -> None:
    """<u, H t> = <t, H u>, where H t is the forward derivative of the gradient."""
    program = _without_steep(program)
    with xpr.enable_x64():
        x, y, t, u, weight = _matrices(seed, 5, "f8")

        def f(a: Any, b: Any) -> Any:
            return jnp.sum(weight * jnp.sin(_run(program, a, b)))

        gradient = xpr.grad(f, argnums=(0, 1))
        again = xpr.grad(xpr.checkpoint(f), argnums=(0, 1))
        what = f"program {program}"
        for a, b in zip(gradient(x, y), again(x, y), strict=True):
            assert_same(np.asarray(a), np.asarray(b), 1e-10, 1e-10, what=what)
        for g in (gradient, again):
            along_t = [np.asarray(h) for h in xpr.jvp(g, (x, y), (t, u))[1]]
            along_u = [np.asarray(h) for h in xpr.jvp(g, (x, y), (u, -t))[1]]
            terms = [u * along_t[0], -t * along_t[1], t * along_u[0], u * along_u[1]]
            size = max(1.0, *(np.abs(part).sum() for part in terms))
            np.testing.assert_allclose(
                terms[0].sum() + terms[1].sum(),
                terms[2].sum() + terms[3].sum(),
                rtol=0,
                atol=1e-10 * size,
                err_msg=what,
            )


# Several programs at once, as above. Each has its own operands: one gradient has all of theirs.
@settings(max_examples=2, deadline=None, derandomize=True)
@given(st.lists(_steps, min_size=6, max_size=8), _seeds)
def test_gradients_compiled_are_eager_and_jit_commutes_with_grad(
    programs: list[_Program], seed: int
) -> None:
    programs = [_without_steep(p) for p in programs]
    count = len(programs)
    values = _matrices(seed, 3 * count, "f4")
    xs, ys, weights = values[:count], values[count : 2 * count], values[2 * count :]

    def total(xs: Any, ys: Any) -> Any:
        parts = zip(programs, xs, ys, weights, strict=True)
        return sum(jnp.sum(w * jnp.sin(_run(p, x, y))) for p, x, y, w in parts)

    eager = xpr.grad(total, argnums=(0, 1))(xs, ys)
    with xpr.enable_x64():
        wide = xpr.grad(total, argnums=(0, 1))(*xpr.tree.map(np.float64, (xs, ys)))
    for f in (xpr.jit(xpr.grad(total, argnums=(0, 1))), xpr.grad(xpr.jit(total), argnums=(0, 1))):
        compiled = f(xs, ys)
        for which in range(2):
            for p, c, e, w in zip(
                programs, compiled[which], eager[which], wide[which], strict=True
            ):
                size = max(1.0, float(np.abs(np.asarray(w)).max()))
                assert_same(np.asarray(c), np.asarray(e), 1e-4, 1e-4 * size, what=f"program {p}")
