"""Lowering rules for Vulkan alone, in place of the common ones that come out wrong there.

Each has a test in `tests/lowering/test_vulkan_hazards.py` that fails when it is needed no more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.numerics.expr import held
from xpr.lowering.numerics.kernel import map_scalars
from xpr.lowering.registry import LoweringRule, rules
from xpr.lowering.rules.convert import convert_value
from xpr.lowering.rules.cumulative import Scan, by_doubling
from xpr.lowering.targets.vulkan import OVERRIDES
from xpr.primitives.convert import convert_element_type_p
from xpr.primitives.cumulative import cumprod_p, cumsum_p
from xpr.primitives.elementwise import rem_p
from xpr.primitives.sort import sort_p, top_k_p


def _rem_lower(ctx: LoweringContext, x: Value, y: Value) -> Value:
    """x - trunc(x / y) y: that of the least integer has the wrong sign."""
    if dtypes.kind(x.dtype) != "i":
        return rules[rem_p.name](ctx, x, y)
    return ctx.sub(x, ctx.mul(ctx.div(x, y), y))


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


def _convert_element_type_lower(
    ctx: LoweringContext, x: Value, *, new_dtype: np.dtype[Any], weak_type: bool
) -> Value:
    """Integers to bfloat16 by way of float32: joined to one step it gives a wrong shader."""
    if new_dtype != dtypes.bfloat16 or dtypes.kind(x.dtype) not in "iub":
        return convert_value(ctx, x, new_dtype)
    wide = map_scalars(ctx, held, [convert_value(ctx, x, np.dtype(np.float32))])
    return convert_value(ctx, wide, new_dtype)


def _in_float32(name: str) -> LoweringRule:
    """Sorts of bfloat16 as float32, which holds them exactly: else they come out wrong."""

    def lower(ctx: LoweringContext, *operands: Value, **params: Any) -> list[Value]:
        small = [x.dtype == dtypes.bfloat16 for x in operands]
        wide = [
            ctx.barrier(ctx.convert(x, np.float32)) if s else x
            for x, s in zip(operands, small, strict=True)
        ]
        found = rules[name](ctx, *wide, **params)
        return [
            ctx.convert(ctx.barrier(v), a.dtype) if v.dtype != a.dtype else v
            for v, a in zip(found, ctx.out_avals, strict=True)
        ]

    return lower


_RULES: dict[Primitive, LoweringRule] = {
    convert_element_type_p: _convert_element_type_lower,
    rem_p: _rem_lower,
    sort_p: _in_float32(sort_p.name),
    top_k_p: _in_float32(top_k_p.name),
    cumsum_p: _cumsum_lower,
    cumprod_p: _cumprod_lower,
}

for _primitive, _rule in _RULES.items():
    OVERRIDES[_primitive.name] = _rule
