"""How operations on matrices are lowered: the host's LAPACK, or functions of other operations."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import register
from xpr.lowering.rules._scanned import for_each
from xpr.primitives import _ops as ops
from xpr.primitives.rules import shape_of

# Matrices of so many rows and columns, and so many of them, that are one dispatch.
_SMALL = 64
_FEW = 8


def register_linalg(
    primitive: Primitive,
    on_host: Callable[..., Any],
    loop: Callable[..., Any] | None,
    work: float,
    *,
    prefers_host: bool = False,
    many_loops: bool = False,
    small: Callable[..., list[Value] | None] | None = None,
) -> None:
    """`on_host` where the target has the host's libraries, else `loop`, a function of tracers.

    Devices with memory of their own call the host only where there is no loop, or with
    `prefers_host`: for loops that take longer to compile than most matrices to be computed there.
    A `loop` with `many_loops` is a dozen dispatches or more: a few small matrices then become one
    dispatch, which compiles in half of the time or less and takes as long.
    `small` gives the results by kernels that come with xpr, or None.
    `work` is about the number of multiplications and additions per element of the greatest result
    and column of the first operand.
    """
    name = primitive.name

    def lower(ctx: LoweringContext, *operands: Value, **params: Any) -> Sequence[Value]:
        outs = list(ctx.out_avals)
        if any(v.aval.size == 0 for v in operands):
            return _of_empty(ctx, functools.partial(on_host, **params), operands)
        ctx.module.flops += work * operands[0].shape[-1] * max(a.size for a in outs)
        results = small(ctx, *operands, **params) if small is not None else None
        if results is not None:
            return results
        call = ctx.target.host_calls if loop is None or prefers_host else ctx.target.host_libraries
        if call:
            function = functools.partial(on_host, **params)
            types = [(a.shape, a.dtype) for a in outs]
            return ctx.module.host_call(ctx, name, function, operands, types)
        if loop is None:
            raise NotImplementedError(
                f"{name} runs on the host; target {ctx.target.name} cannot call it"
            )
        alone = many_loops and _are_few_and_small(ctx, operands[0].shape)
        found = ctx.inline(_by_turns(loop) if alone else loop, *operands, **params)
        return found if isinstance(found, (list, tuple)) else [found]

    register(primitive, lower)


def _are_few_and_small(ctx: LoweringContext, shape: Sequence[Any]) -> bool:
    """Whether a core alone takes no longer for such matrices than all cores for each step."""
    return (
        ctx.target.single_dispatch_loops
        and all(isinstance(size, int) for size in shape)
        and max(shape[-2:]) <= _SMALL
        and math.prod(shape[:-2]) <= _FEW
    )


def _by_turns(loop: Callable[..., Any]) -> Callable[..., list[Any]]:
    """`loop` for one matrix after another."""

    def all_in_one(x: Any, **params: Any) -> list[Any]:
        *batch, m, n = shape_of(x)
        found = for_each(
            lambda matrix: list(loop(matrix, **params)),
            [ops.reshape(x, (math.prod(batch), m, n))],
        )
        return [ops.reshape(y, (*batch, *shape_of(y)[1:])) for y in found]

    return all_in_one


def _of_empty(
    ctx: LoweringContext, on_host: Callable[..., Any], operands: Sequence[Value]
) -> list[Value]:
    """The factors of empty matrices: nothing, or identities."""
    found = on_host(*(np.zeros(v.shape, v.dtype) for v in operands))
    return [
        ctx.dense(x) if x.size else ctx.constant(0, x.dtype, x.shape)
        for x in (found if isinstance(found, tuple) else (found,))
    ]
