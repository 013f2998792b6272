"""Arrays from nothing: each device makes its own part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.primitive import get_primitive
from xpr.primitives import _ops as ops
from xpr.sharding.rule import FactorRule, LocalShapes, Place, register
from xpr.sharding.rules._forms import (
    Avals,
    Builder,
    Params,
    axes_over,
    no_sharding,
    result_shape,
    setting,
)

_INT32_MAX = np.iinfo(np.int32).max


def _empty(operands: Avals, results: Avals, params: Params) -> FactorRule:
    del operands, params
    build = Builder()
    return build.rule(
        [],
        [build.axes(results[0].shape)],
        localize=setting(shape=result_shape, out_sharding=no_sharding),
    )


register("empty", _empty)


def _iota(operands: Avals, results: Avals, params: Params) -> FactorRule:
    """Along its dimension a device counts on from where its part begins."""
    del operands
    build = Builder()
    (y,), dimension = results, params["dimension"]
    # Places are counted in int32.
    factors = build.axes(y.shape, but=(dimension,) if y.shape[dimension] > _INT32_MAX else ())

    def apply(
        place: Place, args: Sequence[Any], params: Params, local: LocalShapes
    ) -> Sequence[Any]:
        del args
        mine = local.results[0]
        own: Params = {**params, "shape": mine, "sharding": None}
        over = axes_over(factors[dimension], local)
        if not over:
            return [get_primitive("iota").bind(**own)]
        # Counted in int32 and converted once: a narrow type would round, or wrap, twice.
        count = get_primitive("iota").bind(**{**own, "dtype": np.dtype(np.int32)})
        start = ops.mul(place.index(over), np.int32(mine[dimension]))
        return [ops.convert(ops.add(count, start), params["dtype"])]

    return build.rule([], [factors], apply=apply)


register("iota", _iota)
