"""What is the same on several devices is computed once, and shared without harm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.core.jaxpr_trace import hoist_consts
from xpr.sharding import Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P
from xpr.sharding.alike import by_spec, differ, of_variables
from xpr.sharding.partition import partition
from xpr.sharding.rule import Spec
from xpr.sharding.rules import load_all
from xpr.sharding.shared import Sharing
from xpr.sharding.stages import Stage, stages

CPUS = xpr.devices("cpu")
LINE, PLANE = {"d": 4}, {"d": 2, "m": 2}
RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype("f")


def cut(
    function: Callable[..., Any], sizes: dict[str, int], specs: list[Spec], *args: np.ndarray
) -> list[Stage]:
    load_all()
    closed = xpr.make_jaxpr(function)(*args)
    found = partition(closed, sizes, [], specs, [None] * len(closed.out_avals))
    local, made = hoist_consts(found.closed)
    size = int(np.prod(list(sizes.values())))
    places = (0,) * size
    given = [places for _ in made] + [differ(size)] + [by_spec(s, sizes) for s in found.in_specs]
    return stages(local, Sharing(size, of_variables(local.jaxpr, given, places)))


WHOLE: Spec = ((), ())
ROWS: Spec = (("d",), ())


def descend(w: Any, x: Any) -> Any:
    return w - 0.1 * (x.T @ jnp.tanh(x @ w)), jnp.sum(x)


def test_the_update_of_replicated_parameters_is_one_stage_with_its_sum() -> None:
    found = cut(descend, LINE, [WHOLE, ROWS], normal(6, 6), normal(8, 6))
    assert [s.alike for s in found] == [None, (0, 0, 0, 0)]
    assert len(found[1].summed) == 1
    # The other sum is a result as it is.
    assert [len(e.outvars) for e in found[0].collectives] == [1]
    names = [e.primitive.name for e in found[1].closed.eqns]
    assert names.count("add") == 3
    assert names[-1] == "sub"


def test_devices_along_another_axis_share_what_one_axis_cuts() -> None:
    found = cut(
        lambda w, x: w * (1 + jnp.sum(x, axis=0)),
        PLANE,
        [((), ("m",)), (("d",), ("m",))],
        normal(6, 8),
        normal(4, 8),
    )
    assert [s.alike for s in found] == [None, (0, 1, 0, 1)]
    assert found[1].summed == []  # two sums, each over two devices


def test_sums_that_are_reduced_further_keep_their_order() -> None:
    found = cut(
        lambda w, x: w * lax.rsqrt(jnp.sum(jnp.sum(x, axis=0) ** 2)),
        LINE,
        [WHOLE, ROWS],
        normal(6, 6),
        normal(8, 6),
    )
    assert [s.alike for s in found] == [None, (0, 0, 0, 0)]
    assert found[1].summed == []


def test_little_work_is_no_stage_of_its_own() -> None:
    def both(w: Any, x: Any) -> Any:
        return w + 1, x @ w

    small = cut(both, LINE, [WHOLE, ROWS], normal(6, 6), normal(8, 6))
    assert [s.alike for s in small] == [None]
    large = cut(both, LINE, [WHOLE, ROWS], normal(512, 512), normal(8, 512))
    assert sorted((s.alike for s in large), key=str) == [(0, 0, 0, 0), None]


def test_what_is_read_later_is_computed_later() -> None:
    def step(w: Any, x: Any) -> Any:
        decayed = w * 0.9
        return decayed - jnp.sum(jnp.tanh(x @ w)), w + 1

    found = cut(step, LINE, [WHOLE, ROWS], normal(512, 512), normal(8, 512))
    assert [s.alike for s in found] == [None, (0, 0, 0, 0)]
    assert [e.primitive.name for e in found[0].closed.eqns].count("mul") == 0


def test_callbacks_and_numbers_of_devices_are_everybodys_own() -> None:
    def calls(x: Any) -> Any:
        kind = xpr.ShapeDtypeStruct((512, 512), np.float32)
        return xpr.pure_callback(lambda v: v, kind, x) + lax.axis_index("d")

    mesh = Mesh(np.array(CPUS[:4]), ("d",))
    mapped = xpr.shard_map(calls, mesh=mesh, in_specs=P(), out_specs=P("d"), check_vma=False)
    out = np.asarray(xpr.jit(mapped)(np.zeros((512, 512), "f")))
    np.testing.assert_array_equal(out[::512, 0], np.arange(4))


# ---- runs


def mesh_of(sizes: dict[str, int]) -> Mesh:
    shape = tuple(sizes.values())
    return Mesh(np.array(CPUS[: int(np.prod(shape))]).reshape(shape), tuple(sizes))


@pytest.mark.parametrize("donated", [False, True])
def test_shared_results_are_nobodys_to_write(donated: bool) -> None:
    """Donated again and again, deleted, and kept: no array changes after it was made."""
    mesh = mesh_of(LINE)
    rows = xpr.device_put(normal(8, 96), NamedSharding(mesh, P("d")))
    step = xpr.jit(
        lambda w, m, x: (w - (0.5 * m + jnp.sum(x, axis=0)), 0.5 * m + jnp.sum(x, axis=0)),
        donate_argnums=(0, 1) if donated else (),
    )
    total = np.asarray(rows).sum(axis=0)
    w, m = (xpr.device_put(normal(96, 96), NamedSharding(mesh, P())) for _ in range(2))
    kept: list[tuple[Any, np.ndarray]] = []
    for i in range(6):
        expected_m = 0.5 * np.asarray(m) + total
        expected_w = np.asarray(w) - expected_m
        old = w
        part = w.addressable_shards[i % 4].data
        alone = xpr.jit(lambda v: v + 0)(part)  # on that device, from the shared memory
        kept.append((alone, np.array(alone)))
        w, m = step(w, m, rows)
        assert old.is_deleted() == donated
        np.testing.assert_allclose(w, expected_w, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(m, expected_m, rtol=1e-5, atol=1e-5)
        for shard in w.addressable_shards:
            assert shard.data.devices() == {shard.device}
            np.testing.assert_array_equal(shard.data, w)
        kept.append((w + 0, np.array(w)))
        if not donated:
            kept.append((w, np.array(w)))
    for array, values in kept:
        np.testing.assert_array_equal(array, values)
    if not donated:
        w._buffers[0].delete()
        np.testing.assert_array_equal(m, np.array(m))


def test_one_part_is_donated_and_the_others_stay() -> None:
    mesh = mesh_of(LINE)
    x = xpr.device_put(normal(8, 2000), NamedSharding(mesh, P("d")))
    total = xpr.jit(lambda x: jnp.sum(x, axis=0) * 2)(x)
    before = np.array(total)
    _, one, other, last = (shard.data for shard in total.addressable_shards)
    changed = xpr.jit(lambda v: v.at[0].set(7.0), donate_argnums=0)(one)
    assert changed[0] == 7
    np.testing.assert_array_equal(other, before)
    changed = xpr.jit(lambda v: v.at[0].set(8.0), donate_argnums=0)(other)
    assert changed[0] == 8
    np.testing.assert_array_equal(last, before)


def test_along_two_axes() -> None:
    mesh = mesh_of(PLANE)
    w, x = normal(8, 16), normal(4, 8)

    def step(w: Any, x: Any) -> Any:
        return w - 0.1 * (x.T @ jnp.tanh(x @ w))

    found = xpr.jit(step)(
        xpr.device_put(w, NamedSharding(mesh, P(None, "m"))),
        xpr.device_put(x, NamedSharding(mesh, P("d"))),
    )
    np.testing.assert_allclose(found, w - 0.1 * (x.T @ np.tanh(x @ w)), rtol=1e-5, atol=1e-5)
    for shard in found.addressable_shards:
        np.testing.assert_array_equal(shard.data, np.asarray(found)[shard.index])


def test_replicated_programs_run_on_one_device() -> None:
    mesh = mesh_of(LINE)
    x = xpr.device_put(normal(64, 64), NamedSharding(mesh, P()))
    out = xpr.jit(lambda x: jnp.sin(x) @ x)(x)
    np.testing.assert_allclose(out, np.sin(x) @ np.asarray(x), rtol=1e-5, atol=1e-5)
    starts = {s.data.unsafe_buffer_pointer() for s in out.addressable_shards}
    assert len(starts) == 1
    assert out.sharding == x.sharding
    np.testing.assert_allclose(x * 2 + out, np.asarray(x) * 2 + np.asarray(out))
