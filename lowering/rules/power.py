"""Powers and roots."""

from __future__ import annotations

import numpy as np

from xpr.core import dtypes
from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.numerics import complex_arithmetic, power
from xpr.lowering.numerics.expr import Expr
from xpr.lowering.numerics.kernel import kernel, map_complex, map_scalars
from xpr.lowering.numerics.small_floats import in_float32
from xpr.lowering.registry import LoweringRule, register
from xpr.lowering.rules.convert import convert_value
from xpr.lowering.rules.elementwise import divide_values
from xpr.primitives import power as p


def _square_lower(ctx: LoweringContext, x: Value) -> Value:
    return ctx.mul(x, x)


def _sqrt(x: Expr) -> Expr:
    return x.sqrt()


def _rsqrt(x: Expr) -> Expr:
    return 1.0 / x.sqrt()


# Up to this exponent repeated multiplication is accurate enough for floats, and faster.
_MAX_FLOAT_SQUARING = 16


def _integer_pow_lower(ctx: LoweringContext, x: Value, *, y: int) -> Value:
    """Repeated squaring, and a division at the end for a negative exponent."""
    if y == 0:
        return ctx.full_like(x, 1)
    if dtypes.is_float(x.dtype) and abs(y) > _MAX_FLOAT_SQUARING:
        kind = np.int32 if abs(y) <= np.iinfo(np.int32).max else np.int64
        return _pow_lower(ctx, x, ctx.constant(y, np.dtype(kind)))
    result, base, exponent = None, x, abs(y)
    while exponent:
        if exponent & 1:
            result = base if result is None else ctx.mul(result, base)
        exponent >>= 1
        if exponent:
            base = ctx.mul(base, base)
    if result is None:
        raise AssertionError("an exponent other than 0 has a set bit")
    return divide_values(ctx, ctx.full_like(x, 1), result) if y < 0 else result


def _pow_lower(ctx: LoweringContext, x: Value, y: Value) -> Value:
    if dtypes.is_complex(x.dtype):
        return map_complex(ctx, complex_arithmetic.power, [x, convert_value(ctx, y, x.dtype)])
    if dtypes.is_float(y.dtype):
        known = ctx.known_number(y)
        if known is not None and power.is_root(known, x.dtype):
            return map_scalars(ctx, lambda base: power.pow_by_root(base, known), [x])
        return map_scalars(ctx, power.pow, [x, y])

    def with_integer(base: Expr, exponent: Expr) -> Expr:
        # Whether it is odd is asked of the integer: as a float a great one would be even.
        odd = (exponent & 1).ne(0)
        return power.pow_with_parity(base, exponent.to(base.dtype), odd)

    return map_scalars(ctx, with_integer, [x, y])


_RULES: dict[Primitive, LoweringRule] = {
    p.square_p: _square_lower,
    p.sqrt_p: kernel(_sqrt, complex_arithmetic.sqrt),
    p.rsqrt_p: kernel(_rsqrt, complex_arithmetic.reciprocal_sqrt),
    p.cbrt_p: kernel(power.cbrt),
    p.integer_pow_p: in_float32(_integer_pow_lower),
    p.pow_p: in_float32(_pow_lower),
}

for _primitive, _rule in _RULES.items():
    register(_primitive, _rule)
