"""The older layout of random bits, of the setting `threefry_partitionable=False`.

The counters 0 .. n-1 of an array of n words are cut in two: block i has counter i of the first
half beside counter i of the second one, and gives the words of both places. With an odd number of
words a zero is added, whose word is dropped. Where elements are wider or narrower than a word,
the array is one of words first: the halves of 64-bit elements lie in the two halves of the array,
and elements of 8 and 16 bits are the parts of a word, the lowest first.

An element depends on the size of its array, so that no part of it can be computed alone. All here
is written with other primitives.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops

_UINT32 = np.dtype(np.uint32)
_MOST_WORDS = int(np.iinfo(_UINT32).max)
_Shape = tuple[int, ...]


def _words(data: Any, count: int) -> Any:
    """`count` words for each of the keys with the numbers `data`: uint32[*batch, count]."""
    if count > _MOST_WORDS:
        raise NotImplementedError(
            f"random bits need {count} words of 32 bits for each key: with the setting "
            f"threefry_partitionable=False at most {_MOST_WORDS} can be drawn at once"
        )
    batch = get_aval(data).shape[:-1]
    half = (count + 1) // 2
    shape = (*batch, half)
    # Counters of the second half, of which the last one is zero if it was added.
    places = np.arange(2 * half, dtype=_UINT32)
    places[count:] = 0
    counters = [
        ops.broadcast_in_dim(places[:half], shape, (len(batch),)),
        ops.broadcast_in_dim(places[half:], shape, (len(batch),)),
    ]
    keys = [_spread(data, i, shape) for i in (0, 1)]
    pair = ops.bind("threefry2x32", *keys, *counters)
    both = ops.bind("concatenate", *pair, dimension=len(batch))
    return _part(both, len(batch), 0, count)


def _spread(data: Any, number: int, shape: _Shape) -> Any:
    """One of the two numbers of each key, as an array of `shape`."""
    axis = len(shape) - 1
    return ops.broadcast_in_dim(_part(data, axis, number, number + 1), shape, range(len(shape)))


def _part(x: Any, axis: int, start: int, stop: int) -> Any:
    shape = get_aval(x).shape
    if (start, stop) == (0, shape[axis]):
        return x
    starts = tuple(start if i == axis else 0 for i in range(len(shape)))
    limits = tuple(stop if i == axis else n for i, n in enumerate(shape))
    return ops.bind("slice", x, start_indices=starts, limit_indices=limits, strides=None)


def original_bits(data: Any, bit_width: int, shape: _Shape) -> Any:
    """Random bits `[*batch, *shape]` of keys with the numbers `data`, uint32[*batch, 2]."""
    size = math.prod(shape)
    batch = get_aval(data).shape[:-1]
    axis = len(batch)
    dtype = np.dtype(f"u{bit_width // 8}")
    words = _words(data, -(-bit_width * size // 32))
    if bit_width == 64:
        high, low = (ops.convert(_part(words, axis, i, i + size), dtype) for i in (0, size))
        shift = ops.broadcast_in_dim(np.uint64(32), (*batch, size), ())
        words = ops.bind("or", ops.bind("shift_left", high, shift), low)
    elif bit_width < 32:
        parts = 32 // bit_width
        wide = (*get_aval(words).shape, parts)
        shifts = np.arange(parts, dtype=_UINT32) * np.uint32(bit_width)
        split = ops.bind(
            "shift_right_logical",
            ops.broadcast_in_dim(words, wide, range(axis + 1)),
            ops.broadcast_in_dim(shifts, wide, (axis + 1,)),
        )
        flat = ops.reshape(ops.convert(split, dtype), (*batch, math.prod(wide[axis:])))
        words = _part(flat, axis, 0, size)
    return ops.reshape(words, (*batch, *shape))


def original_split(data: Any, shape: _Shape) -> Any:
    """The numbers of new keys, uint32[*batch, *shape, 2]."""
    words = _words(data, 2 * math.prod(shape))
    return ops.reshape(words, (*get_aval(data).shape[:-1], *shape, 2))


def original_rbg_split(data: Any, shape: _Shape) -> Any:
    """As `original_split`, for keys of the generator rbg, which are two keys of threefry2x32."""
    batch = get_aval(data).shape[:-1]
    first, count = len(batch), len(shape)
    new = original_split(ops.reshape(data, (*batch, 2, 2)), shape)
    order = (*range(first), *range(first + 1, first + 1 + count), first, first + 1 + count)
    return ops.reshape(ops.transpose(new, order), (*batch, *shape, 4))
