"""Calls of foreign functions: calls of the host."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import register
from xpr.primitives.ffi import ffi_call_p, foreign_function


def _ffi_call_lower(
    ctx: LoweringContext, *operands: Value, target_name: str, **params: Any
) -> Sequence[Value]:
    if not ctx.target.host_calls:
        raise NotImplementedError(
            f"{target_name} is a function of this process, which programs for target "
            f"{ctx.target.name} cannot call: foreign functions run on the CPU of this process"
        )
    function = foreign_function(
        ctx.in_avals, target_name=target_name, place=f"called from {ctx.source}", **params
    )
    types = [(a.shape, a.dtype) for a in ctx.out_avals]
    name = re.sub(r"\W", "_", target_name, flags=re.ASCII)
    return ctx.module.host_call(ctx, name, function, operands, types, out=True)


register(ffi_call_p, _ffi_call_lower)
