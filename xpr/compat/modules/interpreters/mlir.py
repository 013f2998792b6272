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

LoweringRule = Callable[..., Any]

__all__ = ["LoweringRule", "lower_fun", "register_lowering"]
