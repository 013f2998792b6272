"""Loops in StableHLO that lowering rules write themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.ir.stablehlo import I1
from xpr.lowering.numerics.expr import Expr
from xpr.lowering.numerics.kernel import map_scalars

# Steps between two tests whether the loop may end: testing costs as much as several steps.
_STEPS_PER_TEST = 8
_COUNTER = np.dtype(np.int32)

Step = Callable[..., Sequence[Expr]]


def while_loop(
    ctx: LoweringContext,
    carried: Sequence[Value],
    condition: Callable[..., Value],
    body: Callable[..., Sequence[Value]],
) -> list[Value]:
    """`stablehlo.while`: `condition` and `body` take a context and the carried values."""
    types = [(v.shape, v.dtype) for v in carried]
    test = ctx.region(types, lambda inner, *values: [condition(inner, *values)], control_flow=True)
    step = ctx.region(types, body, control_flow=True)
    return ctx.op("stablehlo.while", carried, types, regions=[test, step])


def counted_loop(ctx: LoweringContext, n: int, start: Value, step: Callable[..., Value]) -> Value:
    """`start` after `step(ctx, i, value)` for i = 0 .. n-1, an int32."""
    return while_loop(
        ctx,
        [ctx.constant(0, _COUNTER), start],
        lambda inner, i, _: inner.compare("LT", i, n),
        lambda inner, i, v: [inner.add(i, 1), step(inner, i, v)],
    )[1]


def iterate_elements(
    ctx: LoweringContext,
    step: Step,
    unfinished: Callable[..., Expr],
    state: Sequence[Value],
    operands: Sequence[Value],
    limit: int,
) -> list[Value]:
    """Repeats `step` for each element until `unfinished` no longer holds, at most `limit` times.

    All values have one shape and one floating dtype. `step(count, *state, *operands)` and
    `unfinished(*state, *operands)` are formulas over scalars; `count` is 1, 2, ... as a float.
    Elements that are finished stay as they are; the loop ends when all are.
    """
    n, dtype = len(state), state[0].dtype
    axes = tuple(range(len(state[0].shape)))

    def condition(inner: LoweringContext, count: Value, *values: Value) -> Value:
        active = map_scalars(inner, unfinished, values, I1)
        false = inner.constant(False, I1)
        any_active = active
        if axes:
            (any_active,) = inner.reduce([active], [false], axes, lambda c, a, b: [c.or_(a, b)])
        return inner.and_(any_active, inner.compare("LT", count, float(limit)))

    def several_steps(count: Expr, values: tuple[Expr, ...]) -> list[Expr]:
        current, rest = list(values[:n]), values[n:]
        for i in range(_STEPS_PER_TEST):
            current = list(step(count + float(i), *current, *rest))
        return current

    def advance(index: int) -> Callable[..., Expr]:
        def formula(count: Expr, *values: Expr) -> Expr:
            new = several_steps(count, values)[index]
            inner, old = new.ctx, values[index]
            keep = unfinished(*values)
            return Expr(inner, inner.select(keep.value, new.value, old.value))

        return formula

    def body(inner: LoweringContext, count: Value, *values: Value) -> list[Value]:
        shape = values[0].shape
        wide_count = inner.broadcast_in_dim(count, shape, ()) if shape else count
        new = [map_scalars(inner, advance(i), [wide_count, *values], dtype) for i in range(n)]
        return [inner.add(count, float(_STEPS_PER_TEST)), *new, *values[n:]]

    start = ctx.constant(1.0, np.dtype(dtype))
    results = while_loop(ctx, [start, *state, *operands], condition, body)
    return results[1 : 1 + n]
