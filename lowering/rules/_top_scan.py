"""The few greatest elements of rows as one dispatch: a loop over the rows, and one over the rounds.

Functions of tracers. What they compute is what `_top_rounds.py` does, row by row: two dispatches
in place of twenty compile in a third of the time, and a row stays in the inner cache for all of its
rounds. One core does it all, though.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core.trace import get_aval
from xpr.lowering.rules._scanned import for_each, scanned
from xpr.primitives import _ops as ops
from xpr.primitives.creation import iota
from xpr.primitives.gather import index_take
from xpr.primitives.rules import full_like, shape_of

_I32 = np.dtype(np.int32)
_I64 = np.dtype(np.int64)
_LAST = int(np.iinfo(_I32).max)

MOST_WORK = 1 << 24
"""Comparisons, a few milliseconds of one core, beyond which several cores are worth more."""


def is_coded(dtype: np.dtype[Any]) -> bool:
    """Whether `codes` knows the order of a dtype."""
    return dtype.name in ("float32", "float16", "bfloat16") or (
        dtype.kind in "iu" and dtype.itemsize <= 4
    )


def codes(x: Any) -> Any:
    """Integers (int32) that compare as the values of `x` do; NaN is greatest."""
    dtype = get_aval(x).dtype
    if dtype == np.uint32:
        signed = ops.bind("bitcast_convert_type", x, new_dtype=_I32)
        return ops.bind("xor", signed, full_like(signed, int(np.iinfo(_I32).min)))
    if dtype.kind in "iu" and dtype.name != "bfloat16":
        return ops.convert(x, _I32)
    wide = ops.convert(x, np.float32)
    bits = ops.bind("bitcast_convert_type", wide, new_dtype=_I32)
    zero, greatest = full_like(bits, 0), full_like(bits, _LAST)
    # Negative floats have descending bit patterns: flipping all but the sign mends that.
    code = ops.select(ops.lt(bits, zero), ops.bind("xor", bits, greatest), bits)
    code = ops.select(ops.eq(wide, full_like(wide, 0)), zero, code)
    return ops.select(ops.bind("ne", wide, wide), greatest, code)


def top_of_rows(x: Any, k: int) -> list[Any]:
    """For each row of `x` its `k` greatest elements, equal ones in order, and their positions."""
    (n,) = shape_of(x)[1:]

    def row(x: Any) -> list[Any]:
        places = _rounds(codes(x), iota(_I32, n), k)
        return [index_take(x, [places], (0,)), places]

    return for_each(row, [x])


def top_of_blocks(x: Any, maxima: Any, k: int, block: int) -> list[Any]:
    """The same for long rows; `maxima` holds the greatest codes of their blocks of that size.

    Elements behind the last whole block are looked at, too.
    """
    n, count = shape_of(x)[1], shape_of(maxima)[1]
    tail = n - count * block

    def row(x: Any, maxima: Any) -> list[Any]:
        # Of blocks with equal maxima the first ones count: each has an element that comes before
        # all those of a later block.
        chosen = _rounds(maxima, iota(_I32, count), k)
        start = ops.mul(chosen, full_like(chosen, block))
        places = ops.add(
            ops.broadcast_in_dim(start, (k, block), (0,)),
            ops.broadcast_in_dim(iota(_I32, block), (k, block), (1,)),
        )
        places = ops.reshape(places, (k * block,))
        if tail:
            last = ops.add(iota(_I32, tail), full_like(iota(_I32, tail), count * block))
            places = ops.bind("concatenate", places, last, dimension=0)
        found = _rounds(codes(index_take(x, [places], (0,))), places, k)
        return [index_take(x, [found], (0,)), found]

    return for_each(row, [x, maxima])


def _rounds(code: Any, position: Any, k: int) -> Any:
    """The `position` of the `k` greatest codes; equal ones by ascending position."""
    high = ops.convert(code, _I64)
    high = ops.bind("shift_left", high, full_like(high, 32))
    low = ops.convert(ops.sub(full_like(position, _LAST), position), _I64)
    # A code and its position in one integer: no two are equal, so that a round is a maximum.
    keys = ops.bind("or", high, low)

    def one(keys: Any, bound: Any) -> list[Any]:
        none = full_like(keys, int(np.iinfo(_I64).min))
        less = ops.lt(keys, ops.broadcast_in_dim(bound, shape_of(keys), ()))
        found = ops.bind("reduce_max", ops.select(less, keys, none), axes=(0,), out_sharding=None)
        return [found, found]

    start = np.int64(np.iinfo(_I64).max)
    found = scanned(one, k, [keys], [start], [])[1]
    low = ops.convert(ops.bind("and", found, full_like(found, _LAST)), _I32)
    return ops.sub(full_like(low, _LAST), low)
