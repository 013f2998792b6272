"""Conversions and counts by the bits of numbers, for compilers that have none of their own.

`w` writes the operations.
"""

from __future__ import annotations

import numpy as np

from xpr.lowering.ir.graph import Value
from xpr.lowering.ir.writer import Writer

_F64 = np.dtype(np.float64)
_I64, _U64 = np.dtype(np.int64), np.dtype(np.uint64)


def size(w: Writer, x: Value) -> tuple[Value, int]:
    """The bits of |x|, and those of infinity; greater ones are NaN's."""
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    infinity = int(np.asarray(np.inf, x.dtype).view(unsigned))
    sign = 1 << (8 * x.dtype.itemsize - 1)
    return w.and_(w.bitcast(x, unsigned), sign - 1), infinity


def as_float32_bits(w: Writer, x: Value) -> Value:
    """The bits of a float64 as float32, in the lower half of 64 bits."""
    of_size, infinity = size(w, x)
    dropped = 52 - 23
    # Half of the last place is added, less one where that place is even.
    odd = w.and_(w.binary("shift_right_logical", of_size, dropped), 1)
    rounded = w.add(w.add(of_size, odd), (1 << (dropped - 1)) - 1)
    kept = w.binary("shift_right_logical", rounded, dropped)
    bits = w.sub(kept, (1023 - 127) << 23)
    # Where numbers are denormal, a sum has the last place of the least of them.
    anchor = np.float64(2.0 ** (52 - 149))
    least = int(anchor.view(np.uint64))
    few = w.sub(w.bitcast(w.add(w.bitcast(of_size, _F64), float(anchor)), _U64), least)
    bits = w.select(w.compare("LT", of_size, (1023 - 126) << 52), few, bits)
    beyond = w.compare("GE", kept, (1023 + 128) << 23)
    bits = w.select(beyond, w.full_like(bits, 0xFF << 23), bits)
    nan = w.full_like(bits, (0xFF << 23) + (1 << 22))
    bits = w.select(w.compare("GT", of_size, infinity), nan, bits)
    sign = w.binary("shift_right_logical", w.bitcast(x, _U64), 32)
    return w.or_(bits, w.and_(sign, 1 << 31))


def whole_part(w: Writer, x: Value, *, signed: bool) -> Value:
    """The whole part of a float64 as 64-bit integer: its mantissa, shifted by its exponent."""
    bits = w.bitcast(x, _U64)
    stored, bias = 52, 1023
    exponent = w.and_(w.binary("shift_right_logical", bits, stored), 2 * bias + 1)
    left = w.sub(w.bitcast(exponent, _I64), bias + stored)
    mantissa = w.or_(w.and_(bits, (1 << stored) - 1), 1 << stored)
    amount = w.bitcast(w.binary("minimum", w.unary("abs", left), 63), _U64)
    found = w.select(
        w.compare("LT", left, 0),
        w.binary("shift_right_logical", mantissa, amount),
        w.binary("shift_left", mantissa, amount),
    )
    if not signed:
        return found
    whole = w.bitcast(found, _I64)
    negative = w.compare("LT", w.bitcast(x, _I64), 0)
    return w.select(negative, w.unary("negate", whole), whole)


def population_count(w: Writer, x: Value) -> Value:
    """The set bits of integers, counted in pairs, groups of four, of eight and so on."""
    width = 8 * x.dtype.itemsize
    count = w.bitcast(x, np.dtype(f"u{x.dtype.itemsize}"))
    group = 1
    while group < width:
        mask = sum(((1 << group) - 1) << at for at in range(0, width, 2 * group))
        upper = w.binary("shift_right_logical", count, group)
        count = w.add(w.and_(count, mask), w.and_(upper, mask))
        group *= 2
    return w.bitcast(count, x.dtype)
