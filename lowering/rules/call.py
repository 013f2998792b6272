"""The call primitive of `jit`: a private function and a call of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.jaxpr import ClosedJaxpr
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import register
from xpr.primitives.call import jit_p


def _jit_lower(
    ctx: LoweringContext, *operands: Value, jaxpr: ClosedJaxpr, name: str, **_: Any
) -> Sequence[Value]:
    symbol = ctx.module.function_for(jaxpr, name)
    consts = [ctx.dense(np.asarray(c)) for c in jaxpr.consts]
    results = [(a.shape, a.dtype) for a in jaxpr.out_avals]
    return ctx.call(symbol, [*consts, *operands], results)


register(jit_p, _jit_lower)
