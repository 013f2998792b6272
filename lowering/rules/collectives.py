"""Collectives over axes that no transformation has resolved cannot be compiled for one device."""

from __future__ import annotations

from typing import Any

from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import LoweringRule, register
from xpr.primitives import collectives as p


def _unresolved(primitive: Primitive) -> LoweringRule:
    def lower(ctx: LoweringContext, *_: Value, **params: Any) -> Any:
        del ctx
        return primitive.reference(**params)

    return lower


for _primitive in (
    p.psum_p,
    p.psum_invariant_p,
    p.unreduced_psum_p,
    p.pmax_p,
    p.pmin_p,
    p.axis_index_p,
    p.all_gather_p,
    p.all_gather_invariant_p,
    p.all_gather_reduced_p,
    p.reduce_scatter_p,
    p.unreduced_reduce_scatter_p,
    p.all_to_all_p,
    p.ppermute_p,
):
    register(_primitive, _unresolved(_primitive))


def _pvary(ctx: LoweringContext, x: Value, **_: Any) -> Value:
    del ctx
    return x


for _primitive in (p.pvary_p, p.preduced_p, p.vary_unreduced_cast_p, p.reduced_vary_cast_p):
    register(_primitive, _pvary)
