"""What programs say about shardings is done before lowering: for one device nothing is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.jaxpr import ClosedJaxpr
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import register
from xpr.primitives import sharding as p


def _same(ctx: LoweringContext, x: Value, **_: Any) -> Value:
    del ctx
    return x


def _both(ctx: LoweringContext, x: Value, y: Value) -> Sequence[Value]:
    del ctx
    return [x, y]


def _call(ctx: LoweringContext, *operands: Value, call: ClosedJaxpr, **_: Any) -> Sequence[Value]:
    return ctx.module.call(ctx, call, "custom_partitioning", operands)


def _nothing(ctx: LoweringContext, x: Value, **_: Any) -> Sequence[Value]:
    del ctx, x
    return []


register(p.sharding_constraint_p, _same)
register(p.mesh_cast_p, _same)
register(p.place_p, _same)
register(p.reshard_p, _same)
register(p.shard_alike_p, _both)
register(p.custom_partitioning_p, _call)
register(p.inspect_sharding_p, _nothing)
