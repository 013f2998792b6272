"""Programs in auto mode: what `auto_golden.json` holds the shardings of results of.

Each is called with the module `jax` (JAX itself, or xpr), and gives a function and its operands:
pairs of a shape and a partition spec, written as in "8@X 4". The mesh is (X: 2, Y: 2).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

SPECS = ("8@X 8@Y", "8@Y 8@X", "8@X 8", "8 8@X", "8@Y 8", "8 8@Y", "8 8")
MESH = (("X", 2), ("Y", 2))

Case = tuple[str, Callable[..., Any], tuple[str, ...]]


def cases(jax: Any) -> Iterator[Case]:
    """The name, the function and the operands of each program."""
    jnp = jax.numpy
    for lhs, rhs in itertools.product(SPECS, repeat=2):
        yield f"matmul {lhs} | {rhs}", jnp.matmul, (lhs, rhs)
    unary = _unary(jax)
    for spec in SPECS:
        for name, f in unary.items():
            yield f"{name} {spec}", f, (spec,)
        for other in ("8 8", "8@X 8@Y"):
            yield f"add {spec} | {other}", jnp.add, (spec, other)
    yield from _training(jax)


def _unary(jax: Any) -> dict[str, Callable[..., Any]]:
    jnp, lax = jax.numpy, jax.lax
    return {
        "chain": lambda x: jnp.sin(x) * 2 + x.sum(),
        "sum 0": lambda x: x.sum(0),
        "sum 1": lambda x: x.sum(1),
        "mean": lambda x: x - x.mean(1, keepdims=True),
        "transpose": lambda x: x.T,
        "flat": lambda x: x.reshape(-1),
        "split": lambda x: x.reshape(2, 4, 8),
        "broadcast": lambda x: x[None] * jnp.ones((3, 1, 1)),
        "softmax": jax.nn.softmax,
        "slice": lambda x: x[1:5],
        "concatenate": lambda x: jnp.concatenate([x, x], 1),
        "roll 0": lambda x: jnp.roll(x, 1, 0),
        "roll 1": lambda x: jnp.roll(x, 2, 1),
        "pad": lambda x: jnp.pad(x, 4),
        "reverse": lambda x: x[::-1],
        "take": lambda x: x[jnp.array([1, 2])],
        "sort": jnp.sort,
        "cumsum": lambda x: jnp.cumsum(x, 0),
        "argmax": lambda x: jnp.argmax(x, 1),
        "outer": lambda x: x[:, 0][:, None] * x[0][None],
        "where": lambda x: jnp.where(x > 0, x, 0.0),
        "norm": lambda x: (x**2).sum() ** 0.5,
        "gram": lambda x: x.T @ x,
        "scan": lambda x: lax.scan(lambda c, _: (jnp.tanh(c), c.sum(0)), x, None, length=3),
        "loop": lambda x: lax.fori_loop(0, 3, lambda i, c: c * 2 + i, x),
        "branch": lambda x: lax.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, x),
        "nested": lambda x: jax.jit(lambda v: v.T * 2)(x) + 1,
        "gradient": lambda x: jax.grad(lambda v: (jnp.tanh(v) ** 2).sum())(x),
        "remat": lambda x: jax.grad(lambda v: jax.checkpoint(lambda u: jnp.sin(u).sum())(v))(x),
    }


def _training(jax: Any) -> Iterator[Case]:
    jnp = jax.numpy

    def mlp(w1: Any, b1: Any, w2: Any, x: Any, y: Any) -> Any:
        def loss(w: Any) -> Any:
            return jnp.mean((jnp.tanh(x @ w[0] + w[1]) @ w[2] - y) ** 2)

        value, slopes = jax.value_and_grad(loss)((w1, b1, w2))
        return value, [w - 0.1 * s for w, s in zip((w1, b1, w2), slopes, strict=True)]

    layouts = {
        "data": ("8 16", "16", "16 4", "8@X 8", "8@X 4"),
        "tensor": ("8 16@X", "16@X", "16@X 4", "8 8", "8 4"),
        "sharded": ("8@X 16", "16@X", "16@X 4", "8@X 8", "8@X 4"),
        "both": ("8 16@Y", "16@Y", "16@Y 4", "8@X 8", "8@X 4"),
    }
    for name, operands in layouts.items():
        yield f"mlp {name}", mlp, operands

    def block(x: Any, wq: Any, wk: Any, wv: Any, wo: Any, w1: Any, w2: Any) -> Any:
        q, k, v = (jnp.einsum("bld,dhk->bhlk", x, w) for w in (wq, wk, wv))
        weights = jax.nn.softmax(jnp.einsum("bhlk,bhmk->bhlm", q, k))
        mixed = jnp.einsum("bhlm,bhmk->blhk", weights, v)
        y = x + jnp.einsum("blhk,hkd->bld", mixed, wo)
        y = (y - y.mean(-1, keepdims=True)) / jnp.sqrt(y.var(-1, keepdims=True) + 1e-5)
        return y + jax.nn.gelu(y @ w1) @ w2

    def block_step(x: Any, *w: Any) -> Any:
        value, slopes = jax.value_and_grad(lambda ws: (block(x, *ws) ** 2).mean())(w)
        return value, [p - 0.1 * s for p, s in zip(w, slopes, strict=True)]

    layouts = {
        "data": ("4@X 6 8", *("8 4 2",) * 3, "4 2 8", "8 16", "16 8"),
        "tensor": ("4 6 8", *("8 4@Y 2",) * 3, "4@Y 2 8", "8 16@Y", "16@Y 8"),
        "both": ("4@X 6 8", *("8 4@Y 2",) * 3, "4@Y 2 8", "8 16@Y", "16@Y 8"),
        "sharded": ("4@X 6 8", *("8@X 4 2",) * 3, "4@X 2 8", "8@X 16", "16@X 8"),
    }
    for name, operands in layouts.items():
        yield f"block {name}", block, operands
        yield f"block step {name}", block_step, operands


def parsed(operand: str) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """The shape, and the mesh axis of each array axis or None."""
    parts = [p.partition("@") for p in operand.split()]
    return tuple(int(n) for n, _, _ in parts), tuple(a or None for _, _, a in parts)


def shown(spec: Any, rank: int) -> str:
    """The spec of a result of that rank, each entry as mesh axes joined by commas."""
    entries = [*spec, *(None,) * (rank - len(spec))]
    axes = [(e,) if isinstance(e, str) else tuple(e or ()) for e in entries]
    return " ".join(",".join(a) or "-" for a in axes)
