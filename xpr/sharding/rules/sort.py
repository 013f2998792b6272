"""Sorts are whole along their axis; the greatest elements are chosen from those of each part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.primitive import get_primitive
from xpr.primitives import _ops as ops
from xpr.sharding.rule import FactorRule, LocalShapes, Place, register
from xpr.sharding.rules._forms import NONE, Avals, Builder, Params, axes_over
from xpr.sharding.rules._local import offset, taken

_INT32_MAX = np.iinfo(np.int32).max


def _sort(operands: Avals, results: Avals, params: Params) -> FactorRule:
    build = Builder()
    factors = [
        build.whole(n) if i == params["dimension"] else build.through(n)
        for i, n in enumerate(operands[0].shape)
    ]
    return build.rule([factors for _ in operands], [factors for _ in results])


register("sort", _sort)


def _top_k(operands: Avals, results: Avals, params: Params) -> FactorRule:
    """Along a sharded axis the k greatest are among the k greatest of each part."""
    del results
    build = Builder()
    (x,), axis, k = operands, params["axis"], params["k"]
    whole = not 0 < k <= x.shape[axis] <= _INT32_MAX
    factors = build.axes(x.shape, but=(axis,) if whole else ())
    kept = [NONE if i == axis else f for i, f in enumerate(factors)]

    def apply(
        place: Place, args: Sequence[Any], params: Params, local: LocalShapes
    ) -> Sequence[Any]:
        top_k = get_primitive("top_k")
        over = axes_over(factors[axis], local)
        if not over:
            return top_k.bind(*args, **params)
        size = local.operands[0][axis]
        values, places = top_k.bind(*args, axis=axis, k=min(k, size))
        places = ops.add(places, offset(place, over, size))
        # Of equal ones the first is first still: parts come in order, and each has its own so.
        values = place.gather(values, over, axis)
        places = place.gather(places, over, axis)
        values, chosen = top_k.bind(values, axis=axis, k=k)
        return [values, taken(places, chosen, axis)]

    return build.rule([factors], [kept, kept], apply=apply)


register("top_k", _top_k)


def _approx_top_k(operands: Avals, results: Avals, params: Params) -> FactorRule:
    build = Builder()
    (x,) = operands
    axis = params["reduction_dimension"] % x.ndim
    factors = build.axes(x.shape, but=(axis,))
    return build.rule([factors], [factors for _ in results])


register("approx_top_k", _approx_top_k)
