"""Programs cut where devices meet: which collectives happen together."""

from collections.abc import Callable
from typing import Any

import numpy as np

import xpr
import xpr.numpy as jnp
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.jaxpr_trace import hoist_consts
from xpr.sharding.partition import partition
from xpr.sharding.rules import load_all
from xpr.sharding.stages import stages


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
