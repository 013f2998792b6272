"""Keys of programs, and what they are for: eager loops and `shard_map`s are partitioned once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.core.fingerprint import fingerprint
from xpr.dispatch import spmd_eager
from xpr.sharding import Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P

MESH = Mesh(np.array(xpr.devices("cpu")[:4]), ("x",))
X = np.arange(8, dtype=np.float32)


def key(function: Callable[..., Any], *args: Any) -> Any:
    return fingerprint(xpr.make_jaxpr(function)(*args))


def test_the_same_program_has_the_same_key() -> None:
    def make(scale: Any) -> Callable[[Any], Any]:
        return lambda x: lax.fori_loop(0, 3, lambda _, c: jnp.sin(c) * scale, x)

    assert key(make(2.0), X) == key(make(2.0), X)
    assert hash(key(make(2.0), X)) == hash(key(make(2.0), X))
    assert key(make(2.0), X) != key(make(3.0), X)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda x: x * 0.0, lambda x: x * -0.0),
        (lambda x: x + 1, lambda x: x - 1),
        (lambda x: (x, x * 2), lambda x: (x * 2, x)),
        (lambda x: jnp.sum(x, axis=0), lambda x: jnp.max(x, axis=0)),
        (lambda x: x.astype("int32"), lambda x: x.astype("int16")),
        (lambda x: x - x * 2, lambda x: x * 2 - x),
    ],
)
def test_different_programs_have_different_keys(one: Any, other: Any) -> None:
    assert key(one, X) != key(other, X)


def test_what_cannot_be_compared() -> None:
    closes = xpr.make_jaxpr(lambda x: x + np.ones(8, "f"))(X)
    again = xpr.make_jaxpr(lambda x: x + np.ones(8, "f"))(X)
    assert fingerprint(closes) == fingerprint(closes)
    assert fingerprint(closes) != fingerprint(again)
    with pytest.raises(TypeError, match="unhashable"):
        fingerprint([1])


def test_an_eager_shard_map_is_traced_each_time_and_partitioned_once() -> None:
    x = xpr.device_put(X, NamedSharding(MESH, P("x")))
    scale, seen = 2.0, []

    def body(v: Any) -> Any:
        seen.append(scale)
        return lax.psum(v * scale, "x")

    mapped = xpr.shard_map(body, mesh=MESH, in_specs=P("x"), out_specs=P())
    spmd_eager.clear()
    for _ in range(3):
        np.testing.assert_array_equal(mapped(x), X.reshape(4, 2).sum(0) * 2)
    assert len(spmd_eager._kept) == 1
    scale = 3.0
    np.testing.assert_array_equal(mapped(x), X.reshape(4, 2).sum(0) * 3)
    assert len(spmd_eager._kept) == 2
    assert seen == [2.0, 2.0, 2.0, 3.0]


def test_an_eager_loop_is_partitioned_once() -> None:
    x = xpr.device_put(X, NamedSharding(MESH, P("x")))
    spmd_eager.clear()
    for _ in range(3):
        _, out = lax.scan(lambda c, v: (c + v, c), 0.0, x)
        np.testing.assert_array_equal(out, np.cumsum(X) - X)
    assert len(spmd_eager._kept) <= 2
