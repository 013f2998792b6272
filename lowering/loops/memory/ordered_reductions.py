"""Rules of reductions in order: argmax, argmin and cumulative ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.core.primitive import Primitive
from xpr.lowering.context import Value
from xpr.lowering.loops.memory.affine import Place
from xpr.lowering.loops.memory.arrays import Array, Index, Mapping, Scalar, actual, moved, part_of
from xpr.lowering.loops.memory.context import LoopContext
from xpr.lowering.loops.memory.nest import (
    Axes,
    Nest,
    Reads,
    State,
    best_lane,
    lanes_for,
    lanes_shape,
    rounds,
    run_loops,
    segments,
    store,
)
from xpr.lowering.loops.memory.program import Program

Avals = Sequence[ShapedArray]

CUMULATIVE = {"cumsum": "add", "cumprod": "multiply", "cummax": "maximum", "cummin": "minimum"}


def argument(
    p: Program,
    primitive: Primitive,
    avals: Avals,
    x: Array,
    *,
    axes: Sequence[int],
    index_dtype: Any,
    **__: Any,
) -> Array:
    """The first place of the greatest or least element; of the first NaN if there is one."""
    (axis,) = axes
    x = actual(x)
    if isinstance(x, Scalar):
        return Scalar(avals[0].shape, avals[0].dtype, place=Place(), literal=0)
    p.cut_along_axes(x)
    reads = Reads(x.shape)
    reads.add(x)
    cuts = reads.cuts()
    assert cuts is not None
    kept = [i for i in range(len(x.shape)) if i != axis]
    target = p.allocate(avals[0].shape, avals[0].dtype)
    direction = "GT" if primitive.name == "argmax" else "LT"

    def better(ctx: LoopContext, new: Value, old: Value) -> Value:
        found = ctx.compare(direction, new, old)
        if dtypes.kind(x.dtype) != "f":
            return found
        nan, known = (ctx.compare("NE", v, v) for v in (new, old))
        return ctx.and_(ctx.or_(found, nan), ctx.not_(known))

    lane = best_lane(reads, [target.place(tuple(reads.index[i] for i in kept))], kept)
    order = [i for i in kept if i != lane] + [i for i in kept if i == lane]
    loops = Axes(x.shape, cuts, order, lane)
    loops.lanes = lanes_for([x.dtype, avals[0].dtype])

    def leaf(nest: Nest, index: Index, state: State) -> State:
        def at(place: Place) -> Index:
            return (*index[:axis], place, *index[axis:])

        shape = lanes_shape(nest, index)
        first = _broadcast(nest.ctx, nest.value(x, at(Place())), shape)
        current = [first, nest.ctx.constant(0, avals[0].dtype, shape)]
        for low, high in segments(cuts[axis]):

            def body(inner: Nest, place: Place, carried: State) -> State:
                new = _broadcast(inner.ctx, inner.value(x, at(place)), shape)
                test = better(inner.ctx, new, carried[0])
                number = _broadcast(inner.ctx, inner.number_at(place, avals[0].dtype), shape)
                return [
                    inner.ctx.select(test, new, carried[0]),
                    inner.ctx.select(test, number, carried[1]),
                ]

            current = rounds(nest, low, high - low, 1, current, body)
        store(nest, target, index, current[1])
        return state

    run_loops(Nest([p.ctx]), loops, order, {}, [], leaf)
    return target


def cumulative(
    p: Program, primitive: Primitive, avals: Avals, x: Array, *, axis: int, reverse: bool
) -> Array:
    """The reductions of all elements up to each along an axis."""
    x = actual(x)
    if isinstance(x, Scalar):
        return x
    p.cut_along_axes(x)
    flipped = _flipped(axis, x.shape[axis]) if reverse else None
    if flipped is not None:
        x = moved(x, x.shape, flipped)
    op = CUMULATIVE[primitive.name]
    reads = Reads(x.shape)
    reads.add(x)
    cuts = reads.cuts()
    assert cuts is not None
    result = p.allocate(x.shape, x.dtype)
    target = part_of(result, x.shape, flipped) if flipped else result
    kept = [i for i in range(len(x.shape)) if i != axis]
    lane = best_lane(reads, [target.place(reads.index)], kept)
    order = [i for i in kept if i != lane] + [i for i in kept if i == lane]
    axes = Axes(x.shape, cuts, order, lane)
    axes.lanes = lanes_for([x.dtype])

    def leaf(nest: Nest, index: Index, state: State) -> State:
        def at(place: Place) -> Index:
            return (*index[:axis], place, *index[axis:])

        shape = lanes_shape(nest, index)
        total: State = []
        for low, high in segments(cuts[axis]):
            first = 0
            if not total:
                first = 1
                total = [_broadcast(nest.ctx, nest.value(x, at(Place(low))), shape)]
                store(nest, target, at(Place(low)), total[0])
            if high - low - first == 0:
                continue

            def body(inner: Nest, place: Place, carried: State) -> State:
                new = _broadcast(inner.ctx, inner.value(x, at(place)), shape)
                out = inner.ctx.binary(op, carried[0], new)
                store(inner, target, at(place), out)
                return [out]

            total = rounds(nest, low + first, high - low - first, 1, total, body)
        return state

    run_loops(Nest([p.ctx]), axes, order, {}, [], leaf)
    return result


def _flipped(axis: int, n: int) -> Mapping:
    """The other way round along an axis."""
    return lambda index: tuple(i * -1 + (n - 1) if a == axis else i for a, i in enumerate(index))


def _broadcast(ctx: LoopContext, x: Value, shape: tuple[int, ...]) -> Value:
    return x if x.shape == shape else ctx.broadcast_in_dim(x, shape, ())
