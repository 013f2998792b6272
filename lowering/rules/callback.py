"""Calls back into Python as host calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import register
from xpr.primitives.callback import debug_callback_p, io_callback_p, pure_callback_p


def _callback_lower(
    ctx: LoweringContext, *operands: Value, callback: Callable[..., Any], **_: Any
) -> Sequence[Value]:
    if not ctx.target.host_calls:
        raise NotImplementedError(
            f"{callback} is a Python function, which programs for target {ctx.target.name} cannot "
            "call: callbacks work in programs that run on the CPU of this process"
            + (f"; it is called at {ctx.source}" if ctx.source is not None else "")
        )
    types = [(a.shape, a.dtype) for a in ctx.out_avals]
    return ctx.module.host_call(ctx, "callback", callback, operands, types)


for _primitive in (pure_callback_p, io_callback_p, debug_callback_p):
    register(_primitive, _callback_lower)
