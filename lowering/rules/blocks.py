"""Blocks in low precision as array operations; products may read them by kernels instead."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import register
from xpr.lowering.rules._block_products import remember
from xpr.primitives.blocks import LAYOUTS, dequantize_p

_F16, _F32, _I8, _U8, _U16 = (np.dtype(n) for n in ("f2", "f4", "i1", "u1", "u2"))


def _dequantize_lower(ctx: LoweringContext, x: Value, *, layout: str, activations: str) -> Value:
    form = LAYOUTS[layout]
    shape = (*x.shape[:-1], x.shape[-1] // form.size * form.numbers)
    if 0 in shape:
        return ctx.constant(0, _F32, shape)
    if "float16" in ctx.target.missing_types:
        raise NotImplementedError(
            f"dequantize is not available for target {ctx.target.name}, which converts no float16: "
            f"the scales of {layout} are float16"
        )
    blocks = _Bytes(ctx, ctx.reshape(x, (*shape[:-1], x.shape[-1] // form.size, form.size)))
    decoded = {"q8_0": _q8_0, "q4_0": _q4_0, "q4_k": _q4_k, "q6_k": _q6_k}[layout](blocks)
    found = ctx.reshape(decoded, shape)
    remember(ctx, found, x, layout, activations)
    return found


class _Bytes:
    """The bytes of blocks, along the last axis, and what is read from them."""

    def __init__(self, ctx: LoweringContext, x: Value) -> None:
        self.ctx = ctx
        self.value = x
        self.lead = tuple(x.shape[:-1])

    def part(self, start: int, stop: int) -> Value:
        starts = [0] * len(self.lead) + [start]
        return self.ctx.slice(self.value, starts, [*self.lead, stop], [1] * len(starts))

    def half(self, start: int) -> Value:
        """The float16 in two bytes, as float32, along a last axis of size 1."""
        ctx = self.ctx
        low, high = (ctx.convert(self.part(i, i + 1), _U16) for i in (start, start + 1))
        bits = ctx.or_(low, ctx.binary("shift_left", high, 8))
        return ctx.convert(ctx.bitcast(bits, _F16), _F32)

    def signed(self, start: int, stop: int) -> Value:
        return self.ctx.convert(self.ctx.bitcast(self.part(start, stop), _I8), _F32)

    def shaped(self, x: Value, *axes: int) -> Value:
        return self.ctx.reshape(x, (*self.lead, *axes))

    def spread(self, x: Value, *axes: int) -> Value:
        """`x` with one axis behind those of all blocks, repeated along the last of `axes`."""
        rank = len(self.lead) + len(axes)
        kept = list(range(rank - 1))
        if len(axes) == 1:
            x = self.ctx.reshape(x, self.lead)
        return self.ctx.broadcast_in_dim(x, (*self.lead, *axes), kept)

    def joined(self, xs: Sequence[Value]) -> Value:
        return self.ctx.concatenate(xs, len(xs[0].shape) - 1)


def _shifted(ctx: LoweringContext, x: Value, places: int) -> Value:
    return ctx.binary("shift_right_logical", x, places) if places else x


def _nibbles(b: _Bytes, x: Value) -> Value:
    return b.joined([b.ctx.and_(x, 15), _shifted(b.ctx, x, 4)])


def _q8_0(b: _Bytes) -> Value:
    return b.ctx.mul(b.spread(b.half(0), 32), b.signed(2, 34))


def _q4_0(b: _Bytes) -> Value:
    numbers = b.ctx.sub(b.ctx.convert(_nibbles(b, b.part(2, 18)), _F32), 8)
    return b.ctx.mul(b.spread(b.half(0), 32), numbers)


def _q4_k(b: _Bytes) -> Value:
    ctx = b.ctx
    first, second, third = b.part(4, 8), b.part(8, 12), b.part(12, 16)

    def upper(x: Value) -> Value:
        return ctx.binary("shift_left", _shifted(ctx, x, 6), 4)

    scale = b.joined([ctx.and_(first, 63), ctx.or_(ctx.and_(third, 15), upper(first))])
    least = b.joined([ctx.and_(second, 63), ctx.or_(_shifted(ctx, third, 4), upper(second))])
    factor = ctx.mul(b.spread(b.half(0), 8), ctx.convert(scale, _F32))
    offset = ctx.mul(b.spread(b.half(2), 8), ctx.convert(least, _F32))
    numbers = ctx.convert(_nibbles(b, b.shaped(b.part(16, 144), 4, 32)), _F32)
    product = ctx.mul(b.spread(factor, 8, 32), b.shaped(numbers, 8, 32))
    return ctx.sub(product, b.spread(offset, 8, 32))


def _q6_k(b: _Bytes) -> Value:
    ctx = b.ctx
    lower = _nibbles(b, b.shaped(b.part(0, 128), 2, 64))
    bits = b.shaped(b.part(128, 192), 2, 32)
    upper = b.joined([ctx.and_(_shifted(ctx, bits, n), 3) for n in (0, 2, 4, 6)])
    whole = ctx.or_(lower, ctx.binary("shift_left", upper, 4))
    numbers = ctx.sub(ctx.convert(whole, _F32), 32)
    scale = ctx.mul(b.signed(192, 208), b.spread(b.half(208), 16))
    return ctx.mul(b.spread(scale, 16, 16), b.shaped(numbers, 16, 16))


register(dequantize_p, _dequantize_lower)
