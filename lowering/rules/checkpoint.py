"""A checkpointed program behind a barrier, so that what it computes again is not shared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.jaxpr import ClosedJaxpr
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.ir.rewrite import BARRIER
from xpr.lowering.registry import register
from xpr.primitives.checkpoint import remat_p


def _lower(
    ctx: LoweringContext,
    *operands: Value,
    jaxpr: ClosedJaxpr,
    prevent_cse: bool,
    differentiated: bool,
    **_: Any,
) -> Sequence[Value]:
    if prevent_cse and differentiated and operands:
        # One barrier for all, cotangents too: the values are computed again when these are there,
        # not before, and the compiler does not see that the forward pass computed them as well.
        types = [(v.shape, v.dtype) for v in operands]
        operands = tuple(ctx.op(BARRIER, operands, types))
    return ctx.module.call(ctx, jaxpr, "checkpoint", operands)


register(remat_p, _lower)
