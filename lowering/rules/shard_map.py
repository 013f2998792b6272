"""A `shard_map` that reaches one device: the programs of all devices, as a batch of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import register
from xpr.primitives._shard_bodies import on_one_device
from xpr.primitives.shard_map import shard_map_p


def _lower(ctx: LoweringContext, *operands: Value, **params: Any) -> Sequence[Value]:
    closed = trace_to_jaxpr(lambda *args: on_one_device(*args, **params), ctx.in_avals)
    return ctx.module.call(ctx, closed, "shard_map", operands)


register(shard_map_p, _lower)
