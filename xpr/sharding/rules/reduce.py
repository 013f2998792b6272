"""Reductions: each device reduces its own part, and the parts are reduced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.primitive import get_primitive
from xpr.primitives import _ops as ops
from xpr.sharding.rule import FactorRule, LocalShapes, Place, RuleFunction, register
from xpr.sharding.rules._forms import (
    Avals,
    Builder,
    Params,
    axes_over,
    no_sharding,
    nothing,
    setting,
)
from xpr.sharding.rules._local import INT32, offset, spread, taken

_INT32_MAX = np.iinfo(np.int32).max


def _reduction(op: str, *, places: bool = False) -> RuleFunction:
    def rule(operands: Avals, results: Avals, params: Params) -> FactorRule:
        del results
        build = Builder()
        factors = [
            build.reduced(n, op) if i in params["axes"] else build.through(n)
            for i, n in enumerate(operands[0].shape)
        ]
        kept = [f for i, f in enumerate(factors) if i not in params["axes"]]
        localize = setting(out_sharding=no_sharding) if places else None
        return build.rule([factors], [kept], localize=localize)

    return rule


register("reduce_sum", _reduction("sum", places=True))
for _op in ("prod", "max", "min", "and", "or", "xor"):
    register(f"reduce_{_op}", _reduction(_op))


def _arg_reduction(name: str, extremum: str) -> RuleFunction:
    """Along a sharded axis each part has a candidate: its extremum, or NaN, and where it lies."""

    def rule(operands: Avals, results: Avals, params: Params) -> FactorRule:
        del results
        build = Builder()
        (x,), (axis,) = operands, params["axes"]
        factors = build.axes(x.shape, but=(axis,) if x.shape[axis] > _INT32_MAX else ())
        kept = [f for i, f in enumerate(factors) if i != axis]

        def apply(
            place: Place, args: Sequence[Any], params: Params, local: LocalShapes
        ) -> Sequence[Any]:
            over = axes_over(factors[axis], local)
            find = get_primitive(name)
            if not over:
                return [find.bind(*args, **params)]
            shape = local.operands[0]
            one = (*shape[:axis], 1, *shape[axis + 1 :])
            found = find.bind(*args, axes=(axis,), index_dtype=INT32)
            found = ops.add(found, spread(offset(place, over, shape[axis]), local.results[0]))
            best = get_primitive(extremum).bind(*args, axes=(axis,))
            places = place.gather(ops.reshape(found, one), over, axis)
            values = place.gather(ops.reshape(best, one), over, axis)
            # The first of equal ones, or the first NaN, as among the elements themselves.
            chosen = find.bind(values, axes=(axis,), index_dtype=INT32)
            where = taken(places, ops.reshape(chosen, one), axis)
            return [ops.convert(ops.reshape(where, local.results[0]), params["index_dtype"])]

        return build.rule([factors], [kept], apply=apply)

    return rule


register("argmin", _arg_reduction("argmin", "reduce_min"))
register("argmax", _arg_reduction("argmax", "reduce_max"))


def _reduce(operands: Avals, results: Avals, params: Params) -> FactorRule:
    """Whole along the axes folded by a program; the initial values have rank 0."""
    build = Builder()
    arrays = operands[: len(operands) // 2]
    dimensions = params["dimensions"]
    factors = build.axes(arrays[0].shape, but=dimensions)
    kept = [f for i, f in enumerate(factors) if i not in dimensions]
    return build.rule(
        [factors] * len(arrays) + [nothing(a.shape) for a in operands[len(arrays) :]],
        [kept for _ in results],
        localize=setting(out_sharding=no_sharding) if "out_sharding" in params else None,
    )


register("reduce", _reduce)
