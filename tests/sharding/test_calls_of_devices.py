"""Calls of jitted functions on arrays of several devices, again and again, in many forms.

All of it holds with the native part and without. Where it runs programs, most of these calls need
no Python code; `Counted` says which do.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.core.config import override
from xpr.runtimes.extension import native
from xpr.runtimes.queue import barrier, queue_of
from xpr.sharding import AxisType, Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P
from xpr.transforms import jit as jit_module

CPUS = xpr.devices("cpu")
MESH = Mesh(np.array(CPUS[:8]), ("x",))
PLANE = Mesh(np.array(CPUS[:4]).reshape(2, 2), ("x", "y"))
ROWS, WHOLE = NamedSharding(MESH, P("x")), NamedSharding(MESH, P())

ANSWERS = native().executor is not None and not native().checks
"""Whether calls of programs without collectives need no Python code."""


class Counted:
    """How many calls Python code has answered: the first ones of their kind, and others."""

    def __init__(self) -> None:
        self.first = 0
        self.others = 0


@contextmanager
def counted() -> Iterator[Counted]:
    """Counts calls in the block. Without the native part all are answered in Python: none count."""
    found = Counted()
    if native().module is None:
        yield found
        return
    kind = jit_module.NativeJittedFunction

    def counting(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            setattr(found, name, getattr(found, name) + 1)
            return method(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "_answer_first_call", counting("first", kind._answer_first_call))
        patch.setattr(kind, "_call_in_python", counting("others", kind._call_in_python))
        yield found


def spread(values: Any, sharding: NamedSharding = ROWS) -> Any:
    return xpr.device_put(np.asarray(values), sharding)


def random(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


# ---- values


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.complex64])
@pytest.mark.parametrize("shape", [(8,), (16, 3), (8, 0), (0, 4), (8, 5, 2)])
def test_values_types_and_shardings(shape: tuple[int, ...], dtype: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 12, shape).astype(dtype) for _ in range(2))
    f = xpr.jit(lambda x, y: (x * y, x - y))
    for sharding in (ROWS, WHOLE):
        x, y = spread(a, sharding), spread(b, sharding)
        for _ in range(3):
            product, difference = f(x, y)
            for found, wanted in ((product, a * b), (difference, a - b)):
                assert type(found) is type(x)
                assert found.committed
                assert found.sharding == sharding
                assert found.dtype == dtype
                assert [s.device for s in found.addressable_shards] == list(CPUS[:8])
                np.testing.assert_array_equal(np.asarray(found), wanted)


SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45, 3.4e38, -1.5], np.float32)


def test_special_values() -> None:
    f = xpr.jit(lambda x: (-x, x * 1, x < 0, jnp.isnan(x)))
    x = spread(SPECIAL)
    for _ in range(3):
        negative, same, less, is_nan = (np.asarray(v) for v in f(x))
        np.testing.assert_array_equal(np.signbit(negative), ~np.signbit(SPECIAL))
        # Numbers below the smallest normal one may count as zero.
        np.testing.assert_array_equal(same[[0, 1, 2, 3, 4, 6, 7]], SPECIAL[[0, 1, 2, 3, 4, 6, 7]])
        np.testing.assert_array_equal(less, SPECIAL < 0)
        np.testing.assert_array_equal(is_nan, np.isnan(SPECIAL))


def test_calls_are_answered_without_python() -> None:
    f = xpr.jit(lambda x, t, *, scale: {"a": x * scale, "b": [t["k"] - x, None]})
    x, k = random(16, 2), random(16, 2, seed=1)
    args = (spread(x), {"k": spread(k)})
    with counted() as calls:
        for _ in range(10):
            found = f(*args, scale=2.0)
            np.testing.assert_array_equal(np.asarray(found["a"]), x * 2)
            np.testing.assert_array_equal(np.asarray(found["b"][0]), k - x)
            assert found["b"][1] is None
    if ANSWERS:
        assert (calls.first, calls.others) == (1, 0)


def test_dictionaries_and_keywords_in_any_order() -> None:
    f = xpr.jit(lambda t, *, c, d: t["a"] - t["b"] * 10 + c * 100 + d["y"] * 1000 - d["x"])
    one, two, three, four, five = (spread(np.full(8, i, "f")) for i in range(1, 6))
    for _ in range(3):
        for t in ({"a": one, "b": two}, {"b": two, "a": one}):
            for d in ({"y": four, "x": five}, {"x": five, "y": four}):
                for found in (f(t, c=three, d=d), f(t, d=d, c=three)):
                    np.testing.assert_array_equal(np.asarray(found), np.full(8, 4276, "f"))


def test_results_are_arguments_of_the_next_call() -> None:
    f = xpr.jit(lambda x: x * 0.5 + 1)
    x = spread(random(8, 3))
    wanted = np.asarray(x)
    with counted() as calls:
        for _ in range(20):
            x, wanted = f(x), wanted * np.float32(0.5) + 1
    np.testing.assert_allclose(np.asarray(x), wanted, rtol=1e-6)
    if ANSWERS:
        assert (calls.first, calls.others) == (1, 0)


def test_equal_shardings_are_one_kind_of_call() -> None:
    f = xpr.jit(lambda x, y: x + y)
    a = random(8)
    with counted() as calls:
        for _ in range(10):
            x, y = (spread(a, NamedSharding(MESH, P("x"))) for _ in range(2))
            np.testing.assert_array_equal(np.asarray(f(x, y)), a + a)
        other = Mesh(np.array(CPUS[:8]), ("x",))
        z = spread(a, NamedSharding(other, P("x")))
        np.testing.assert_array_equal(np.asarray(f(z, z)), a + a)
    if ANSWERS:
        assert (calls.first, calls.others) == (1, 0)
        assert len(f._cache.native) == 1


def test_shardings_that_differ_are_other_kinds_of_calls() -> None:
    f = xpr.jit(lambda x, y: x - 2 * y)
    a, b = random(8, 4), random(8, 4, seed=1)
    places = [NamedSharding(MESH, p) for p in (P("x"), P(), P(None, None))]
    places += [NamedSharding(PLANE, p) for p in (P("x"), P("y", "x"), P(("x", "y")), P(None, "y"))]
    for _ in range(3):
        for one in places:
            for two in places:
                if one.mesh == two.mesh:
                    found = f(spread(a, one), spread(b, two))
                    np.testing.assert_allclose(np.asarray(found), a - 2 * b, rtol=1e-6)
                    assert set(found.devices()) == set(one.mesh.devices.flat)


def test_devices_in_another_order() -> None:
    back = NamedSharding(Mesh(np.array(CPUS[7::-1]), ("x",)), P("x"))
    a = random(8)
    f = xpr.jit(lambda x: x * 3)
    for _ in range(3):
        for sharding in (ROWS, back):
            found = f(spread(a, sharding))
            np.testing.assert_array_equal(np.asarray(found), a * 3)
            assert found.sharding == sharding
            assert [s.device for s in found.addressable_shards] == [*sharding.mesh.devices.flat]


def test_explicit_axes_are_in_the_types() -> None:
    mesh = Mesh(np.array(CPUS[:4]), ("x",), axis_types=(AxisType.Explicit,))
    a = random(8, 3)
    x = spread(a, NamedSharding(mesh, P("x")))
    f = xpr.jit(lambda v: jnp.sin(v) * 2)
    for _ in range(3):
        found = f(x)
        np.testing.assert_allclose(np.asarray(found), np.sin(a) * 2, rtol=1e-5, atol=1e-6)
        assert found.aval.str_short() == x.aval.str_short()
        assert found.aval.sharding == x.aval.sharding


def test_replicated_results_share_memory_and_are_deleted_one_by_one() -> None:
    f = xpr.jit(lambda x: x + 1)
    a = random(4096)
    x = spread(a, WHOLE)
    for _ in range(3):
        found = f(x)
        parts = [np.asarray(s.data) for s in found.addressable_shards]
        assert all(np.shares_memory(parts[0], p) for p in parts[1:])
        again = f(found)
        found.delete()
        for p in parts:
            np.testing.assert_array_equal(p, a + 1)
        np.testing.assert_array_equal(np.asarray(again), a + 1 + 1)


def test_programs_that_depend_on_the_number_of_the_device() -> None:
    """A replicated operand beside a sharded one is cut where each device is."""
    a, b = random(16, 2), random(16, 2, seed=1)
    f = xpr.jit(lambda x, y: x * y + 1)
    x, y = spread(a), spread(b, WHOLE)
    with counted() as calls:
        for _ in range(5):
            found = f(x, y)
            np.testing.assert_allclose(np.asarray(found), a * b + 1, rtol=1e-6)
    if ANSWERS:
        assert calls.others == 0


def test_shard_map_without_collectives() -> None:
    def body(x: Any) -> Any:
        return x + lax.axis_index("x")

    f = xpr.jit(xpr.shard_map(body, mesh=MESH, in_specs=P("x"), out_specs=P("x")))
    a = random(16)
    x = spread(a)
    with counted() as calls:
        for _ in range(5):
            np.testing.assert_allclose(np.asarray(f(x)), a + np.repeat(np.arange(8), 2), rtol=1e-6)
    if ANSWERS:
        assert calls.others == 0


def test_sums_over_all_devices() -> None:
    """What one device computes for all may add up the parts of all."""
    f = xpr.jit(lambda x, w: (w - 0.5 * (x * w).sum(0), x * 2))
    a, w = random(16, 3), random(3, seed=1)
    x, y = spread(a), spread(w, WHOLE)
    with counted() as calls:
        for _ in range(5):
            less, double = f(x, y)
            np.testing.assert_allclose(
                np.asarray(less), w - 0.5 * (a * w).sum(0), rtol=1e-5, atol=1e-5
            )
            np.testing.assert_array_equal(np.asarray(double), a * 2)
            assert less.sharding.is_fully_replicated
            for part in less.addressable_shards:
                np.testing.assert_array_equal(np.asarray(part.data), np.asarray(less))
    if ANSWERS:
        assert (calls.first, calls.others) == (1, 0)


@pytest.mark.parametrize("donates", [False, True])
def test_steps_of_training(donates: bool) -> None:
    def step(state: Any, x: Any, y: Any) -> Any:
        def loss(w: Any) -> Any:
            return ((jnp.tanh(x @ w) - y) ** 2).sum()

        slope = xpr.grad(loss)(state["w"])
        momentum = state["m"] * 0.5 + slope
        return {"w": state["w"] - 0.01 * momentum, "m": momentum, "n": state["n"] + 1}

    f = xpr.jit(step, donate_argnums=0 if donates else ())
    a, b, w = random(16, 6), random(16, 4, seed=1), random(6, 4, seed=2)
    m = np.zeros_like(w)
    x, y = spread(a), spread(b)
    state = {"w": spread(w, WHOLE), "m": spread(m, WHOLE), "n": spread(np.int32(0), WHOLE)}
    with counted() as calls:
        for i in range(6):
            old = state
            state = f(state, x, y)
            t = np.tanh(a @ w)
            m = m * np.float32(0.5) + a.T @ (2 * (t - b) * (1 - t * t))
            w = w - np.float32(0.01) * m
            np.testing.assert_allclose(np.asarray(state["w"]), w, rtol=1e-4, atol=1e-4)
            assert int(state["n"]) == i + 1
            assert all(leaf.is_deleted() == donates for leaf in old.values())
            for part in state["w"].addressable_shards:
                np.testing.assert_array_equal(np.asarray(part.data), np.asarray(state["w"]))
    if ANSWERS:
        assert calls.others == 0


def test_donated_replicated_arrays_that_somebody_else_sees() -> None:
    f = xpr.jit(lambda w, x: w + x.sum(0), donate_argnums=0)
    a, w = random(16, 512), random(512, seed=1)
    x = spread(a)
    once = f(spread(w, WHOLE), x)
    wanted = w + a.sum(0)
    for keep in (None, 0, 5):
        for _ in range(2):
            kept = None if keep is None else np.asarray(once.addressable_shards[keep].data)
            copy = None if kept is None else np.array(kept)
            after = f(once, x)
            wanted = wanted + a.sum(0)
            assert once.is_deleted()
            np.testing.assert_allclose(np.asarray(after), wanted, rtol=1e-4, atol=1e-3)
            if kept is not None:
                np.testing.assert_array_equal(kept, copy)
            once = after


def test_programs_with_collectives_stay_as_they_are() -> None:
    f = xpr.jit(lambda x: (x / x.max(), lax.sort(x)))
    a = random(16)
    x = spread(a)
    for _ in range(5):
        share, ordered = f(x)
        np.testing.assert_allclose(np.asarray(share), a / a.max(), rtol=1e-5)
        np.testing.assert_array_equal(np.asarray(ordered), np.sort(a))


def test_closed_over_arrays() -> None:
    a, b = random(8, 2), random(8, 2, seed=1)
    table = spread(b)
    f = xpr.jit(lambda x: x * table + np.arange(2, dtype=np.float32))
    x = spread(a)
    for _ in range(4):
        np.testing.assert_allclose(np.asarray(f(x)), a * b + np.arange(2), rtol=1e-6)


def test_loops_and_branches() -> None:
    def program(x: Any, n: Any) -> Any:
        y = lax.fori_loop(0, 5, lambda i, v: v * 0.5 + i, x)
        return lax.cond(n > 2, lambda v: v + 1, lambda v: v - 1, y)

    a = random(8, 4)
    f = xpr.jit(program)
    x = spread(a)
    for n in (1, 3, 1, 3, 3):
        y = a
        for i in range(5):
            y = y * np.float32(0.5) + i
        np.testing.assert_allclose(np.asarray(f(x, n)), y + (1 if n > 2 else -1), rtol=1e-6)


def test_larger_arrays_run_without_the_lock_and_by_threads() -> None:
    f = xpr.jit(lambda x: jnp.sqrt(abs(x)) + x)
    for rows in (8, 1 << 10, 1 << 14, 1 << 17):
        a = random(rows, 4)
        x = spread(a)
        for _ in range(3):
            np.testing.assert_allclose(np.asarray(f(x)), np.sqrt(abs(a)) + a, rtol=1e-5, atol=1e-6)


def test_results_that_are_arguments_and_results_that_are_equal() -> None:
    f = xpr.jit(lambda x, y: (x, y + 1, y + 1, {"x": x}))
    a, b = random(8), random(8, seed=1)
    for place in (ROWS, WHOLE):
        with counted() as calls:
            for _ in range(4):
                x, y = spread(a, place), spread(b, place)
                found = f(x, y)
                x.delete()
                found[0].delete()
                found[1].delete()
                np.testing.assert_array_equal(np.asarray(found[2]), b + 1)
                np.testing.assert_array_equal(np.asarray(found[3]["x"]), a)
                assert found[3]["x"].sharding == place
        if ANSWERS:
            assert (calls.first, calls.others) == (1, 0)


def test_donated_arrays_that_are_results() -> None:
    f = xpr.jit(lambda x, y: (x, x + y), donate_argnums=(0, 1))
    a, b = random(8, 1024), random(8, 1024, seed=1)
    for _ in range(4):
        x, y = spread(a), spread(b)
        same, total = f(x, y)
        assert x.is_deleted()
        assert y.is_deleted()
        np.testing.assert_array_equal(np.asarray(same), a)
        np.testing.assert_array_equal(np.asarray(total), a + b)
        for _ in range(3):
            one, two = f(same, total)
            np.testing.assert_array_equal(np.asarray(one), a)
            same, total = one, two


def test_arguments_that_are_not_used() -> None:
    f = xpr.jit(lambda x, y: x + 1)
    a = random(8)
    x, y = spread(a), spread(random(8, 8))
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(f(x, y)), a + 1)
    y.delete()
    with pytest.raises(RuntimeError, match=r"deleted with shape=float32\[8,8\]"):
        f(x, y)


def test_static_arguments_and_methods() -> None:
    class Scaled:
        def __init__(self, by: float) -> None:
            self.by = by

        @xpr.jit
        def plus(self, x: Any) -> Any:  # `self` is no array
            return x

    f = xpr.jit(lambda x, n, *, how: x * n if how == "times" else x + n, static_argnums=1,
                static_argnames="how")  # fmt: skip
    a = random(8)
    x = spread(a)
    for _ in range(3):
        for n in (2, 3.0, 4):
            np.testing.assert_allclose(np.asarray(f(x, n, how="times")), a * n, rtol=1e-6)
            np.testing.assert_allclose(np.asarray(f(x, n, how="plus")), a + n, rtol=1e-6)
    with pytest.raises(TypeError, match="abstract array"):
        Scaled(2).plus(x)


def test_shardings_that_jit_is_told() -> None:
    a = random(8, 8)
    f = xpr.jit(lambda x: x * 2, in_shardings=ROWS, out_shardings=NamedSharding(MESH, P(None, "x")))
    g = xpr.jit(lambda: jnp.ones(8) * 3, out_shardings=ROWS)
    for _ in range(3):
        for x in (a, spread(a), jnp.asarray(a)):
            found = f(x)
            np.testing.assert_array_equal(np.asarray(found), a * 2)
            assert found.sharding.spec == P(None, "x")
        np.testing.assert_array_equal(np.asarray(g()), 3 * np.ones(8))
        assert g().sharding == ROWS
        with pytest.raises(ValueError, match="does not match"):
            f(spread(a, NamedSharding(MESH, P(None, "x"))))


# ---- other leaves


def test_numbers_beside_arrays() -> None:
    f = xpr.jit(lambda x, n: x * n + n)
    a = random(16)
    x = spread(a)
    numbers = [2, -3, 2.5, float("inf"), -0.0, True, 2 + 1j, np.float32(4), np.int32(3)]
    for _ in range(3):
        for n in numbers:
            with np.errstate(invalid="ignore"):
                wanted = np.asarray(a * np.asarray(n) + np.asarray(n))
            found = np.asarray(f(x, n))
            np.testing.assert_allclose(found, wanted.astype(found.dtype), rtol=1e-6)
    with pytest.raises(OverflowError):
        f(x, 1 << 40)
    with pytest.raises(OverflowError):
        f(x, -(1 << 40))


def test_arrays_of_one_device_and_of_numpy_beside_arrays_of_several() -> None:
    f = xpr.jit(lambda x, y: x + y)
    a, b = random(8), random(8, seed=1)
    x = spread(a)
    for _ in range(3):
        for y in (b, jnp.asarray(b), xpr.device_put(b, CPUS[0])):
            if isinstance(y, np.ndarray) or not y.committed:
                np.testing.assert_array_equal(np.asarray(f(x, y)), a + b)
            else:
                with pytest.raises(ValueError, match="incompatible devices"):
                    f(x, y)


def test_numbers_under_a_transfer_guard() -> None:
    f = xpr.jit(lambda x, n: x + n)
    x = spread(np.ones(8, "f"))
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(f(x, 2.0)), np.full(8, 3))
        with xpr.transfer_guard("disallow_explicit"):
            with pytest.raises(RuntimeError, match="transfer"):
                f(x, 2.0)


def test_tracers_and_other_transformations() -> None:
    f = xpr.jit(lambda x, y: jnp.sin(x) * y)
    a, b = random(8), random(8, seed=1)
    x, y = spread(a), spread(b)
    for _ in range(3):
        np.testing.assert_allclose(np.asarray(f(x, y)), np.sin(a) * b, rtol=1e-5, atol=1e-6)
        slope = xpr.grad(lambda v: f(v, y).sum())(x)
        np.testing.assert_allclose(np.asarray(slope), np.cos(a) * b, rtol=1e-5, atol=1e-6)
        rows = xpr.vmap(f, in_axes=(0, None))(x.reshape(8, 1), y)
        np.testing.assert_allclose(
            np.asarray(rows), np.sin(a)[:, None] * b[None], rtol=1e-5, atol=1e-6
        )
        outer = xpr.jit(lambda v: f(v, v) + 1)(x)
        np.testing.assert_allclose(np.asarray(outer), np.sin(a) * a + 1, rtol=1e-5, atol=1e-6)


# ---- settings


def test_nans_are_looked_for() -> None:
    f = xpr.jit(lambda x: jnp.log(x))
    x = spread(np.array([1, 2, -1, 4, 5, 6, 7, 8], "f"))
    for _ in range(3):
        assert np.isnan(np.asarray(f(x))[2])
        with override("debug_nans", True):
            for _ in range(2):
                with pytest.raises(FloatingPointError, match="nan"):
                    f(x)


def test_jit_that_is_switched_off() -> None:
    seen: list[Any] = []

    def program(x: Any) -> Any:
        seen.append(x)
        return x + 1

    f = xpr.jit(program)
    x = spread(np.arange(8, dtype="f"))
    for _ in range(2):
        f(x)
        f(x)
        with xpr.disable_jit():
            np.testing.assert_array_equal(np.asarray(f(x)), np.arange(1, 9))
        assert seen[-1] is x


def test_programs_are_seen_by_profiles(tmp_path: Any) -> None:
    def shown_program(x: Any) -> Any:
        return x * 7

    f = xpr.jit(shown_program)
    x = spread(np.arange(8, dtype="f"))
    for _ in range(2):
        f(x)
    with xpr.profiler.trace(tmp_path):
        np.testing.assert_array_equal(np.asarray(f(x)), 7 * np.arange(8))
    texts = [p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()]
    assert any(b"shown_program" in t for t in texts) or any(t[:2] == b"\x1f\x8b" for t in texts)


def test_caches_are_cleared() -> None:
    f = xpr.jit(lambda x: x + 1)
    a = np.arange(8, dtype="f")
    for _ in range(3):
        x = spread(a)
        for _ in range(3):
            np.testing.assert_array_equal(np.asarray(f(x)), a + 1)
        f.clear_cache()
        np.testing.assert_array_equal(np.asarray(f(x)), a + 1)
        xpr.clear_caches()


# ---- deleted and donated arrays


def test_deleted_arrays() -> None:
    f = xpr.jit(lambda x, y: x + y)
    for place in (ROWS, WHOLE):
        x, y = spread(np.ones((8, 2), "f"), place), spread(np.ones((8, 2), "f"), place)
        for _ in range(2):
            f(x, y)
        x.delete()
        for args in ((x, y), (y, x), (x, x)):
            with pytest.raises(
                RuntimeError, match=r"Array has been deleted with shape=float32\[8,2\]"
            ):
                f(*args)
        np.testing.assert_array_equal(np.asarray(f(y, y)), np.full((8, 2), 2, "f"))
        y._buffers[3].delete()
        with pytest.raises(RuntimeError, match=r"Array has been deleted with shape=float32\[8,2\]"):
            f(y, y)


def test_donated_arrays_are_given_up_and_written_to() -> None:
    f = xpr.jit(lambda x, y: x * 2 + y, donate_argnums=0)
    a, b = random(8, 1024), random(8, 1024, seed=1)
    y = spread(b)
    with counted() as calls:
        x = f(spread(a), y)
        wanted = a * 2 + b
        for _ in range(5):
            old = [s.data.unsafe_buffer_pointer() for s in x.addressable_shards]
            z = f(x, y)
            wanted = wanted * 2 + b
            new = [s.data.unsafe_buffer_pointer() for s in z.addressable_shards]
            if native().executor is not None and not native().checks:
                assert old == new
            assert x.is_deleted()
            assert not y.is_deleted()
            with pytest.raises(RuntimeError, match="deleted"):
                np.asarray(x)
            with pytest.raises(RuntimeError, match=r"deleted with shape=float32\[8,1024\]"):
                f(x, y)
            x = z
        np.testing.assert_allclose(np.asarray(x), wanted, rtol=1e-5)
    if ANSWERS:
        assert calls.first == 1
        assert calls.others == 5  # those with deleted arrays


def test_donations_beside_queues_that_have_run_their_programs() -> None:
    """A device that once had a program in its queue is as good as one that never had."""
    f = xpr.jit(lambda x, y: x * 2 + y, donate_argnums=0)
    g = xpr.jit(lambda x: x + 3, donate_argnums=0)
    a, b = random(8, 64), random(8, 64, seed=1)
    for device in CPUS[:8]:
        queue_of(device).call(tuple)
    x, y = f(spread(a), spread(b)), spread(b)
    z = g(xpr.device_put(a, CPUS[0]))
    barrier()
    with counted() as calls:
        for _ in range(4):
            x, z = f(x, y), g(z)
    wanted = a
    for _ in range(5):
        wanted = wanted * 2 + b
    np.testing.assert_allclose(np.asarray(x), wanted, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(z), a + 15, rtol=1e-5)
    if ANSWERS:
        assert calls.others == 0


def test_donated_arrays_that_somebody_else_sees() -> None:
    f = xpr.jit(lambda x: x + 1, donate_argnums=0)
    a = random(8, 1024)
    for keep in (False, True):
        for _ in range(3):
            x = spread(a)
            seen = [np.asarray(s.data) for s in x.addressable_shards] if keep else []
            copies = [np.array(s) for s in seen]
            found = f(x)
            assert x.is_deleted()
            np.testing.assert_array_equal(np.asarray(found), a + 1)
            for one, other in zip(seen, copies, strict=True):
                np.testing.assert_array_equal(one, other)


def test_donated_arrays_that_are_given_twice() -> None:
    f = xpr.jit(lambda x, y: x + y, donate_argnums=0)
    for _ in range(3):
        f(spread(np.ones(8, "f")), spread(np.ones(8, "f")))
        x = spread(np.ones(8, "f"))
        with pytest.raises(RuntimeError, match="previously donated in the same call"):
            f(x, x)


def test_donated_replicated_arrays() -> None:
    f = xpr.jit(lambda x: x + 1, donate_argnums=0)
    a = random(4096)
    x, wanted = spread(a, WHOLE), a
    for _ in range(4):
        y = f(x)
        wanted = wanted + 1
        assert x.is_deleted()
        for s in y.addressable_shards:
            np.testing.assert_array_equal(np.asarray(s.data), wanted)
        x = y


def test_donated_arrays_that_are_not_usable() -> None:
    f = xpr.jit(lambda x, y: x[:, 0] + y, donate_argnums=(0, 1))
    a, b = random(8, 4), random(8, seed=1)
    with pytest.warns(UserWarning, match="donated buffers were not usable"):
        np.testing.assert_allclose(np.asarray(f(spread(a), spread(b))), a[:, 0] + b, rtol=1e-6)
    for _ in range(3):
        x, y = spread(a), spread(b)
        np.testing.assert_allclose(np.asarray(f(x, y)), a[:, 0] + b, rtol=1e-6)
        assert x.is_deleted()
        assert y.is_deleted()


# ---- life times, threads and processes


def test_nothing_is_kept_after_a_call() -> None:
    f = xpr.jit(lambda x: x * 2)
    x = spread(random(8, 16))
    for _ in range(2):
        f(x)
    gone = weakref.ref(x)
    y = f(x)
    kept = weakref.ref(y)
    del x, y
    gc.collect()
    assert gone() is None
    assert kept() is None


def test_many_calls_keep_no_memory() -> None:
    f = xpr.jit(lambda x, n: x + n)
    x = spread(random(8, 64))
    for _ in range(2):
        f(x, 1.0)
    executor = native().executor
    gc.collect()
    before = 0 if executor is None else executor.bytes_in_use()
    for i in range(2000):
        f(x, float(i))
    gc.collect()
    if executor is not None:
        assert executor.bytes_in_use() <= before


def test_threads_call_one_function() -> None:
    f = xpr.jit(lambda x, n: jnp.tanh(x) * n)
    a = random(8, 512)
    x = spread(a)
    f(x, 1.0)
    wrong: list[Any] = []

    def work(n: float) -> None:
        for _ in range(50):
            found = np.asarray(f(x, n))
            if not np.allclose(found, np.tanh(a) * n, rtol=1e-5, atol=1e-6):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(float(n),)) for n in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(300)
        assert not t.is_alive(), "a call hangs"
    assert not wrong


_FORKED = """
import os
import numpy as np
import xpr
from xpr.sharding import Mesh, NamedSharding, PartitionSpec as P

sharding = NamedSharding(Mesh(np.array(xpr.devices("cpu")), ("x",)), P("x"))
x = xpr.device_put(np.arange(8, dtype="f"), sharding)
f = xpr.jit(lambda x: x * 2 + 1)
f(x), f(x)
child = os.fork()
found = np.asarray(f(x)).tolist() == [1, 3, 5, 7, 9, 11, 13, 15]
if child == 0:
    os._exit(0 if found else 1)
assert found
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("well")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_calls_after_a_fork() -> None:
    environment = {**os.environ, "XPR_NUM_CPU_DEVICES": "8"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _FORKED],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.stdout == "well\n", done.stderr
