"""Lowering rules for Vulkan alone, in place of the common ones that come out wrong there.

Each has a test in `tests/lowering/test_vulkan_hazards.py` that fails when it is needed no more.
"""

from __future__ import annotations

from xpr.core import dtypes
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import rules
from xpr.lowering.targets.vulkan import OVERRIDES
from xpr.primitives.elementwise import rem_p


def _rem_lower(ctx: LoweringContext, x: Value, y: Value) -> Value:
    """x - trunc(x / y) y: that of the least integer has the wrong sign."""
    if dtypes.kind(x.dtype) != "i":
        return rules[rem_p.name](ctx, x, y)
    return ctx.sub(x, ctx.mul(ctx.div(x, y), y))


OVERRIDES[rem_p.name] = _rem_lower
