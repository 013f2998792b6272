"""Conversions, element by element, copies and barriers."""

from __future__ import annotations

from xpr.sharding.rule import FactorRule, register
from xpr.sharding.rules._forms import (
    NONE,
    Avals,
    Builder,
    Params,
    elementwise,
    register_all,
)

register_all(("convert_element_type", "reduce_precision", "copy", "device_put"), elementwise)


def _bitcast(operands: Avals, results: Avals, params: Params) -> FactorRule:
    """The last axis may hold the parts of one element, which stay together."""
    del params
    build = Builder()
    (x,), (y,) = operands, results
    shared = build.axes(x.shape[: min(x.ndim, y.ndim)])
    return build.rule(
        [shared + [NONE] * (x.ndim - len(shared))], [shared + [NONE] * (y.ndim - len(shared))]
    )


register("bitcast_convert_type", _bitcast)


def _barrier(operands: Avals, results: Avals, params: Params) -> FactorRule:
    """Each result is its operand; they have nothing to do with each other."""
    del results, params
    build = Builder()
    factors = [build.axes(a.shape) for a in operands]
    return build.rule(factors, factors)


register("optimization_barrier", _barrier)
