"""Elementwise kernels: a formula over scalars, applied to whole arrays in one loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.numerics.expr import Expr
from xpr.lowering.numerics.small_floats import in_float32
from xpr.lowering.registry import LoweringRule


def map_scalars(
    ctx: LoweringContext,
    formula: Callable[..., Expr],
    operands: Sequence[Value],
    dtype: np.dtype[Any] | None = None,
) -> Value:
    """`formula` of the operands' elements; the result has the first operand's dtype, or `dtype`.

    It becomes one `stablehlo.map`. IREE stops fusing whole-array operations after a few whose
    results have several uses, and a long formula would fall apart into ten loops over memory.
    """
    values = ctx.match(*operands)
    shape, result = values[0].shape, dtype or values[0].dtype
    if ctx.formulas_inline or (not shape and ctx.in_region):
        # Regions of reductions take plain operations on scalars only.
        return formula(*(Expr(ctx, v) for v in values)).value

    def body(inner: LoweringContext, *scalars: Value) -> Sequence[Value]:
        return [formula(*(Expr(inner, s) for s in scalars)).value]

    region = ctx.region([((), v.dtype) for v in values], body)
    axes = {"dimensions": tuple(range(len(shape)))}
    return ctx.assign("stablehlo.map", values, shape, result, axes, [region])


def kernel(
    formula: Callable[..., Expr], of_parts: Callable[..., Any] | None = None
) -> LoweringRule:
    """The lowering rule of an elementwise formula; 16-bit floats are computed in float32.

    `of_parts` is the formula for complex operands: it takes a pair of real and imaginary part for
    each, and returns a pair.
    """

    def lower(ctx: LoweringContext, *operands: Value, **_: Any) -> Value:
        if not dtypes.is_complex(operands[0].dtype):
            return map_scalars(ctx, formula, operands)
        if of_parts is None:
            raise AssertionError("the abstract rule takes no complex operands")
        return map_complex(ctx, of_parts, operands)

    return in_float32(lower)


def map_complex(
    ctx: LoweringContext,
    of_parts: Callable[..., Any],
    operands: Sequence[Value],
    dtype: np.dtype[Any] | None = None,
) -> Value:
    """`map_scalars` for a formula of real and imaginary parts; its result is a pair or real."""

    def formula(*numbers: Expr) -> Expr:
        result = of_parts(*map(_parts, numbers))
        if isinstance(result, Expr):
            return result
        ctx, re, im = result[0].ctx, result[0].value, result[1].value
        return Expr(ctx, ctx.complex(re, im))

    return map_scalars(ctx, formula, operands, dtype)


def _parts(z: Expr) -> tuple[Expr, Expr]:
    re, im = z.ctx.parts(z.value)
    return Expr(z.ctx, re), Expr(z.ctx, im)
