"""`scan` as a `stablehlo.while` over a counter, with stacked results updated in place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xpr.core.jaxpr import ClosedJaxpr
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import register
from xpr.lowering.rules._programs import inline_program
from xpr.lowering.vector_context import NotInRegisters
from xpr.lowering.vector_loops import vector_scan
from xpr.lowering.while_loop import while_loop
from xpr.primitives.scan import scan_p

_COUNTER = np.dtype(np.int32)


def _slice_at(ctx: LoweringContext, x: Value, index: Value) -> Value:
    """`x[index]`, for an index that is known to lie inside."""
    starts = [index, *(ctx.constant(0, _COUNTER) for _ in x.shape[1:])]
    sizes = (1, *x.shape[1:])
    text = ", ".join(map(str, sizes))
    part = ctx.op1(
        "stablehlo.dynamic_slice", [x, *starts], sizes, x.dtype, f"slice_sizes = array<i64: {text}>"
    )
    return ctx.reshape(part, x.shape[1:])


def _with_slice(ctx: LoweringContext, ys: Value, y: Value, index: Value) -> Value:
    """`ys` with `y` at `index`, which is known to lie inside."""
    starts = [index, *(ctx.constant(0, _COUNTER) for _ in y.shape)]
    part = ctx.reshape(y, (1, *y.shape))
    return ctx.op1("stablehlo.dynamic_update_slice", [ys, part, *starts], ys.shape, ys.dtype)


def _scan_lower(
    ctx: LoweringContext,
    *operands: Value,
    jaxpr: ClosedJaxpr,
    length: int,
    reverse: bool,
    num_carry: int,
    num_consts: int,
    unroll: int,
) -> list[Value]:
    ctx.module.note_hints(has_control_flow=True)
    held = num_consts + num_carry
    consts, carry, xs = operands[:num_consts], operands[num_consts:held], operands[held:]
    stacks = [ctx.constant(0, a.dtype, (length, *a.shape)) for a in jaxpr.out_avals[num_carry:]]
    if length == 0:
        return [*carry, *stacks]
    if ctx.target.single_dispatch_loops and not ctx.in_region:
        try:
            return vector_scan(ctx, jaxpr, consts, carry, xs, length, reverse)
        except NotInRegisters:
            pass  # the plain form takes every program
    per_step = max(1, min(unroll, length))

    def step(inner: LoweringContext, count: Value, values: Sequence[Value]) -> list[Value]:
        index = inner.sub(inner.constant(length - 1, _COUNTER), count) if reverse else count
        slices = [_slice_at(inner, x, index) for x in xs]
        out = inline_program(inner, jaxpr, [*consts, *values[:num_carry], *slices])
        ys = [
            _with_slice(inner, stack, y, index)
            for stack, y in zip(values[num_carry:], out[num_carry:], strict=True)
        ]
        return [*out[:num_carry], *ys]

    def several(inner: LoweringContext, count: Value, *values: Value) -> list[Value]:
        current = list(values)
        for _ in range(per_step):
            current = step(inner, count, current)
            count = inner.add(count, inner.constant(1, _COUNTER))
        return [count, *current]

    whole = length - length % per_step
    start = ctx.constant(0, _COUNTER)
    if whole == per_step:
        results = several(ctx, start, *carry, *stacks)
    else:
        results = while_loop(
            ctx,
            [start, *carry, *stacks],
            lambda inner, count, *_: inner.compare("LT", count, inner.constant(whole, _COUNTER)),
            several,
        )
    count, values = results[0], results[1:]
    for _ in range(length - whole):
        values = step(ctx, count, values)
        count = ctx.add(count, ctx.constant(1, _COUNTER))
    return list(values)


register(scan_p, _scan_lower)
