"""The few greatest elements of long rows, without sorting: rounds of finding the greatest one.

A code and its position make one 64-bit integer. No two are equal, so a round is a single reduction
of those less than the last round's result. Rounds over whole rows would read them `k` times;
instead each row is cut into blocks, of which only the `k` with the greatest maxima can hold a
result.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.ir.attributes import GatherNumbers
from xpr.lowering.rules.reduce import reduce_in_blocks

_I32 = np.dtype(np.int32)
_I64 = np.dtype(np.int64)

_LAST = np.iinfo(_I32).max
# Rows shorter than this are not cut up. Blocks are whole vectors.
SHORT = 512
_VECTOR = 16


def top_positions(ctx: LoweringContext, x: Value, k: int, coded: Callable[[Value], Value]) -> Value:
    """For each row of `x` the positions of its `k` greatest codes, equal ones in order (int32).

    `coded` gives the int32 codes of any part of `x`, element by element.
    """
    rows, n = x.shape
    if n < SHORT:
        return _take_rounds(ctx, coded(x), ctx.iota(_I32, x.shape, 1), k)
    block = block_size(n, k)
    count = n // block
    whole = ctx.slice(x, (0, 0), (rows, count * block)) if n % block else x
    blocks = ctx.reshape(whole, (rows, count, block))
    greatest = reduce_in_blocks(ctx, coded(blocks), "maximum", np.iinfo(_I32).min, (2,))
    # Of blocks with equal maxima the first ones count: each has an element that comes before all
    # those of a later block.
    chosen = _take_rounds(ctx, ctx.barrier(greatest), ctx.iota(_I32, (rows, count), 1), k)
    candidates = ctx.reshape(_blocks_at(ctx, blocks, chosen), (rows, k * block))
    start = ctx.broadcast_in_dim(ctx.mul(chosen, block), (rows, k, block), (0, 1))
    places = ctx.add(start, ctx.iota(_I32, (rows, k, block), 2))
    places = ctx.reshape(places, (rows, k * block))
    if n % block:
        tail = ctx.slice(x, (0, count * block), (rows, n))
        last = ctx.add(ctx.iota(_I32, tail.shape, 1), count * block)
        candidates = ctx.concatenate([candidates, tail], 1)
        places = ctx.concatenate([places, last], 1)
    return _take_rounds(ctx, coded(ctx.barrier(candidates)), places, k)


def block_size(n: int, k: int) -> int:
    """A multiple of whole vectors for which blocks and candidates are about equally many."""
    wanted = max(_VECTOR, round(math.sqrt(n / k) / _VECTOR) * _VECTOR)
    near = range(wanted, 3 * wanted, _VECTOR)
    return next((b for b in near if n % b == 0 and n // b >= k), wanted)


def _take_rounds(ctx: LoweringContext, code: Value, position: Value, k: int) -> Value:
    """Of each row, the `position` of the `k` greatest codes; equal ones by ascending position."""
    rows, n = code.shape
    high = ctx.binary("shift_left", ctx.convert(code, _I64), 32)
    keys = ctx.barrier(ctx.or_(high, ctx.convert(ctx.sub(_LAST, position), _I64)))
    none = np.iinfo(_I64).min
    found: list[Value] = []
    for _ in range(k):
        left = keys
        if found:
            bound = ctx.broadcast_in_dim(found[-1], (rows, n), (0,))
            left = ctx.select(ctx.compare("LT", keys, bound), keys, none)
        found.append(reduce_in_blocks(ctx, left, "maximum", none, (1,)))
    keys = ctx.concatenate([ctx.reshape(f, (rows, 1)) for f in found], 1)
    return ctx.sub(_LAST, ctx.convert(ctx.and_(keys, _LAST), _I32))


def _blocks_at(ctx: LoweringContext, blocks: Value, chosen: Value) -> Value:
    """The `chosen` blocks of each row."""
    rows, count, block = blocks.shape
    k = chosen.shape[1]
    row = ctx.mul(ctx.iota(_I32, (rows, k), 0), count)
    index = ctx.reshape(ctx.add(row, chosen), (rows * k, 1))
    return ctx.assign(
        "stablehlo.gather",
        [ctx.reshape(blocks, (rows * count, block)), index],
        (rows * k, block),
        blocks.dtype,
        {
            "dimension_numbers": GatherNumbers((1,), (0,), (0,), 1),
            "indices_are_sorted": False,
            "slice_sizes": (1, block),
        },
    )
