"""The call primitive of `jit`: a private function and a call of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.jaxpr import ClosedJaxpr
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import register
from xpr.primitives.call import jit_p


def _jit_lower(
    ctx: LoweringContext, *operands: Value, jaxpr: ClosedJaxpr, name: str, **_: Any
) -> Sequence[Value]:
    return ctx.module.call(ctx, jaxpr, name, operands)


register(jit_p, _jit_lower)
