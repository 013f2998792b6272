"""Functions with rules of their own are compiled as what they compute; barriers vanish."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.jaxpr import ClosedJaxpr
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import register
from xpr.primitives import custom as p
from xpr.primitives._custom_linear import linear_call_p, remat_opt_p


def _call_lower(
    ctx: LoweringContext, *operands: Value, call_jaxpr: ClosedJaxpr, **_: Any
) -> Sequence[Value]:
    return ctx.module.call(ctx, call_jaxpr, "custom_call", operands)


def _same(ctx: LoweringContext, x: Value, **_: Any) -> Value:
    del ctx
    return x


def _no_forward_mode(ctx: LoweringContext, *_: Value, **__: Any) -> Any:
    del ctx
    return p.custom_lin_p.reference()


register(p.custom_jvp_call_p, _call_lower)
register(p.custom_vjp_call_p, _call_lower)
register(p.custom_vmap_call_p, _call_lower)
register(linear_call_p, _call_lower)
register(remat_opt_p, _call_lower)
register(p.custom_lin_p, _no_forward_mode)
register(p.stop_gradient_p, _same)
register(p.name_p, _same)
