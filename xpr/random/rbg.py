"""The generators rbg and unsafe_rbg: bits of Philox4x32-10, as JAX's CPU backend makes them.

A key is four uint32: two keys of threefry2x32 for splitting, and a state of `lax.rng_bit_generator`
for drawing. A batch of keys draws one stream from its first key, as in JAX: what `vmap` gives is
not what each key gives alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.key_types import GENERATORS
from xpr.core.trace import get_aval
from xpr.lax.generators import rng_bit_generator
from xpr.primitives import _ops as ops
from xpr.primitives._keys import seed_numbers
from xpr.primitives._physical_rules import register_generator
from xpr.primitives.random import random_fold_in, random_split
from xpr.primitives.slicing import index_in_dim, slice_in_dim

_Shape = tuple[int, ...]


def _first(data: Any) -> Any:
    """The numbers of the first of a batch of keys."""
    while get_aval(data).ndim > 1:
        data = index_in_dim(data, 0, 0, keepdims=False)
    return data


def _stream(data: Any, shape: Sequence[int], dtype: Any) -> Any:
    """Bits `[*batch, *shape]` of keys `[*batch, 4]`."""
    batch = get_aval(data).shape[:-1]
    if 0 in batch:
        return ops.broadcast_in_dim(np.zeros((), dtype)[()], (*batch, *shape), ())
    return rng_bit_generator(_first(data), (*batch, *shape), dtype)[1]


def _bits(data: Any, *, bit_width: int, shape: _Shape) -> Any:
    return _stream(data, shape, np.dtype(f"u{bit_width // 8}"))


def _halves(data: Any) -> Any:
    """Keys as pairs of keys of threefry2x32: `[*batch, 2, 2]`."""
    return ops.reshape(data, (*get_aval(data).shape[:-1], 2, 2))


def _split(data: Any, *, shape: _Shape) -> Any:
    batch = get_aval(data).shape[:-1]
    first, count = len(batch), len(shape)
    new = random_split(_halves(data), shape)
    # [*batch, half, *shape, 2]: the half goes behind the shape.
    order = (*range(first), *range(first + 1, first + 1 + count), first, first + 1 + count)
    return ops.reshape(ops.bind("transpose", new, permutation=order), (*batch, *shape, 4))


def _fold_in(data: Any, number: Any) -> Any:
    batch = get_aval(data).shape[:-1]
    numbers = ops.broadcast_in_dim(number, (*batch, 2), range(len(batch)))
    return ops.reshape(random_fold_in(_halves(data), numbers), (*batch, 4))


def _unsafe_split(data: Any, *, shape: _Shape) -> Any:
    """Each tenth block of a stream: ten blocks are taken for a hash."""
    batch = get_aval(data).shape[:-1]
    words = _stream(data, (10 * math.prod(shape), 4), np.uint32)
    return ops.reshape(slice_in_dim(words, 0, None, 10, axis=len(batch)), (*batch, *shape, 4))


def _unsafe_fold_in(data: Any, number: Any) -> Any:
    words = _stream(seed_numbers(number, GENERATORS["unsafe_rbg"]), (10, 4), np.uint32)
    last = index_in_dim(words, 9, get_aval(number).ndim, keepdims=False)
    return ops.bind("xor", data, last)


register_generator("rbg", bits=_bits, split=_split, fold_in=_fold_in)
register_generator("unsafe_rbg", bits=_bits, split=_unsafe_split, fold_in=_unsafe_fold_in)
