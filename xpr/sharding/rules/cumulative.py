"""Cumulative reductions: each part by itself, then with the totals of the parts before it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.primitive import get_primitive
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.sharding.place import elements
from xpr.sharding.rule import FactorRule, LocalShapes, Place, RuleFunction, register
from xpr.sharding.rules._forms import Avals, Builder, Params, axes_over
from xpr.sharding.rules._local import counted, filled, spread


def _least(dtype: np.dtype[Any]) -> Any:
    kind = dtypes.kind(dtype)
    if kind in "iu":
        return dtypes.iinfo(dtype).min
    return complex(-math.inf, 0) if kind == "c" else -math.inf


def _greatest(dtype: np.dtype[Any]) -> Any:
    kind = dtypes.kind(dtype)
    if kind in "iu":
        return dtypes.iinfo(dtype).max
    return complex(math.inf, 0) if kind == "c" else math.inf


def _cumulative(
    name: str, binary: str | None, identity: Callable[[np.dtype[Any]], Any]
) -> RuleFunction:
    """`binary` is the primitive that is reduced with, if there is one."""

    def folded(before: Any, own: Any) -> Any:
        if binary is not None:
            return get_primitive(binary).bind(before, own)
        axis = get_aval(own).ndim
        pair = get_primitive("stack").bind(before, own, axis=axis)
        both = get_primitive(name).bind(pair, axis=axis, reverse=False)
        return ops.reshape(elements(both, axis, 1, 2), get_aval(own).shape)

    def rule(operands: Avals, results: Avals, params: Params) -> FactorRule:
        del results
        build = Builder()
        factors = build.axes(operands[0].shape)
        axis, reverse = params["axis"], params["reverse"]

        def apply(
            place: Place, args: Sequence[Any], params: Params, local: LocalShapes
        ) -> Sequence[Any]:
            own = get_primitive(name).bind(*args, **params)
            over = axes_over(factors[axis], local)
            shape, dtype = local.operands[0], get_aval(own).dtype
            if not over or not shape[axis]:
                return [own]
            last = 0 if reverse else shape[axis] - 1
            totals = place.gather(elements(own, axis, last, last + 1), over, axis)
            number = get_aval(totals).shape
            me = spread(place.index(over), number)
            order = ops.gt if reverse else ops.lt
            mine = order(counted(number, axis), me)
            nothing = filled(number, identity(dtype), dtype)
            running = get_primitive(name).bind(
                ops.select(mine, totals, nothing), axis=axis, reverse=False
            )
            before = elements(running, axis, number[axis] - 1, number[axis])
            rest = [n for i, n in enumerate(shape) if i != axis]
            dims = [i for i in range(len(shape)) if i != axis]
            before = ops.broadcast_in_dim(ops.reshape(before, rest), shape, dims)
            return [folded(before, own)]

        return build.rule([factors], [factors], apply=apply)

    return rule


for _name, _binary, _identity in (
    ("cumsum", "add", lambda dtype: 0),
    ("cumprod", "mul", lambda dtype: 1),
    ("cummax", "max", _least),
    ("cummin", "min", _greatest),
    ("cumlogsumexp", None, _least),
):
    register(_name, _cumulative(_name, _binary, _identity))
