"""`scan` as a `stablehlo.while` over a counter, with stacked results updated in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, all_eqns
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.loops.choice import scan_in_one_dispatch
from xpr.lowering.loops.products_apart import has_large_products, products_apart
from xpr.lowering.loops.products_outside import (
    Behind,
    ahead_of_the_loop,
    behind_the_loop,
    large_products,
)
from xpr.lowering.loops.repeated_steps import rounds_p
from xpr.lowering.numerics.while_loop import while_loop
from xpr.lowering.registry import register
from xpr.lowering.rules._programs import inline_program
from xpr.primitives.scan import scan_p

_COUNTER = np.dtype(np.int32)


def _slice_at(ctx: LoweringContext, x: Value, index: Value) -> Value:
    """`x[index]`, for an index that is known to lie inside."""
    starts = [index, *(ctx.constant(0, _COUNTER) for _ in x.shape[1:])]
    sizes = (1, *x.shape[1:])
    part = ctx.assign("stablehlo.dynamic_slice", [x, *starts], sizes, x.dtype, {"sizes": sizes})
    return ctx.reshape(part, x.shape[1:])


def _with_slice(ctx: LoweringContext, ys: Value, y: Value, index: Value) -> Value:
    """`ys` with `y` at `index`, which is known to lie inside."""
    starts = [index, *(ctx.constant(0, _COUNTER) for _ in y.shape)]
    part = ctx.reshape(y, (1, *y.shape))
    return ctx.assign("stablehlo.dynamic_update_slice", [ys, part, *starts], ys.shape, ys.dtype)


_LOOPS = frozenset({"scan", "while_loop", "loops"})
"""The families of primitives that are loops."""

# Operations that gain much from being done for many steps at once, where each step is of several
# dispatches.
_HEAVY = ("dot_general", "conv_general_dilated")


def _holds_loops(jaxpr: Jaxpr) -> bool:
    return any(eqn.primitive.family in _LOOPS for eqn in all_eqns(jaxpr))


def _is_heavy(eqn: JaxprEqn) -> bool:
    return eqn.primitive.name in _HEAVY


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
    carry_end = num_consts + num_carry
    consts, carry, xs = operands[:num_consts], operands[num_consts:carry_end], operands[carry_end:]
    stacks = [ctx.constant(0, a.dtype, (length, *a.shape)) for a in jaxpr.out_avals[num_carry:]]
    if length == 0:
        return [*carry, *stacks]
    if length == 1 and not _holds_loops(jaxpr.jaxpr):
        # IREE folds a loop of one step in a dispatch, merges equal values that the dispatch
        # returns, and then reads another result in place of one of them.
        slices = [ctx.reshape(x, x.shape[1:]) for x in xs]
        out = inline_program(ctx, jaxpr, [*consts, *carry, *slices])
        ys = [ctx.reshape(y, (1, *y.shape)) for y in out[num_carry:]]
        return [*out[:num_carry], *ys]
    loops = ctx.target.single_dispatch_loops
    large = loops and has_large_products(jaxpr.jaxpr, num_consts)

    def again(operands: Sequence[Value], step: ClosedJaxpr, num_carry: int) -> list[Value]:
        """The loop of another step."""
        return _scan_lower(
            ctx,
            *operands,
            jaxpr=step,
            length=length,
            reverse=reverse,
            num_carry=num_carry,
            num_consts=num_consts,
            unroll=unroll,
        )

    def ahead(is_heavy: Callable[[JaxprEqn], bool]) -> list[Value] | None:
        found = ahead_of_the_loop(jaxpr, length, num_carry, num_consts, is_heavy)
        if found is None:
            return None
        batched, rest = found
        # All steps at once; what the loop needs of it are sequences like the others.
        made = inline_program(ctx, batched, [*consts, *xs])
        return again([*consts, *carry, *made, *xs], rest, num_carry)

    if loops and not large:
        if ctx.target.product_kernels is not None and ctx.target.product_kernels() is not None:
            is_large = large_products(length)
            # First, as the terms of a sum would else all be stored.
            behind = behind_the_loop(jaxpr, length, num_carry, num_consts, is_large)
            if behind is not None:
                left = [*consts, *(carry[j] for j in behind.kept), *xs]
                results = again(left, behind.step, len(behind.kept))
                return _with_sums(ctx, behind, carry, xs, results)
            results = ahead(is_large)
            if results is not None:
                return results
        params = {"jaxpr": jaxpr, "length": length, "reverse": reverse}
        params |= {"num_consts": num_consts, "num_carry": num_carry}
        found = scan_in_one_dispatch(ctx, operands, **params)
        if found is not None:
            return found
    results = None if ctx.target.plain else ahead(_is_heavy)
    if results is not None:
        return results
    if large:
        jaxpr = products_apart(jaxpr, num_consts)
    per_step = min(unroll or length, length)  # none for each turn means all at once

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


def _with_sums(
    ctx: LoweringContext,
    behind: Behind,
    carry: Sequence[Value],
    xs: Sequence[Value],
    results: Sequence[Value],
) -> list[Value]:
    """The results of a loop, of which some carried arrays are sums over what its steps made."""
    kept, num_extra = len(behind.kept), behind.num_extra
    ys, extra = results[kept : len(results) - num_extra], results[len(results) - num_extra :]
    final = dict(zip(behind.kept, results, strict=False))
    for s in behind.sums:
        factors = [xs[i] if is_operand else extra[i] for is_operand, i in s.factors]
        final[s.carried] = ctx.inline(s.added, carry[s.carried], *factors)
    return [*(final[j] for j in range(len(carry))), *ys]


def _rounds_lower(
    ctx: LoweringContext, *operands: Value, jaxpr: ClosedJaxpr, length: int
) -> list[Value]:
    module = ctx.module
    before = module.flops, module.bytes_accessed
    params: dict[str, Any] = {"num_consts": len(operands) - 1, "num_carry": 1}
    params |= {"reverse": False, "unroll": 1}
    results = _scan_lower(ctx, *operands, jaxpr=jaxpr, length=length, **params)
    # The work is that of the program as it was written.
    module.flops, module.bytes_accessed = before
    for _ in range(length):
        module.note_pass(jaxpr.jaxpr)
    return list(results)


register(scan_p, _scan_lower)
register(rounds_p, _rounds_lower)
