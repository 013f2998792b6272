"""Random bits: each element is one formula of its key and its place, all in one loop."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Shape, Value
from xpr.lowering.numerics.expr import Expr, where
from xpr.lowering.numerics.kernel import map_scalars
from xpr.lowering.registry import LoweringRule, register
from xpr.primitives import random as p

_UINT32 = np.dtype(np.uint32)
_UINT64 = np.dtype(np.uint64)


def _block(k1: Expr, k2: Expr, x1: Expr, x2: Expr) -> tuple[Expr, Expr]:
    """Threefry-2x32-20 (see `xpr.primitives.random`)."""
    schedule = (k1, k2, k1 ^ k2 ^ p.PARITY)
    x1, x2 = x1 + k1, x2 + k2
    for i in range(5):
        for r in p.ROTATIONS[i % 2]:
            x1 = x1 + x2
            x2 = ((x2 << r) | (x2 >> (32 - r))) ^ x1
        x1 = x1 + schedule[(i + 1) % 3]
        x2 = x2 + schedule[(i + 2) % 3] + (i + 1)
    return x1, x2


def _threefry2x32_lower(ctx: LoweringContext, *operands: Value) -> list[Value]:
    return [map_scalars(ctx, lambda *x, half=half: _block(*x)[half], operands) for half in (0, 1)]


def _for_each_place(
    ctx: LoweringContext,
    key: Value,
    count: int,
    formula: Callable[..., Expr],
    dtype: np.dtype[np.unsignedinteger],
) -> Value:
    """`formula(k1, k2, place)` for each key and each place 0 .. count-1, as [keys, count]."""
    keys = math.prod(key.shape[:-1])
    pairs = ctx.reshape(key, (keys, 2))
    shape = (keys, count)
    halves = [
        ctx.broadcast_in_dim(ctx.slice(pairs, (0, i), (keys, i + 1)), shape, (0, 1)) for i in (0, 1)
    ]
    wide = count > np.iinfo(_UINT32).max
    place = ctx.iota(_UINT64 if wide else _UINT32, shape, 1)
    return map_scalars(ctx, formula, [*halves, place], dtype)


def _at(k1: Expr, k2: Expr, place: Expr) -> tuple[Expr, Expr]:
    """The block whose counter is `place`."""
    if place.dtype == _UINT32:
        return _block(k1, k2, k1.like(0), place)
    return _block(k1, k2, (place >> 32).to(_UINT32), place.to(_UINT32))


def _random_bits_lower(ctx: LoweringContext, key: Value, *, bit_width: int, shape: Shape) -> Value:
    dtype = np.dtype(f"u{bit_width // 8}")

    def bits(*operands: Expr) -> Expr:
        first, second = _at(*operands)
        if bit_width == 64:
            return (first.to(dtype) << 32) | second.to(dtype)
        return (first ^ second).to(dtype)

    found = _for_each_place(ctx, key, math.prod(shape), bits, dtype)
    return ctx.reshape(found, (*key.shape[:-1], *shape))


def _random_split_lower(ctx: LoweringContext, key: Value, *, shape: Shape) -> Value:
    def half(k1: Expr, k2: Expr, place: Expr) -> Expr:
        first, second = _at(k1, k2, place >> 1)
        return where((place & 1).eq(0), first, second)

    found = _for_each_place(ctx, key, 2 * math.prod(shape), half, _UINT32)
    return ctx.reshape(found, (*key.shape[:-1], *shape, 2))


def _random_fold_in_lower(ctx: LoweringContext, key: Value, data: Value) -> Value:
    keys = math.prod(key.shape[:-1])
    pairs, numbers = ctx.reshape(key, (keys, 2)), ctx.reshape(data, (keys,))
    k1, k2 = (
        ctx.broadcast_in_dim(
            ctx.reshape(ctx.slice(pairs, (0, i), (keys, i + 1)), (keys,)), (keys, 2), (0,)
        )
        for i in (0, 1)
    )
    lane = ctx.iota(_UINT32, (keys, 2), 1)

    def half(k1: Expr, k2: Expr, number: Expr, lane: Expr) -> Expr:
        first, second = _block(k1, k2, k1.like(0), number)
        return where(lane.eq(0), first, second)

    counter = ctx.broadcast_in_dim(numbers, (keys, 2), (0,))
    return ctx.reshape(map_scalars(ctx, half, [k1, k2, counter, lane]), key.shape)


_RULES: dict[Primitive, LoweringRule] = {
    p.threefry2x32_p: _threefry2x32_lower,
    p.random_bits_p: _random_bits_lower,
    p.random_split_p: _random_split_lower,
    p.random_fold_in_p: _random_fold_in_lower,
}

for _primitive, _rule in _RULES.items():
    register(_primitive, _rule)
