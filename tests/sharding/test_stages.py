"""Programs cut where devices meet: which collectives happen together."""

from collections.abc import Callable
from typing import Any

import numpy as np

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, sub_jaxprs
from xpr.core.jaxpr_trace import hoist_consts
from xpr.sharding.partition import partition
from xpr.sharding.rules import load_all
from xpr.sharding.stages import has_collectives, joined, stages


def _local(function: Callable[..., Any], *args: np.ndarray) -> ClosedJaxpr:
    """The program of one of four devices; the first axis of each argument is sharded."""
    load_all()
    closed = xpr.make_jaxpr(function)(*args)
    specs = [(("d",), *((),) * (x.ndim - 1)) for x in args]
    found = partition(closed, {"d": 4}, [], specs, [None] * len(closed.out_avals))
    return hoist_consts(found.closed)[0]


def test_equal_collectives_of_a_stage_are_one() -> None:
    x, y = np.ones((8, 3), np.float32), np.ones((4, 2, 5), np.float32)
    found = stages(_local(lambda x, y: (x.sum(0), y.sum(0), x.max(0), (x * x).sum(0)), x, y))
    sums, greatest = found[0].collectives
    assert [v.aval.shape for v in sums.invars] == [(3,), (2, 5), (3,)]
    assert [v.aval.shape for v in sums.outvars] == [(3,), (2, 5), (3,)]
    assert sums.params["collective"].op == "sum"
    assert sums.params["collective"].source.count("reduce_sum at ") == 3
    assert greatest.params["collective"].op == "max"
    assert len(greatest.invars) == 1


def test_a_collective_that_needs_another_waits_for_it() -> None:
    x = np.ones((8, 3), np.float32)
    found = stages(_local(lambda x: jnp.sum((x - x.sum(0)) ** 2, axis=0), x))
    assert [len(s.collectives) for s in found] == [1, 1, 0]


def _collectives(jaxpr: Jaxpr) -> list[int]:
    """How many arrays each collective of a program has, those of programs inside it, too."""
    found: list[int] = []
    for e in jaxpr.eqns:
        if e.primitive.name == "group_collective":
            found.append(len(e.invars))
        for sub in sub_jaxprs(e.params):
            found += _collectives(sub)
    return found


def _step(x: Any, y: Any) -> Any:
    total, other = x.sum(0), (y * y).sum(0)
    return x - total, y * other


def test_equal_collectives_of_a_loop_are_one() -> None:
    x, y = np.ones((8, 3), np.float32), np.ones((8, 5), np.float32)
    local = _local(lambda x, y: lax.fori_loop(0, 3, lambda _, c: _step(*c), (x, y)), x, y)
    assert _collectives(local.jaxpr) == [1, 1]
    assert _collectives(joined(local.jaxpr)) == [2]
    assert not has_collectives(joined(_local(lambda x: x + 1, x).jaxpr))


def test_programs_that_meet_often_meet_once_for_equal_collectives() -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(8, n)).astype("f") / 8 for n in (3, 5))

    def often(x: Any, y: Any) -> Any:
        for _ in range(10):
            x, y = _step(x, y)
        return lax.fori_loop(0, 3, lambda _, c: _step(*c), (x, y))

    local = _local(often, x, y)
    assert _collectives(local.jaxpr) == [1] * 22
    assert _collectives(joined(local.jaxpr)) == [2] * 11
    mesh = xpr.sharding.Mesh(np.array(xpr.devices("cpu")[:4]), ("d",))
    rows = xpr.NamedSharding(mesh, xpr.P("d"))
    found = xpr.jit(often)(*xpr.device_put((x, y), rows))
    for _ in range(13):
        x, y = x - x.sum(0), y * (y * y).sum(0)
    for got, want in zip(found, (x, y), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=1e-5 * np.abs(want).max())
