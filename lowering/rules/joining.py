"""Concatenate, stack, split and tile."""

from __future__ import annotations

from xpr.core.jaxpr import ClosedJaxpr
from xpr.lowering.context import LoweringContext, Shape, Value
from xpr.lowering.loops.choice import one_pass_in_parts
from xpr.lowering.loops.passes_over_memory import one_pass_p
from xpr.lowering.loops.refusal import NotInMemory
from xpr.lowering.registry import register
from xpr.lowering.rules._complex_kernels import complex_kernels
from xpr.primitives import joining as p


def _concatenate_lower(ctx: LoweringContext, *xs: Value, dimension: int) -> Value:
    # Empty parts add nothing, and IREE is happier without them.
    parts = [x for x in xs if x.shape[dimension]] or list(xs[:1])
    return ctx.concatenate(parts, dimension)


def _stack_lower(ctx: LoweringContext, *xs: Value, axis: int) -> Value:
    shape = (*xs[0].shape[:axis], 1, *xs[0].shape[axis:])
    return ctx.concatenate([ctx.reshape(x, shape) for x in xs], axis)


def _part(ctx: LoweringContext, x: Value, axis: int, start: int, size: int) -> Value:
    low, high = [0] * len(x.shape), list(x.shape)
    low[axis], high[axis] = start, start + size
    return ctx.slice(x, low, high)


def _unstack_lower(ctx: LoweringContext, x: Value, *, axis: int) -> list[Value]:
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return [ctx.reshape(_part(ctx, x, axis, i, 1), shape) for i in range(x.shape[axis])]


def _split_lower(ctx: LoweringContext, x: Value, *, sizes: Shape, axis: int) -> list[Value]:
    parts, start = [], 0
    for size in sizes:
        parts.append(_part(ctx, x, axis, start, size))
        start += size
    return parts


def _tile_lower(ctx: LoweringContext, x: Value, *, reps: Shape) -> Value:
    # Axis i becomes the pair (reps[i], size); the pairs are then merged.
    pairs = [d for r, s in zip(reps, x.shape, strict=True) for d in (r, s)]
    broadcast = ctx.broadcast_in_dim(x, tuple(pairs), tuple(range(1, len(pairs), 2)))
    return ctx.reshape(broadcast, tuple(r * s for r, s in zip(reps, x.shape, strict=True)))


def _one_pass_lower(ctx: LoweringContext, *operands: Value, jaxpr: ClosedJaxpr) -> list[Value]:
    results = complex_kernels(ctx, jaxpr.jaxpr, operands)
    if results is not None:
        ctx.module.note_pass(jaxpr.jaxpr)
        return results
    try:
        found = one_pass_in_parts(ctx, jaxpr, operands)
    except NotInMemory:
        return ctx.module.lower_jaxpr(ctx, jaxpr.jaxpr, (), operands, as_they_are=True)
    ctx.module.note_pass(jaxpr.jaxpr)
    return found


register(one_pass_p, _one_pass_lower)
register(p.concatenate_p, _concatenate_lower)
register(p.stack_p, _stack_lower)
register(p.unstack_p, _unstack_lower)
register(p.split_p, _split_lower)
register(p.tile_p, _tile_lower)
