"""Lowering rules for Vulkan and Metal, in place of the common ones that come out wrong there.

Each has a test in `tests/lowering/test_vulkan_hazards.py` that fails when it is needed no more.
"""

from __future__ import annotations

from xpr.core import dtypes
from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import LoweringRule, rules
from xpr.lowering.rules.cumulative import Scan, by_doubling
from xpr.lowering.targets._spirv import OVERRIDES
from xpr.primitives.cumulative import cumprod_p, cumsum_p

_PRODUCT = Scan(lambda ctx, a, b: ctx.mul(a, b), 1, 1)


def _cumsum_lower(ctx: LoweringContext, x: Value, *, axis: int, reverse: bool) -> Value:
    """Complex numbers by their parts: a scan of them ends the compiler's process."""
    common = rules[cumsum_p.name]
    if not dtypes.is_complex(x.dtype):
        return common(ctx, x, axis=axis, reverse=reverse)
    return ctx.by_parts(lambda part: common(ctx, part, axis=axis, reverse=reverse), x)


def _cumprod_lower(ctx: LoweringContext, x: Value, *, axis: int, reverse: bool) -> Value:
    """Complex numbers in whole arrays, for the same reason."""
    if not dtypes.is_complex(x.dtype) or x.aval.size == 0:
        return rules[cumprod_p.name](ctx, x, axis=axis, reverse=reverse)
    return by_doubling(ctx, x, axis, reverse, _PRODUCT)


_RULES: dict[Primitive, LoweringRule] = {
    cumsum_p: _cumsum_lower,
    cumprod_p: _cumprod_lower,
}

for _primitive, _rule in _RULES.items():
    OVERRIDES[_primitive.name] = _rule
