"""Sorting networks in StableHLO: a bitonic network as one loop, for targets without a host.

K. E. Batcher, "Sorting networks and their applications", AFIPS 1968. An unrolled network runs
faster but takes seconds to compile; the loop compiles in the same time for every size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.ir.attributes import GatherNumbers
from xpr.lowering.numerics.while_loop import while_loop

_I32 = np.dtype(np.int32)
_I64 = np.dtype(np.int64)


def network_order(ctx: LoweringContext, codes: Sequence[Value]) -> Value:
    """For each column, the rows in ascending order of `codes`, then of position (int32).

    `codes` are signed integers of shape (rows, columns), the foremost first.
    """
    rows, columns = codes[0].shape
    size = 1 << max(1, (rows - 1).bit_length())
    # Rows are added that come after all others: greatest codes, and greater positions.
    padded = [
        ctx.pad(c, ctx.constant(np.iinfo(c.dtype).max, c.dtype), (0, 0), (size - rows, 0), (0, 0))
        for c in codes
    ]
    if len(codes) == 1 and codes[0].dtype == _I32 and "int64" not in ctx.target.missing_types:
        # Code and position in one integer: a step is a minimum and a maximum.
        code = ctx.binary("shift_left", ctx.convert(padded[0], _I64), 32)
        keys = [ctx.or_(code, ctx.iota(_I64, code.shape, 0))]
    else:
        keys = [*padded, ctx.iota(_I32, (size, columns), 0)]
    if columns == 1:
        keys = [ctx.reshape(k, (size,)) for k in keys]
    order = _network(ctx, keys)[-1]
    if order.dtype == _I64:
        order = ctx.convert(ctx.and_(order, 0xFFFFFFFF), _I32)
    return ctx.slice(ctx.reshape(order, (size, columns)), (0, 0), (rows, columns))


def _network(ctx: LoweringContext, keys: Sequence[Value]) -> list[Value]:
    """`keys` sorted together along axis 0, a power of two; no two elements may be equal."""
    shape = keys[0].shape
    size = shape[0]

    def condition(inner: LoweringContext, run: Value, *_: Value) -> Value:
        return inner.compare("LT", run, size)

    def body(inner: LoweringContext, run: Value, distance: Value, *mine: Value) -> list[Value]:
        """One step: rows whose numbers differ in the bit `distance` are put in order.

        `run` is the length of the sorted runs that the current merge joins in pairs.
        """
        row = inner.iota(_I32, (size,), 0)
        partner = inner.reshape(inner.xor(row, distance), (size, 1))
        others = [_rows_at(inner, k, partner) for k in mine]
        # Every other merged run is put in descending order, so that two make a bitonic sequence.
        ascending = inner.compare("EQ", inner.and_(row, inner.mul(run, 2)), 0)
        first = inner.compare("EQ", inner.and_(row, distance), 0)
        wants_less = inner.broadcast_in_dim(inner.compare("EQ", ascending, first), shape, (0,))
        done = inner.compare("EQ", distance, 1)
        longer = inner.mul(run, 2)
        half = inner.binary("shift_right_logical", distance, 1)
        return [
            inner.select(done, longer, run),
            inner.select(done, longer, half),
            *_exchange(inner, mine, others, wants_less),
        ]

    one = ctx.constant(1, _I32)
    return while_loop(ctx, [one, one, *keys], condition, body)[2:]


def _rows_at(ctx: LoweringContext, x: Value, rows: Value) -> Value:
    numbers = GatherNumbers(tuple(range(1, len(x.shape))), (0,), (0,), 1)
    sizes = (1, *x.shape[1:])
    return ctx.assign(
        "stablehlo.gather",
        [x, rows],
        x.shape,
        x.dtype,
        {"dimension_numbers": numbers, "indices_are_sorted": False, "slice_sizes": sizes},
    )


def _exchange(
    ctx: LoweringContext, mine: Sequence[Value], others: Sequence[Value], wants_less: Value
) -> list[Value]:
    """The lesser of each pair where `wants_less`, else the greater."""
    if len(mine) == 1:
        less, more = ctx.minimum(mine[0], others[0]), ctx.maximum(mine[0], others[0])
        return [ctx.select(wants_less, less, more)]
    greater = ctx.compare("GT", mine[-1], others[-1])
    for a, b in zip(mine[-2::-1], others[-2::-1], strict=True):
        tie = ctx.compare("EQ", a, b)
        greater = ctx.or_(ctx.compare("GT", a, b), ctx.and_(tie, greater))
    swap = ctx.compare("EQ", greater, wants_less)
    return [ctx.select(swap, b, a) for a, b in zip(mine, others, strict=True)]


def repeated_max(ctx: LoweringContext, code: Value, k: int) -> Value:
    """For each column, the rows of the `k` least codes in ascending order (int32)."""
    rows, columns = code.shape
    position = ctx.iota(_I32, (rows, columns), 0)
    greatest = np.iinfo(code.dtype).max
    used = ctx.constant(False, np.dtype(np.bool_), (rows, columns))
    order: list[Value] = []

    def body(
        inner: LoweringContext, u: Value, a: Value, i: Value, v: Value, b: Value, j: Value
    ) -> list[Value]:
        # A row that was taken comes after all others, whatever its code.
        tie = inner.and_(inner.compare("EQ", a, b), inner.compare("LT", i, j))
        less = inner.or_(inner.compare("LT", a, b), tie)
        fresh = inner.and_(inner.compare("EQ", u, v), less)
        keep = inner.or_(inner.and_(inner.not_(u), v), fresh)
        return [inner.select(keep, p, q) for p, q in ((u, v), (a, b), (i, j))]

    inits: list[Any] = [
        ctx.constant(True, used.dtype),
        ctx.constant(greatest, code.dtype),
        ctx.constant(np.iinfo(_I32).max, _I32),
    ]
    for _ in range(k):
        best = ctx.reduce([used, code, position], inits, (0,), body)[2]
        broadcast = ctx.broadcast_in_dim(best, (rows, columns), (1,))
        used = ctx.or_(used, ctx.compare("EQ", position, broadcast))
        order.append(ctx.reshape(best, (1, columns)))
    return ctx.concatenate(order, 0)
