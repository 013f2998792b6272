"""`scan` as a `stablehlo.while` over a counter, with stacked results updated in place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from xpr.core.jaxpr import ClosedJaxpr, JaxprEqn, Var
from xpr.interpreters.batching import BatchAxis, batch_jaxpr
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.loops.choice import scan_in_one_dispatch
from xpr.lowering.loops.products_apart import has_large_products, products_apart
from xpr.lowering.loops.repeated_steps import rounds_p
from xpr.lowering.loops.while_loop import while_loop
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


# Operations that gain much from being done for many steps at once.
_HEAVY = ("dot_general", "conv_general_dilated")
_MAX_AHEAD_BYTES = 64 << 20


def _ahead_of_the_loop(
    jaxpr: ClosedJaxpr, length: int, num_carry: int, num_consts: int
) -> tuple[ClosedJaxpr, ClosedJaxpr] | None:
    """What a step computes from constants and slices alone, for all steps at once.

    Returns that program on whole sequences, and the rest of the step, which takes its results as
    further slices before the others. None if it holds no product.
    """
    carry_end = num_consts + num_carry
    n = len(jaxpr.in_avals)
    carried = set(jaxpr.jaxpr.invars[num_consts:carry_end])
    sliced = set(jaxpr.jaxpr.invars[carry_end:])
    first: list[JaxprEqn] = []
    fixed: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        reads = [v for v in eqn.invars if isinstance(v, Var)]
        if eqn.effects or any(v in carried for v in reads):
            carried.update(eqn.outvars)
        elif not any(v in sliced for v in reads):
            fixed.append(eqn)  # of constants alone: the same in each step
        else:
            sliced.update(eqn.outvars)
            first.append(eqn)
    # Only what leads to a product: the rest costs less in the loop than in memory.
    wanted = _leading_to(first, _HEAVY)
    if not wanted:
        return None
    first_wanted = [e for e in first if id(e) in wanted]
    again = [e for e in jaxpr.eqns if id(e) not in wanted]
    read = {v for e in first_wanted for v in e.invars}
    both = wanted | _leading_to(fixed, (), read)
    needed = {v for e in again for v in e.invars} | set(jaxpr.jaxpr.outvars)
    results = [v for e in first_wanted for v in e.outvars if v in needed]
    if sum(v.aval.nbytes for v in results) * length > _MAX_AHEAD_BYTES:
        return None
    inner = jaxpr.jaxpr
    inputs = [*inner.invars[:num_consts], *inner.invars[carry_end:]]
    step = ClosedJaxpr(
        inner.replace(
            invars=inputs, outvars=list(results), eqns=[e for e in jaxpr.eqns if id(e) in both]
        ),
        jaxpr.consts,
    )
    dims = (*(None for _ in range(num_consts)), *(0 for _ in range(n - carry_end)))
    batched = batch_jaxpr(step, BatchAxis(length), dims, (True,) * len(results))
    body = ClosedJaxpr(
        inner.replace(
            invars=[*inner.invars[:carry_end], *results, *inner.invars[carry_end:]], eqns=again
        ),
        jaxpr.consts,
    )
    return batched.closed, body


def _leading_to(
    eqns: Sequence[JaxprEqn], names: Sequence[str], wanted: Iterable[Any] = ()
) -> set[int]:
    """The identities of equations that are, or lead to, operations of those names or variables."""
    found: set[int] = set()
    needed = set(wanted)
    for eqn in reversed(eqns):
        if eqn.primitive.name in names or any(v in needed for v in eqn.outvars):
            found.add(id(eqn))
            needed.update(v for v in eqn.invars if isinstance(v, Var))
    return found


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
    loops = ctx.target.single_dispatch_loops
    large = loops and has_large_products(jaxpr.jaxpr, num_consts)
    if loops and not large:
        params = {"jaxpr": jaxpr, "length": length, "reverse": reverse}
        params |= {"num_consts": num_consts, "num_carry": num_carry}
        found = scan_in_one_dispatch(ctx, operands, **params)
        if found is not None:
            return found
    ahead = _ahead_of_the_loop(jaxpr, length, num_carry, num_consts)
    if ahead is not None:
        batched, rest = ahead
        # All steps at once; what the loop needs of it are sequences like the others.
        made = inline_program(ctx, batched, [*consts, *xs])
        operands = (*consts, *carry, *made, *xs)
        return _scan_lower(
            ctx,
            *operands,
            jaxpr=rest,
            length=length,
            reverse=reverse,
            num_carry=num_carry,
            num_consts=num_consts,
            unroll=unroll,
        )
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
