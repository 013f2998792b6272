"""Sorting by counting digits, as dispatches of one serial loop: for processors without a host.

The least significant digit is sorted first, and each pass is stable: D. E. Knuth, "The Art of
Computer Programming", volume 3, section 5.2.5. A pass counts the digits, sums the counts to the
places where each digit's elements begin, and moves the elements there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.ir.builder import Builder
from xpr.lowering.ir.graph import Block, PlainValue
from xpr.lowering.loops.single_dispatch import emit_dispatch

_I32 = np.dtype(np.int32)
_I64 = np.dtype(np.int64)

# Bits of a digit: few where columns are short, since each pass goes over all counts.
_LONG_DIGIT = 11
_SHORT_DIGIT = 8
_LONG_COLUMN = 4096


def radix_order(ctx: LoweringContext, codes: Sequence[Value]) -> Value:
    """For each column, the rows in ascending order of `codes`, then of position (int32).

    `codes` are signed integers of shape (rows, columns), the foremost first.
    """
    rows, columns = codes[0].shape
    digit = _LONG_DIGIT if rows >= _LONG_COLUMN else _SHORT_DIGIT
    # A column's elements side by side.
    flat = [
        ctx.reshape(ctx.transpose(c, (1, 0)) if columns > 1 else c, (rows * columns,))
        for c in codes
    ]
    row = ctx.reshape(ctx.iota(_I32, (columns, rows), 1), (rows * columns,))
    if len(codes) == 1 and codes[0].dtype == _I32:
        # Code and position move together, so that memory is read in order.
        code = ctx.binary("shift_left", ctx.convert(flat[0], _I64), 32)
        # What computes a pass's operands must not be drawn into its dispatch: hence the barriers.
        pairs = ctx.barrier(ctx.or_(code, ctx.convert(row, _I64)))
        for low in range(32, 64, digit):
            pairs = _pass(ctx, pairs, None, (rows, columns), low, digit)
        order = ctx.convert(ctx.and_(pairs, 0xFFFFFFFF), _I32)
    else:
        order = ctx.barrier(row)
        for code in map(ctx.barrier, reversed(flat)):
            for low in range(0, 8 * code.dtype.itemsize, digit):
                order = _pass(ctx, order, code, (rows, columns), low, digit)
    found = ctx.reshape(order, (columns, rows))
    return ctx.transpose(found, (1, 0)) if columns > 1 else ctx.reshape(found, (rows, 1))


def _pass(
    ctx: LoweringContext,
    moved: Value,
    code: Value | None,
    shape: tuple[int, int],
    low: int,
    digit: int,
) -> Value:
    """`moved`, column by column in stable order of the digit whose lowest bit is number `low`.

    The digit is one of `moved` itself, or of `code` at the place in the column that `moved` names.
    """
    rows, columns = shape
    key = moved if code is None else code
    bits = 8 * key.dtype.itemsize
    count = 1 << min(digit, bits - low)
    word = f"i{bits}"
    # The topmost bit is the sign: negative numbers come first.
    flip = 1 << (bits - 1 - low) if low + digit >= bits else 0
    b = _Serial(Block())
    b.source = ctx.source
    zero, one = b.number(0, "index"), b.number(1, "index")
    b.bounds = {n: (zero, b.number(n, "index"), one) for n in (rows, columns, count)}
    mask = [b.number(n, word) for n in (low, count - 1, flip)]
    none, once = b.number(0, "i32"), b.number(1, "i32")
    empty = b.plain("tensor.empty", (), moved.type)
    table = b.plain("tensor.empty", (), f"tensor<{count}xi32>")

    def digit_at(b: _Serial, place: Any) -> tuple[Any, Any]:
        """The element at a place in memory, and its digit."""
        item = b.extract(moved, place)
        found = item
        if code is not None:
            row = b.index(item)
            found = b.extract(code, b.binary("addi", start, row))
        for op, by in zip(("shrui", "andi", "xori"), mask, strict=True):
            found = b.binary(op, found, by)
        return item, b.index(found)

    def clear(b: _Serial, i: Any, t: Any) -> list[Any]:
        return [b.insert(none, t, i)]

    def tally(b: _Serial, i: Any, t: Any) -> list[Any]:
        _, where = digit_at(b, b.binary("addi", start, i))
        return [b.insert(b.binary("addi", b.extract(t, where), once), t, where)]

    def accumulate(b: _Serial, i: Any, total: Any, t: Any) -> list[Any]:
        size = b.extract(t, i)
        return [b.binary("addi", total, size), b.insert(total, t, i)]

    def move(b: _Serial, i: Any, out: Any, t: Any) -> list[Any]:
        item, where = digit_at(b, b.binary("addi", start, i))
        first = b.extract(t, where)
        out = b.insert(item, out, b.binary("addi", start, b.index(first)))
        return [out, b.insert(b.binary("addi", first, once), t, where)]

    def sort_column(b: _Serial, column: Any, out: Any, before: Any) -> Sequence[Any]:
        nonlocal start
        start = b.binary("muli", column, b.bounds[rows][1])
        (cleared,) = b.loop(count, [before], clear)
        (counted,) = b.loop(rows, [cleared], tally)
        _, firsts = b.loop(count, [none, counted], accumulate)
        return b.loop(rows, [out, firsts], move)

    start: Any = None
    done, _ = b.loop(columns, [empty, table], sort_column)
    return emit_dispatch(ctx, b, [done], [(moved.shape, moved.dtype)])[0]


class _Serial(Builder):
    """Serial code on single elements."""

    bounds: dict[int, tuple[Value, Value, Value]]
    """Where a loop of so many rounds begins, ends, and by what it goes on."""

    def number(self, value: int, type_: str) -> Value:
        return self.plain("arith.constant", (), type_, {"value": str(value)})

    def binary(self, op: str, a: Value, b: Value) -> Value:
        return self.plain(f"arith.{op}", (a, b), a.type)

    def index(self, x: Value) -> Value:
        return self.plain("arith.index_cast", (x,), "index")

    def extract(self, x: Value, place: Value) -> Value:
        element = x.type.removesuffix(">").rpartition("x")[2]
        return self.plain("tensor.extract", (x, place), element)

    def insert(self, item: Value, x: Value, place: Value) -> Value:
        return self.plain("tensor.insert", (item, x, place), x.type)

    def loop(
        self,
        count: int,
        starts: Sequence[Value],
        body: Callable[..., Sequence[Value]],
    ) -> Sequence[Value]:
        """`starts` after `count` rounds of `body(builder, i, *values)`."""
        counter, state = PlainValue("index"), [PlainValue(v.type) for v in starts]
        inner = _Serial(Block([counter, *state]))
        inner.source, inner.bounds = self.source, self.bounds
        inner.append("scf.yield", body(inner, counter, *state))
        results = [PlainValue(v.type) for v in starts]
        self.counted(self.bounds[count], starts, inner.block, results)
        return results
