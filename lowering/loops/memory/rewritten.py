"""Operations written with others: random bits, sorts of short axes, factors of small matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.primitive import Primitive
from xpr.core.trace import get_aval
from xpr.lowering.loops.memory.arrays import Array, Scalar, actual
from xpr.lowering.loops.memory.program import Program
from xpr.lowering.loops.refusal import NotInMemory
from xpr.primitives import _ops as ops
from xpr.primitives import random
from xpr.primitives.creation import broadcasted_iota
from xpr.primitives.gather import index_take
from xpr.primitives.rules import broadcast_to, full_like, shape_of

_UINT32 = np.dtype(np.uint32)
_INT32 = np.dtype(np.int32)
# A sort compares all pairs along its axis: up to this length, and up to this many comparisons.
_SORTED_LENGTH = 256
_SORTED_WORK = 1 << 20
# Matrices with longer sides are factored faster by the host.
_MATRIX_SIDE = 32


def rewritten(function: Callable[..., Any]) -> Callable[..., Sequence[Array]]:
    """The rule of an operation that is a function of tracers."""

    def rule(
        p: Program, _: Primitive, avals: Sequence[ShapedArray], *xs: Array, **params: Any
    ) -> Sequence[Array]:
        def flat(*args: Any) -> Sequence[Any]:
            out = function(*args, **params)
            return out if isinstance(out, (tuple, list)) else [out]

        return p.run(trace_to_jaxpr(flat, [ShapedArray(x.shape, x.dtype) for x in xs]), xs)

    return rule


def of_keys(function: Callable[..., Any]) -> Callable[..., Sequence[Array]]:
    """The rule of an operation that makes random bits of keys, its first operand.

    Keys and bits lie in memory: an element of either is computed from twenty rounds, and what reads
    several of them, as a slice of a split does, would write all rounds again for each.
    """
    rule = rewritten(function)

    def stored(
        p: Program, primitive: Primitive, avals: Sequence[ShapedArray], *xs: Array, **params: Any
    ) -> Sequence[Array]:
        operands = [x if isinstance(actual(x), Scalar) else p.stored(x) for x in xs]
        return [p.stored(x) for x in rule(p, primitive, avals, *operands, **params)]

    return stored


def of_small_matrices(function: Callable[..., Any]) -> Callable[..., Sequence[Array]]:
    """The rule of an operation on matrices that is a function of tracers."""
    rule = rewritten(function)

    def limited(
        p: Program, primitive: Primitive, avals: Sequence[ShapedArray], *xs: Array, **params: Any
    ) -> Sequence[Array]:
        if max(xs[0].shape[-2:]) > _MATRIX_SIDE:
            raise NotInMemory(f"{primitive.name} of a large matrix")
        return rule(p, primitive, avals, *xs, **params)

    return limited


# ---- random bits (Threefry-2x32-20: see `xpr.primitives.random`)


def _shifted(x: Any, direction: str, count: int) -> Any:
    return ops.bind(f"shift_{direction}", x, full_like(x, count))


def _block(k1: Any, k2: Any, x1: Any, x2: Any) -> tuple[Any, Any]:
    parity = ops.bind("xor", ops.bind("xor", k1, k2), full_like(k1, random.PARITY))
    schedule = (k1, k2, parity)
    x1, x2 = ops.add(x1, k1), ops.add(x2, k2)
    for i in range(5):
        for r in random.ROTATIONS[i % 2]:
            x1 = ops.add(x1, x2)
            rotated = ops.bind("or", _shifted(x2, "left", r), _shifted(x2, "right_logical", 32 - r))
            x2 = ops.bind("xor", rotated, x1)
        x1 = ops.add(x1, schedule[(i + 1) % 3])
        x2 = ops.add(x2, ops.add(schedule[(i + 2) % 3], full_like(x2, i + 1)))
    return x1, x2


def threefry2x32(k1: Any, k2: Any, x1: Any, x2: Any) -> tuple[Any, Any]:
    shape = np.broadcast_shapes(*map(shape_of, (k1, k2, x1, x2)))
    return _block(*(broadcast_to(x, shape) for x in (k1, k2, x1, x2)))


def _halves(key: Any, shape: Sequence[int], rank: int) -> tuple[Any, Any]:
    """The two numbers of each key, repeated along the last `rank` axes of `shape`."""
    batch = shape_of(key)[:-1]
    out = []
    for half in (0, 1):
        one = ops.bind(
            "slice",
            key,
            start_indices=(*(0 for _ in batch), half),
            limit_indices=(*batch, half + 1),
            strides=None,
        )
        out.append(broadcast_to(ops.reshape(one, (*batch, *(1 for _ in range(rank)))), shape))
    return out[0], out[1]


def _counted(key: Any, count: int) -> tuple[Any, Any, Any]:
    """Keys [..., count] in two halves, and the place along the last axis."""
    if count > np.iinfo(_UINT32).max:
        raise NotInMemory("random bits of a large array")
    shape = (*shape_of(key)[:-1], count)
    return *_halves(key, shape, 1), broadcasted_iota(_UINT32, shape, len(shape) - 1)


def random_bits(key: Any, *, bit_width: int, shape: tuple[int, ...]) -> Any:
    dtype = np.dtype(f"u{bit_width // 8}")
    k1, k2, place = _counted(key, math.prod(shape))
    first, second = _block(k1, k2, full_like(place, 0), place)
    if bit_width == 64:
        wide = _shifted(ops.convert(first, dtype), "left", 32)
        found = ops.bind("or", wide, ops.convert(second, dtype))
    else:
        found = ops.convert(ops.bind("xor", first, second), dtype)
    return ops.reshape(found, (*shape_of(key)[:-1], *shape))


def random_split(key: Any, *, shape: tuple[int, ...]) -> Any:
    k1, k2, place = _counted(key, 2 * math.prod(shape))
    counter = _shifted(place, "right_logical", 1)
    first, second = _block(k1, k2, full_like(place, 0), counter)
    even = ops.eq(ops.bind("and", place, full_like(place, 1)), full_like(place, 0))
    return ops.reshape(ops.select(even, first, second), (*shape_of(key)[:-1], *shape, 2))


def random_fold_in(key: Any, data: Any) -> Any:
    shape = shape_of(key)
    k1, k2 = _halves(key, shape, 1)
    data = broadcast_to(ops.reshape(data, (*shape[:-1], 1)), shape)
    first, second = _block(k1, k2, full_like(data, 0), data)
    lane = broadcasted_iota(_UINT32, shape, len(shape) - 1)
    return ops.select(ops.eq(lane, full_like(lane, 0)), first, second)


# ---- sorts


def _comes_before(x: Any, y: Any) -> tuple[Any, Any]:
    """Whether elements of `x` come before those of `y`, and whether they are equal; NaN is last."""
    before, equal = ops.lt(x, y), ops.eq(x, y)
    if dtypes.kind(get_aval(x).dtype) != "f":
        return before, equal
    x_nan, y_nan = ops.bind("ne", x, x), ops.bind("ne", y, y)
    last = ops.bind("and", ops.bind("not", x_nan), y_nan)
    both = ops.bind("and", x_nan, y_nan)
    return ops.bind("or", before, last), ops.bind("or", equal, both)


def sort(*operands: Any, dimension: int, is_stable: bool, num_keys: int) -> list[Any]:
    """By counting, for each element, those that come before it."""
    shape = shape_of(operands[0])
    n, rank = shape[dimension], len(shape)
    if n > _SORTED_LENGTH or math.prod(shape) * n > _SORTED_WORK:
        raise NotInMemory("sort of many elements")
    if any(dtypes.kind(get_aval(x).dtype) not in "fiub" for x in operands[:num_keys]):
        raise NotInMemory("sort of complex numbers")
    if n <= 1:
        return list(operands)
    wide = (*shape, n)
    own = tuple(range(rank))
    others = tuple(rank if i == dimension else i for i in range(rank))
    before = ops.lt(broadcasted_iota(_INT32, wide, rank), broadcasted_iota(_INT32, wide, dimension))
    for key in reversed(operands[:num_keys]):
        mine = ops.broadcast_in_dim(key, wide, own)
        other = ops.broadcast_in_dim(key, wide, others)
        less, equal = _comes_before(other, mine)
        before = ops.bind("or", less, ops.bind("and", equal, before))
    place = ops.reduce_sum(ops.convert(before, _INT32), (rank,))
    # The element whose place is k, for each k.
    here = ops.eq(ops.broadcast_in_dim(place, wide, own), broadcasted_iota(_INT32, wide, rank))
    number = ops.select(
        here, broadcasted_iota(_INT32, wide, dimension), full_like(ops.convert(here, _INT32), 0)
    )
    order = ops.reduce_sum(number, (dimension,))
    back = (*range(dimension), rank - 1, *range(dimension, rank - 1))
    order = ops.transpose(order, back)
    indices = [order if a == dimension else broadcasted_iota(_INT32, shape, a) for a in own]
    flat = [ops.reshape(i, (math.prod(shape),)) for i in indices]
    return [ops.reshape(index_take(x, flat, own), shape) for x in operands]
