"""Functions of this process called from programs that several devices run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.sharding import Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P

MESH = Mesh(np.array(xpr.devices("cpu")[:4]), ("x",))


def sharded(n: int = 8) -> Any:
    return xpr.device_put(np.arange(n, dtype=np.float32), NamedSharding(MESH, P("x")))


def shape_of(x: Any) -> Any:
    return xpr.ShapeDtypeStruct(x.shape, x.dtype)


def test_a_callback_sees_the_whole_array_once() -> None:
    seen: list[Any] = []

    def doubled(v: Any) -> Any:
        seen.append(np.array(v))
        return v * 2

    @xpr.jit
    def f(x: Any) -> Any:
        return xpr.pure_callback(doubled, shape_of(x), x) + 1

    out = f(sharded())
    np.testing.assert_array_equal(out, np.arange(8) * 2 + 1)
    assert len(seen) == 1
    np.testing.assert_array_equal(seen[0], np.arange(8))


def test_ordered_effects_keep_their_order() -> None:
    seen: list[str] = []

    def note(name: str) -> Any:
        return lambda v: seen.append(f"{name} {float(v):g}")

    @xpr.jit
    def f(x: Any) -> Any:
        xpr.debug.callback(note("first"), x.sum(), ordered=True)

        def body(c: Any, _: Any) -> Any:
            xpr.debug.callback(note("step"), c.sum(), ordered=True)
            return c + 1, None

        y, _ = lax.scan(body, x, None, length=2)
        xpr.debug.callback(note("last"), y.sum(), ordered=True)
        return y

    f(sharded()).block_until_ready()
    xpr.effects_barrier()
    assert seen == ["first 28", "step 28", "step 36", "last 44"]


def test_inside_shard_map_each_device_calls() -> None:
    seen: list[Any] = []

    def note(i: Any, v: Any) -> None:
        seen.append((int(i), v.tolist()))

    def f(v: Any) -> Any:
        xpr.debug.callback(note, lax.axis_index("x"), v)
        return v

    xpr.jit(xpr.shard_map(f, mesh=MESH, in_specs=P("x"), out_specs=P("x")))(sharded())
    xpr.effects_barrier()
    assert sorted(seen) == [(i, [2.0 * i, 2.0 * i + 1]) for i in range(4)]


def failing(_: Any) -> Any:
    raise ValueError("the callback of this test fails")


@pytest.mark.parametrize("only", [None, 2])
def test_a_device_whose_callback_raises_ends_the_others(only: int | None) -> None:
    def sometimes(i: Any, v: Any) -> Any:
        if only is None or int(i) == only:
            failing(v)
        return v

    def f(v: Any) -> Any:
        v = xpr.pure_callback(sometimes, shape_of(v), lax.axis_index("x"), v)
        return lax.fori_loop(0, 3, lambda i, c: lax.psum(c, "x") + i, lax.psum(v, "x"))

    run = xpr.jit(xpr.shard_map(f, mesh=MESH, in_specs=P("x"), out_specs=P()))
    with pytest.raises(ValueError, match="the callback of this test fails"):
        run(sharded())


def test_a_callback_that_raises_inside_a_loop() -> None:
    @xpr.jit
    def f(x: Any) -> Any:
        def body(_: Any, c: Any) -> Any:
            return c + xpr.pure_callback(failing, shape_of(x), x).sum()

        return lax.fori_loop(0, 3, body, jnp.float32(0))

    with pytest.raises(ValueError, match="the callback of this test fails"):
        f(sharded())
