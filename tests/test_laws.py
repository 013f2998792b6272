"""Laws that hold for any program: compiled = eager = reference, whatever the composition."""

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

_UNARY: list[Callable[[Any], Any]] = [
    jnp.sin,
    jnp.tanh,
    jnp.abs,
    jnp.negative,
    lambda x: jnp.exp(-jnp.abs(x)),
    lambda x: jnp.sqrt(jnp.abs(x) + 1),
    lambda x: jnp.floor(x * 2) / 2,
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
    lambda x, y: jnp.hypot(x, y),
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
