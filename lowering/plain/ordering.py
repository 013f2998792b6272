"""Sorts as `stablehlo.sort`, and the greatest elements as `chlo.top_k`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core import dtypes
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import register_plain, rules
from xpr.primitives.sort import sort_p, top_k_p


def _sort(
    ctx: LoweringContext, *operands: Value, dimension: int, is_stable: bool, num_keys: int
) -> Sequence[Value]:
    if not operands[0].shape or operands[0].aval.size == 0:
        return operands

    def comes_first(inner: LoweringContext, *pairs: Value) -> list[Value]:
        keys = [
            part for k in range(num_keys) for part in _parts(inner, pairs[2 * k], pairs[2 * k + 1])
        ]
        first: Value | None = None
        for a, b in reversed(keys):
            less = _is_less(inner, a, b)
            if first is not None:
                less = inner.or_(less, inner.and_(_is_equal(inner, a, b), first))
            first = less
        assert first is not None
        return [first]

    scalars = [((), x.dtype) for x in operands for _ in range(2)]
    return ctx.op(
        "stablehlo.sort",
        operands,
        [(x.shape, x.dtype) for x in operands],
        {"dimension": dimension, "is_stable": is_stable},
        [ctx.region(scalars, comes_first)],
    )


def _parts(ctx: LoweringContext, a: Value, b: Value) -> list[tuple[Value, Value]]:
    """Pairs of numbers that are compared one after the other."""
    if not dtypes.is_complex(a.dtype):
        return [(_ordered(ctx, a), _ordered(ctx, b))]
    pairs = zip(ctx.parts(a), ctx.parts(b), strict=True)
    return [(_ordered(ctx, x), _ordered(ctx, y)) for x, y in pairs]


def _ordered(ctx: LoweringContext, x: Value) -> Value:
    """Zeros without a sign, and all NaNs alike: the total order takes these for different."""
    if not dtypes.is_float(x.dtype):
        return x
    unsigned = ctx.select(ctx.compare("EQ", x, ctx.full_like(x, 0.0)), ctx.full_like(x, 0.0), x)
    return ctx.select(ctx.compare("NE", x, x), ctx.full_like(x, float("nan")), unsigned)


def _is_less(ctx: LoweringContext, a: Value, b: Value) -> Value:
    return ctx.compare("LT", a, b, "TOTALORDER" if dtypes.is_float(a.dtype) else None)


def _is_equal(ctx: LoweringContext, a: Value, b: Value) -> Value:
    return ctx.compare("EQ", a, b, "TOTALORDER" if dtypes.is_float(a.dtype) else None)


def _top_k(ctx: LoweringContext, x: Value, *, k: int, **params: Any) -> Sequence[Value]:
    axis = params.get("axis", len(x.shape) - 1)
    values, places = ctx.out_avals
    if (
        axis != len(x.shape) - 1
        or places.dtype.name != "int32"
        or dtypes.kind(x.dtype) not in "iuf"
    ):
        return rules[top_k_p.name](ctx, x, k=k, **params)
    types = [(values.shape, values.dtype), (places.shape, places.dtype)]
    return ctx.op("chlo.top_k", [x], types, {"k": k})


register_plain(sort_p, _sort)
register_plain(top_k_p, _top_k)
