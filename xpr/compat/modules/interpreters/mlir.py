"""`jax.interpreters.mlir`: lowerings of primitives that programs define.

A lowering is `rule(ctx, *operands, **params)`, where `ctx` is xpr's builder
(`xpr.lowering.context.LoweringContext`): its methods append operations and give their results.
`lower_fun` makes a rule of a function that is written with other primitives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xpr.compat.lowerings import lower_fun as lower_fun
from xpr.compat.lowerings import register_lowering as register_lowering
from xpr.compat.unavailable import module_named
from xpr.lowering.context import LoweringContext

LoweringRule = Callable[..., Any]
LoweringRuleContext = LoweringContext


def __getattr__(name: str) -> Any:
    missing = None if name.startswith("_") else module_named(f"jax.interpreters.mlir.{name}")
    if missing is not None:
        return missing
    raise AttributeError(f"module 'jax.interpreters.mlir' has no attribute {name!r} in xpr")


__all__ = ["LoweringRule", "LoweringRuleContext", "lower_fun", "register_lowering"]
