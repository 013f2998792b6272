"""`out_sharding` of every function that has it: values of NumPy's, sharded as was said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.errors import ShardingTypeError
from xpr.sharding import PartitionSpec as P

A = np.arange(32, dtype=np.float32).reshape(8, 4) / 8
B = np.arange(16, dtype=np.float32).reshape(4, 4) / 4
T = np.arange(64, dtype=np.float32).reshape(2, 8, 4) / 16
ROW = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
I = np.arange(8, dtype=np.int32) % 4  # noqa: E741
ADDED = A.copy()
np.add.at(ADDED, I, 1)

Case = tuple[Callable[..., Any], tuple[np.ndarray, ...], np.ndarray]
CASES: dict[str, Case] = {
    "matmul": (lambda o, a, b: jnp.matmul(a, b, out_sharding=o), (A, B), A @ B),
    "matmul of stacks": (lambda o, a, b: jnp.matmul(a, b, out_sharding=o), (T, B), T @ B),
    "matmul with an axis of size 1": (
        lambda o, a, b: jnp.matmul(a, b.transpose(0, 2, 1), out_sharding=o),
        (T, ROW),
        T @ ROW.transpose(0, 2, 1),
    ),
    "dot": (lambda o, a, b: jnp.dot(a, b, out_sharding=o), (A, B), A @ B),
    "tensordot": (lambda o, a, b: jnp.tensordot(a, b, axes=1, out_sharding=o), (A, B), A @ B),
    "lax.dot": (lambda o, a, b: lax.dot(a, b, out_sharding=o), (A, B), A @ B),
    "einsum": (lambda o, a, b: jnp.einsum("ij,jk->ki", a, b, out_sharding=o), (A, B), (A @ B).T),
    "einsum of three": (
        lambda o, a, b: jnp.einsum("ij,jk,kl->il", a, b, b, out_sharding=o),
        (A, B),
        A @ B @ B,
    ),
    "reshape": (lambda o, a: jnp.reshape(a, (4, 8), out_sharding=o), (A,), A.reshape(4, 8)),
    "reshape in order F": (
        lambda o, a: jnp.reshape(a, (4, 8), order="F", out_sharding=o),
        (A,),
        A.reshape((4, 8), order="F"),
    ),
    "method reshape": (lambda o, a: a.reshape(4, 8, out_sharding=o), (A,), A.reshape(4, 8)),
    "method ravel": (lambda o, a: a.ravel(out_sharding=o), (A,), A.ravel()),
    "method flatten": (lambda o, a: a.flatten(out_sharding=o), (A,), A.ravel()),
    "method repeat": (lambda o, a: a.repeat(2, 1, out_sharding=o), (A,), A.repeat(2, 1)),
    "broadcast_to": (
        lambda o, a: jnp.broadcast_to(a, (2, 8, 4), out_sharding=o),
        (A,),
        np.broadcast_to(A, (2, 8, 4)),
    ),
    "at.get": (lambda o, b, i: b.at[i].get(out_sharding=o), (B, I), B[I]),
    "at.add": (lambda o, a, i: a.at[i].add(1.0, out_sharding=o), (A, I), ADDED),
    "at.divide": (
        lambda o, a: a.at[0].divide(2.0, out_sharding=o),
        (A,),
        np.concatenate([A[:1] / 2, A[1:]]),
    ),
    "at.power": (
        lambda o, a: a.at[1].power(2.0, out_sharding=o),
        (A,),
        np.concatenate([A[:1], A[1:2] ** 2, A[2:]]),
    ),
    "full": (lambda o: jnp.full((8, 4), 3, out_sharding=o), (), np.full((8, 4), 3)),
    "arange": (lambda o: jnp.arange(8, out_sharding=o), (), np.arange(8)),
    "array": (lambda o: jnp.array(A, out_sharding=o), (), A),
}
PLACES = [P(), P("x"), P(None, "y"), P("y", "x")]
SOURCES = [P(), P("x"), P(None, "x"), P("y", "x")]


@pytest.fixture(autouse=True)
def mesh() -> Iterator[Any]:
    made = xpr.make_mesh((2, 2), ("x", "y"))
    with xpr.set_mesh(made):
        yield made


def _sources(args: tuple[np.ndarray, ...], start: int) -> list[Any]:
    """The operands, sharded in one of several ways that need not go together."""
    found = []
    for i, a in enumerate(args):
        specs = [s for s in SOURCES if len(s) <= a.ndim and a.shape[0] % 2 == 0] or [P()]
        found.append(xpr.device_put(a, specs[(start + i) % len(specs)]))
    return found


def _check(name: str, x: Any, place: P) -> None:
    np.testing.assert_allclose(x, CASES[name][2], rtol=1e-5, err_msg=name)
    whole = P(*place, *(None,) * (x.ndim - len(place)))
    assert xpr.typeof(x).sharding.spec == whole, (name, xpr.typeof(x), place)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_outside_programs(place: P) -> None:
    for name, (f, args, wanted) in CASES.items():
        if len(place) <= wanted.ndim:
            for start in (0, 1, 3):
                _check(name, f(place, *_sources(args, start)), place)


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("start", [1, 3])
def test_in_a_program(place: P, start: int) -> None:
    fitting = {k: v for k, v in CASES.items() if len(place) <= v[2].ndim}
    args = {k: _sources(v[1], start) for k, v in fitting.items()}
    found = xpr.jit(lambda args: {k: v[0](place, *args[k]) for k, v in fitting.items()})(args)
    for name, x in found.items():
        _check(name, x, place)


def test_gradients_are_sharded_as_operands() -> None:
    for name in ("matmul", "einsum", "reshape", "method repeat", "at.add"):
        f, args, _ = CASES[name]
        xs = _sources(args, 1)
        first = xpr.grad(lambda x, *rest: jnp.sum(f(P("x"), x, *rest) ** 2))(*xs)  # noqa: B023
        alone = xpr.grad(lambda x, *rest: jnp.sum(f(None, x, *rest) ** 2))(*map(jnp.asarray, args))  # noqa: B023
        np.testing.assert_allclose(first, alone, rtol=1e-5, err_msg=name)
        assert first.sharding.is_equivalent_to(xs[0].sharding, first.ndim), name


def test_contradictions_without_it_are_errors() -> None:
    a, b = xpr.device_put(A, P(None, "y")), xpr.device_put(B, P("x", None))
    with pytest.raises(ShardingTypeError, match=r"contracting dimensions to have consistent"):
        xpr.jit(jnp.matmul)(a, b)
    s, t = xpr.device_put(T, P("x", None, None)), xpr.device_put(T, P("y", None, None))
    with pytest.raises(ShardingTypeError, match="lhs batch dimensions and rhs batch dimensions to"):
        xpr.jit(lambda s, t: jnp.einsum("bij,bij->b", s, t))(s, t)
