"""Lowering of cumulative reductions: blocked scans.

`stablehlo.reduce_window` over whole prefixes becomes one serial scan per row in IREE, which is
quick but, over a long axis, uses one core and loses digits. So a long axis is cut into blocks that
are scanned side by side, and the scan of the blocks' results is combined with the next blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.ir.attributes import Padding
from xpr.lowering.numerics import exponential
from xpr.lowering.numerics.expr import Expr
from xpr.lowering.registry import LoweringRule, register
from xpr.primitives import cumulative as p
from xpr.primitives.convert import convert_element_type
from xpr.primitives.elementary import exp, log
from xpr.primitives.elementwise import add, max, min, real, sub
from xpr.primitives.reduce import limits

_F32 = np.dtype(np.float32)

Combine = Callable[[LoweringContext, Value, Value], Value]


@dataclass(frozen=True)
class Scan:
    """An associative function of two elements and its identity; `block` is the block length."""

    combine: Combine
    identity: Any
    block: int


def scan(ctx: LoweringContext, x: Value, axis: int, reverse: bool, of: Scan) -> Value:
    """The reduction of each prefix (or suffix) of `axis`."""
    n = x.shape[axis]
    if n <= 2 * of.block:
        return _direct(ctx, x, axis, reverse, of)
    block = next((b for b in range(2 * of.block, of.block // 2, -1) if n % b == 0), of.block)
    count = -(-n // block)
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    padded = _pad(ctx, x, axis, 0, count * block - n, of.identity)
    blocks = ctx.reshape(padded, (*before, count, block, *after))
    inner = _direct(ctx, blocks, axis + 1, reverse, of)
    # The reduction of each whole block, then of all blocks before (or after) each one.
    edge = 0 if reverse else block - 1
    start = [0] * len(inner.shape)
    limit = list(inner.shape)
    start[axis + 1], limit[axis + 1] = edge, edge + 1
    whole = ctx.reshape(ctx.slice(inner, start, limit), (*before, count, *after))
    prefixes = scan(ctx, whole, axis, reverse, of)
    before_each = _shift(ctx, prefixes, axis, -1 if reverse else 1, of.identity)
    kept = tuple(i for i in range(len(inner.shape)) if i != axis + 1)
    offsets = ctx.broadcast_in_dim(before_each, inner.shape, kept)
    found = ctx.reshape(of.combine(ctx, offsets, inner), padded.shape)
    return ctx.slice(found, [0] * len(x.shape), x.shape) if padded is not x else found


def _direct(ctx: LoweringContext, x: Value, axis: int, reverse: bool, of: Scan) -> Value:
    """One serial scan for each row: the form that IREE recognises."""
    rank, n = len(x.shape), x.shape[axis]
    sizes = [n if i == axis else 1 for i in range(rank)]
    edges = [(0, 0)] * rank
    edges[axis] = (0, n - 1) if reverse else (n - 1, 0)
    region = ctx.region([((), x.dtype)] * 2, lambda inner, a, b: [of.combine(inner, a, b)])
    return ctx.assign(
        "stablehlo.reduce_window",
        [x, ctx.constant(of.identity, x.dtype)],
        x.shape,
        x.dtype,
        {
            "window_dimensions": tuple(sizes),
            "padding": Padding(tuple(edges)),
        },
        [region],
    )


def by_doubling(ctx: LoweringContext, x: Value, axis: int, reverse: bool, of: Scan) -> Value:
    """A scan in log2(n) steps of whole arrays, for functions that no region can hold.

    W. D. Hillis and G. L. Steele, "Data parallel algorithms", CACM 29, 1986.
    """
    distance = 1
    while distance < x.shape[axis]:
        other = _shift(ctx, x, axis, -distance if reverse else distance, of.identity)
        x = of.combine(ctx, other, x)
        distance *= 2
    return x


def _pad(ctx: LoweringContext, x: Value, axis: int, low: int, high: int, value: Any) -> Value:
    if low == high == 0:
        return x
    zeros = [0] * len(x.shape)
    lows, highs = zeros.copy(), zeros.copy()
    lows[axis], highs[axis] = low, high
    return ctx.pad(x, ctx.constant(value, x.dtype), lows, highs, zeros)


def _shift(ctx: LoweringContext, x: Value, axis: int, by: int, fill: Any) -> Value:
    """`x` moved along `axis`, `fill` coming in."""
    start, limit = [0] * len(x.shape), list(x.shape)
    if by > 0:
        limit[axis] -= by
    else:
        start[axis] = -by
    return _pad(ctx, ctx.slice(x, start, limit), axis, *((by, 0) if by > 0 else (0, -by)), fill)


# ---- the functions


def _rule(make: Callable[[np.dtype[Any]], Scan]) -> LoweringRule:
    def lower(ctx: LoweringContext, x: Value, *, axis: int, reverse: bool) -> Value:
        if x.shape[axis] <= 1 or x.aval.size == 0:
            return x
        kind = dtypes.kind(x.dtype)
        if kind == "f" and x.dtype.itemsize == 2:
            wide = scan(ctx, ctx.convert(x, _F32), axis, reverse, make(_F32))
            return ctx.inline(convert_element_type, wide, new_dtype=x.dtype)
        if kind == "u":
            # IREE's scans refuse unsigned types. Flipping the sign bit keeps the order; sums and
            # products are the same bits.
            signed = np.dtype(f"i{x.dtype.itemsize}")
            of, flip = make(signed), np.iinfo(signed).min
            ordered = of.identity not in (0, 1)
            bits = ctx.bitcast(x, signed)
            bits = ctx.xor(bits, flip) if ordered else bits
            found = scan(ctx, bits, axis, reverse, of)
            return ctx.bitcast(ctx.xor(found, flip) if ordered else found, x.dtype)
        return scan(ctx, x, axis, reverse, make(x.dtype))

    return lower


def _or_by_doubling(rule: LoweringRule, make: Callable[[np.dtype[Any]], Scan]) -> LoweringRule:
    """`rule` for real types, the scan by doubling for complex ones."""

    def lower(ctx: LoweringContext, x: Value, *, axis: int, reverse: bool) -> Value:
        if not dtypes.is_complex(x.dtype) or x.aval.size == 0:
            return rule(ctx, x, axis=axis, reverse=reverse)
        return by_doubling(ctx, x, axis, reverse, make(x.dtype))

    return lower


def _elementwise(op: str, block: int, identity: Callable[[np.dtype[Any]], Any]) -> Any:
    def make(dtype: np.dtype[Any]) -> Scan:
        return Scan(lambda ctx, a, b: ctx.binary(op, a, b), identity(dtype), block)

    return make


def _logaddexp(ctx: LoweringContext, a: Value, b: Value) -> Value:
    """max(a, b) + log(1 + exp(-|a - b|)); infinities of one sign have no difference."""
    gap = ctx.select(ctx.compare("EQ", a, b), 0.0, ctx.abs(ctx.sub(a, b)))
    if not ctx.target.exact_sums:
        # Drivers have no exponential of float64, and one of few digits of float32.
        rest = exponential.log1p(exponential.exp(Expr(ctx, ctx.neg(gap)))).value
        return ctx.add(ctx.maximum(a, b), rest)
    part = ctx.unary("exponential", ctx.neg(gap))
    if a.dtype == _F32:
        rest = ctx.unary("log_plus_one", part)
    else:
        # IREE's float64 log1p has float32 accuracy. The quotient cancels the rounding of 1 + x:
        # W. Kahan, after HP-15C Advanced Functions Handbook, 1982.
        total = ctx.add(part, 1.0)
        exact = ctx.div(ctx.mul(ctx.unary("log", total), part), ctx.sub(total, 1.0))
        rest = ctx.select(ctx.compare("EQ", total, 1.0), part, exact)
    return ctx.add(ctx.maximum(a, b), rest)


def _complex_logaddexp(ctx: LoweringContext, a: Value, b: Value) -> Value:
    def function(x: Array, y: Array) -> Array:
        greatest = np.finfo(real(x).dtype).max
        # Infinite shifts would give NaN.
        shift = min(max(max(real(x), real(y)), -greatest), greatest)
        moved = convert_element_type(shift, x.dtype)
        return add(log(add(exp(sub(x, moved)), exp(sub(y, moved)))), moved)

    return ctx.inline(function, a, b)


def _prod_lower(ctx: LoweringContext, x: Value, *, axis: int, reverse: bool) -> Value:
    """Products; those of complex numbers in whole arrays where a scan of them does not compile."""
    whole = dtypes.is_complex(x.dtype) and not ctx.target.whole_complex
    rule = _or_by_doubling(_rule(_prod), _prod) if whole else _rule(_prod)
    return rule(ctx, x, axis=axis, reverse=reverse)


_sum = _elementwise("add", 128, lambda d: 0)
_prod = _elementwise("multiply", 128, lambda d: 1)
_max = _elementwise("maximum", 512, lambda d: limits(d)[0])
_min = _elementwise("minimum", 512, lambda d: limits(d)[1])


def _of_function(
    function: Callable[[Any, Any], Array], which: int
) -> Callable[[np.dtype[Any]], Scan]:
    def make(dtype: np.dtype[Any]) -> Scan:
        # Infinite in both parts: an infinity with any imaginary part is kept against it.
        infinity = limits(dtype)[which].real
        fill = complex(infinity, infinity)
        return Scan(lambda ctx, a, b: ctx.inline(function, a, b), fill, 1)

    return make


register(p.cumsum_p, _rule(_sum))
register(p.cumprod_p, _prod_lower)
register(p.cummax_p, _or_by_doubling(_rule(_max), _of_function(max, 0)))
register(p.cummin_p, _or_by_doubling(_rule(_min), _of_function(min, 1)))
register(
    p.cumlogsumexp_p,
    _or_by_doubling(
        # Short blocks: each step of a scan rounds.
        _rule(lambda d: Scan(_logaddexp, limits(d)[0], 32)),
        lambda d: Scan(_complex_logaddexp, complex(-np.inf, 0), 1),
    ),
)
