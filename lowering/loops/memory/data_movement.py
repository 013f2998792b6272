"""Rules of what moves elements: slices, pads, broadcasts, and updates in place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.loops.memory.affine import ZERO, Place
from xpr.lowering.loops.memory.arrays import (
    Array,
    Index,
    Iota,
    Map,
    Scalar,
    View,
    Within,
    computed_from,
    contiguous,
    moved,
    part_of,
    reshaped,
)
from xpr.lowering.loops.memory.elementwise import full
from xpr.lowering.loops.memory.program import Program
from xpr.lowering.loops.refusal import NotInMemory

Avals = Sequence[ShapedArray]

# An array of so many operations is stored before it is read once for each row of another.
_SPREAD_COST = 3
_MAX_JOINED = 32


def broadcast_in_dim(
    p: Program,
    _: Primitive,
    avals: Avals,
    x: Array,
    *,
    shape: Sequence[int],
    broadcast_dimensions: Sequence[int],
    **__: Any,
) -> Array:
    dims = tuple(broadcast_dimensions)
    shape = tuple(shape)
    repeated = [n for i, n in enumerate(shape) if i not in dims or x.shape[dims.index(i)] != n]
    if x.cost >= _SPREAD_COST and math.prod(repeated) > 1 and not isinstance(x, Scalar):
        x = p.stored(x)
    stretched = [x.shape[k] == 1 for k in range(len(dims))]

    def mapping(index: Index) -> Index:
        return tuple(ZERO if one else index[d] for d, one in zip(dims, stretched, strict=True))

    return moved(x, shape, mapping)


def reshape(p: Program, _: Primitive, avals: Avals, x: Array, **params: Any) -> Array:
    if params.get("dimensions") is not None:
        raise NotInMemory("reshape of transposed axes")
    return in_shape(p, x, avals[0].shape)


def in_shape(p: Program, x: Array, shape: tuple[int, ...]) -> Array:
    """The elements of `x` in another shape."""
    found = reshaped(x, shape)
    if found is None:
        found = reshaped(p.stored(x, again=True), shape)
    assert found is not None
    return found


def squeeze(p: Program, _: Primitive, avals: Avals, x: Array, **__: Any) -> Array:
    return in_shape(p, x, avals[0].shape)


def transpose(
    p: Program, _: Primitive, avals: Avals, x: Array, *, permutation: Sequence[int]
) -> Array:
    inverse = np.argsort(permutation)
    return moved(x, avals[0].shape, lambda index: tuple(index[i] for i in inverse))


def rev(p: Program, _: Primitive, avals: Avals, x: Array, *, dimensions: Sequence[int]) -> Array:
    shape = x.shape

    def mapping(index: Index) -> Index:
        return tuple(i * -1 + (shape[a] - 1) if a in dimensions else i for a, i in enumerate(index))

    return moved(x, shape, mapping)


def slice_(
    p: Program,
    _: Primitive,
    avals: Avals,
    x: Array,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None,
) -> Array:
    steps = strides or (1,) * len(start_indices)
    return moved(
        x,
        avals[0].shape,
        lambda index: tuple(i * s + a for i, s, a in zip(index, steps, start_indices, strict=True)),
    )


def shifted(x: Array, shape: tuple[int, ...], starts: Sequence[Place]) -> Array:
    """The part of `x` that begins at `starts`."""
    return moved(x, shape, lambda index: tuple(i + s for i, s in zip(index, starts, strict=True)))


def dynamic_slice(
    p: Program,
    _: Primitive,
    avals: Avals,
    x: Array,
    *starts: Array,
    slice_sizes: Sequence[int],
) -> Array:
    limits = [n - s for n, s in zip(x.shape, slice_sizes, strict=True)]
    places = [p.start(s, limit) for s, limit in zip(starts, limits, strict=True)]
    if any(q.known is None for q in places) and _is_cut(x):
        x = p.stored(x)
    return shifted(x, tuple(slice_sizes), places)


def _is_cut(x: Array) -> bool:
    return any(isinstance(v, Within) for v in computed_from([x]))


def dynamic_update_slice(
    p: Program, _: Primitive, avals: Avals, x: Array, update: Array, *starts: Array
) -> Array:
    if update.size == 0:
        return x
    limits = [n - s for n, s in zip(x.shape, update.shape, strict=True)]
    places = [p.start(s, limit) for s, limit in zip(starts, limits, strict=True)]
    target = p.writable(x, [update])
    p.store_all([(part_from(target, update.shape, places), update)])
    return target


def part_from(x: View, shape: tuple[int, ...], starts: Sequence[Place]) -> View:
    """A part of an array in memory."""
    return part_of(x, shape, lambda index: tuple(i + s for i, s in zip(index, starts, strict=True)))


def pad(
    p: Program,
    _: Primitive,
    avals: Avals,
    x: Array,
    value: Array,
    *,
    padding_config: Sequence[tuple[int, int, int]],
) -> Array:
    shape = avals[0].shape
    if x.size == 0:
        return full(value, shape)
    lows = [low for low, _, _ in padding_config]
    if any(gap for _, _, gap in padding_config):
        if any(low < 0 or high < 0 for low, high, _ in padding_config):
            raise NotInMemory("pad with gaps and negative edges")
        target = p.allocate(shape, x.dtype)
        p.store_all([(target, full(value, shape))])
        strides = contiguous(shape)
        offset = sum(low * s for low, s in zip(lows, strides, strict=True))
        steps = [s * (gap + 1) for s, (_, _, gap) in zip(strides, padding_config, strict=True)]
        p.store_all([(View(target.buffer, Place(offset), steps, x.shape, x.dtype), x)])
        return target
    cut = [
        (max(0, -low), n - max(0, -high))
        for n, (low, high, _) in zip(x.shape, padding_config, strict=True)
    ]
    inner = tuple(b - a for a, b in cut)
    if inner != x.shape:
        x = shifted(x, inner, [Place(a) for a, _ in cut])
        x = p.in_register(x)
    return Within(x, value, [max(0, low) for low in lows], shape)


def concatenate(p: Program, _: Primitive, avals: Avals, *xs: Array, dimension: int) -> Array:
    xs = tuple(x for x in xs if x.size)
    if len(xs) > _MAX_JOINED:
        raise NotInMemory("concatenation of many arrays")
    shape = avals[0].shape
    at = shape[dimension] - xs[-1].shape[dimension]

    def starts(first: int) -> list[Place]:
        return [Place(-first if a == dimension else 0) for a in range(len(shape))]

    joined = shifted(xs[-1], shape, starts(at))
    for x in reversed(xs[:-1]):
        at -= x.shape[dimension]
        low = [at if a == dimension else 0 for a in range(len(shape))]
        joined = Within(x, joined, low, shape)
    return joined


def split(
    p: Program, _: Primitive, avals: Avals, x: Array, *, sizes: Sequence[int], axis: int
) -> list[Array]:
    out, at = [], 0
    for aval in avals:
        starts = [Place(at if a == axis else 0) for a in range(len(x.shape))]
        out.append(shifted(x, aval.shape, starts))
        at += aval.shape[axis]
    return out


def stack(p: Program, _: Primitive, avals: Avals, *xs: Array, axis: int) -> Array:
    rows = [in_shape(p, x, (*x.shape[:axis], 1, *x.shape[axis:])) for x in xs]
    return concatenate(p, _, avals, *rows, dimension=axis)


def unstack(p: Program, _: Primitive, avals: Avals, x: Array, *, axis: int) -> list[Array]:
    def row(k: int) -> Array:
        return moved(x, avals[k].shape, lambda index: (*index[:axis], Place(k), *index[axis:]))

    return [row(k) for k in range(len(avals))]


def tile(p: Program, _: Primitive, avals: Avals, x: Array, *, reps: Sequence[int]) -> Array:
    lead = len(reps) - len(x.shape)
    shape = (*(1,) * lead, *x.shape)
    pairs_of_axes = tuple(n for pair in zip(reps, shape, strict=True) for n in pair)

    def mapping(index: Index) -> Index:
        return tuple(index[2 * i + 1] for i in range(lead, len(shape)))

    return in_shape(p, moved(x, pairs_of_axes, mapping), avals[0].shape)


def iota(p: Program, _: Primitive, avals: Avals, *, dimension: int, **__: Any) -> Array:
    aval = avals[0]
    if aval.dtype.kind in "iu":
        return Iota(aval.shape, aval.dtype, dimension)

    def convert(ctx: LoweringContext, x: Value) -> Value:
        return ctx.convert(x, aval.dtype)

    narrow = aval.shape[dimension] <= np.iinfo(np.int32).max
    places = Iota(aval.shape, np.dtype(np.int32 if narrow else np.int64), dimension)
    return Map(convert, (places,), aval.shape, aval.dtype, 1)
