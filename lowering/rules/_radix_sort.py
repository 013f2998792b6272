"""Sorting by counting digits, as dispatches of one serial loop: for processors without a host.

The least significant digit is sorted first, and each pass is stable: D. E. Knuth, "The Art of
Computer Programming", volume 3, section 5.2.5. A pass counts the digits, sums the counts to the
places where each digit's elements begin, and moves the elements there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.single_dispatch import emit_dispatch

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
    element, word = f"i{8 * moved.dtype.itemsize}", f"i{bits}"
    array, keys = f"tensor<{rows * columns}x{element}>", f"tensor<{rows * columns}x{word}>"
    # The topmost bit is the sign: negative numbers come first.
    flip = 1 << (bits - 1 - low) if low + digit >= bits else 0
    load = [
        "%place = arith.addi %start, %i : index",
        f"%item = tensor.extract {moved.name}[%place] : {array}",
    ]
    if code is None:
        load += [f"%word = arith.shrui %item, %low : {word}"]
    else:
        load += [
            f"%row = arith.index_cast %item : {element} to index",
            "%there = arith.addi %start, %row : index",
            f"%code = tensor.extract {key.name}[%there] : {keys}",
            f"%word = arith.shrui %code, %low : {word}",
        ]
    load += [
        f"%masked = arith.andi %word, %mask : {word}",
        f"%turned = arith.xori %masked, %flip : {word}",
        f"%digit = arith.index_cast %turned : {word} to index",
    ]
    counts = f"tensor<{count}xi32>"
    lines = [
        "%zero = arith.constant 0 : index",
        "%step = arith.constant 1 : index",
        f"%rows = arith.constant {rows} : index",
        f"%columns = arith.constant {columns} : index",
        f"%digits = arith.constant {count} : index",
        f"%low = arith.constant {low} : {word}",
        f"%mask = arith.constant {count - 1} : {word}",
        f"%flip = arith.constant {flip} : {word}",
        "%none = arith.constant 0 : i32",
        "%once = arith.constant 1 : i32",
        f"%empty = tensor.empty() : {array}",
        f"%table = tensor.empty() : {counts}",
        "%all, %unused = scf.for %column = %zero to %columns step %step iter_args("
        f"%out = %empty, %before = %table) -> ({array}, {counts}) {{",
        "%start = arith.muli %column, %rows : index",
        "%cleared = scf.for %i = %zero to %digits step %step iter_args(%t = %before) -> "
        f"({counts}) {{",
        f"%u = tensor.insert %none into %t[%i] : {counts}",
        f"scf.yield %u : {counts}",
        "}",
        "%counted = scf.for %i = %zero to %rows step %step iter_args(%t = %cleared) -> "
        f"({counts}) {{",
        *load,
        f"%old = tensor.extract %t[%digit] : {counts}",
        "%new = arith.addi %old, %once : i32",
        f"%u = tensor.insert %new into %t[%digit] : {counts}",
        f"scf.yield %u : {counts}",
        "}",
        "%total, %firsts = scf.for %i = %zero to %digits step %step iter_args("
        f"%sum = %none, %t = %counted) -> (i32, {counts}) {{",
        f"%size = tensor.extract %t[%i] : {counts}",
        f"%u = tensor.insert %sum into %t[%i] : {counts}",
        "%next = arith.addi %sum, %size : i32",
        f"scf.yield %next, %u : i32, {counts}",
        "}",
        "%sorted, %after = scf.for %i = %zero to %rows step %step iter_args("
        f"%o = %out, %t = %firsts) -> ({array}, {counts}) {{",
        *load,
        f"%first = tensor.extract %t[%digit] : {counts}",
        "%within = arith.index_cast %first : i32 to index",
        "%target = arith.addi %start, %within : index",
        f"%p = tensor.insert %item into %o[%target] : {array}",
        "%new = arith.addi %first, %once : i32",
        f"%u = tensor.insert %new into %t[%digit] : {counts}",
        f"scf.yield %p, %u : {array}, {counts}",
        "}",
        f"scf.yield %sorted, %after : {array}, {counts}",
        "}",
    ]
    (name,) = emit_dispatch(ctx, lines, ["%all"], [array])
    return Value(name, moved.shape, moved.dtype)
