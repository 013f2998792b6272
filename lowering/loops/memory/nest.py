"""Nests of loops: arrays stored element by element, and reductions, in lanes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.source_info import UNKNOWN
from xpr.lowering.context import Shape, Value
from xpr.lowering.loops.memory.affine import Place, Symbol
from xpr.lowering.loops.memory.arrays import (
    Array,
    Buffer,
    Index,
    Map,
    Scalar,
    View,
    Within,
    actual,
    cost_of,
)
from xpr.lowering.loops.memory.context import LoopContext
from xpr.lowering.loops.refusal import NotInMemory

# A vector's bytes.
_VECTOR_BYTES = 64
# Folds keep as many vectors at once, since each addition waits for the one before.
_PARTIAL_FOLDS = 4

# So few elements are folded without a loop, and read one by one: a vector would wait for all of its
# elements to reach memory where one has just been stored.
_UNROLLED = 16

# Operations on elements that one step may do to one array: beyond that threads gain more than
# dispatches cost.
_MAX_WORK = 1 << 26

# The operations that a nest which is cut in many pieces may be written with.
_MAX_CODE = 2500

# Beyond so many operations for each access to memory elements are computed in lanes even if they
# lie apart, and are read and written one by one.
_SCATTERED_COST = 3

State = list[Value]


class Nest:
    """Where elements are computed: the blocks of a nest of loops, from the outermost one on.

    What does not depend on the inner loops' indices is computed outside of them, and once only.
    """

    def __init__(
        self,
        contexts: Sequence[LoopContext],
        known: Sequence[dict[tuple[Array, Index], Value]] = (),
        depths: dict[Symbol, int] | None = None,
        lane: Symbol | None = None,
        lanes: int = 0,
    ) -> None:
        self._contexts = contexts
        self._known = known or [{}]
        self._depths = depths or {}
        self.lane = lane
        self.lanes = lanes
        self._current = 0

    def inside(self, ctx: LoopContext, symbol: Symbol) -> Nest:
        """The nest with one more loop, and its index."""
        depths = self._depths | {symbol: len(self._contexts)}
        known = [*self._known, {}]
        return Nest([*self._contexts, ctx], known, depths, self.lane, self.lanes)

    def in_lanes(self, lane: Symbol, lanes: int) -> Nest:
        """The nest where `lane` counts the lanes of vectors."""
        depth = len(self._contexts) - 1
        known = [*self._known[:-1], dict(self._known[-1])]
        return Nest(self._contexts, known, self._depths | {lane: depth}, lane, lanes)

    @property
    def ctx(self) -> LoopContext:
        """The innermost block."""
        return self._contexts[-1]

    def _depth(self, index: Iterable[Place]) -> int:
        depths = self._depths
        return max((depths.get(s, 0) for i in index for s in i.terms), default=0)

    def _lanes_of(self, index: Iterable[Place]) -> int:
        return self.lanes if any(self.lane in i.terms for i in index) else 0

    def value(self, x: Array, index: Index) -> Value:
        """The elements of `x` at an index, lanes of them if the index runs over lanes."""
        x = actual(x)
        if isinstance(x, Scalar):
            return self.number(x)
        depth = self._depth(index)
        known = self._known[depth]
        found = known.get((x, index))
        if found is None:
            outer, self._current = self._current, depth
            with self._written_for(x):
                found = known[x, index] = x.at(self, index)
            self._current = outer
        return found

    @contextmanager
    def _written_for(self, x: Array) -> Iterator[None]:
        """Has the operations that are written meanwhile come from the line that asked for `x`."""
        outer = [ctx.source for ctx in self._contexts]
        if x.source is not UNKNOWN:
            for ctx in self._contexts:
                ctx.source = x.source
        try:
            yield
        finally:
            for ctx, source in zip(self._contexts, outer, strict=True):
                ctx.source = source

    # ---- what arrays compute their elements with

    def number(self, x: Scalar) -> Value:
        ctx = self._contexts[0]
        return number(ctx, x)

    def load(self, buffer: Buffer, place: Place, dtype: np.dtype[Any]) -> Value:
        ctx = self._contexts[self._depth((place,))]
        if self.lane is None:
            return ctx.load(buffer.memory, place, 0, 0, dtype)
        step = place.factor(self.lane)
        return ctx.load(
            buffer.memory, place.without(self.lane), step, self.lanes if step else 0, dtype
        )

    def load_each(
        self, buffer: Buffer, place: Place, offsets: Value, high: int, dtype: np.dtype[Any]
    ) -> Value:
        """The elements at a place moved by each of the `offsets`, from 0 to `high`."""
        ctx = self.ctx
        items: list[Value] = []
        for i in range(offsets.shape[0]):
            one = ctx.reshape(ctx.rearranged([offsets], np.array([i])), ())
            at = place + Place.of(Symbol(ctx.index_from(one), 0, high))
            if self.lane is not None:
                at = at.without(self.lane) + i * place.factor(self.lane)
            items.append(ctx.load(buffer.memory, at, 0, 0, dtype))
        return ctx.joined(items)

    def number_at(self, place: Place, dtype: np.dtype[Any]) -> Value:
        ctx = self._contexts[self._depth((place,))]
        if self.lane is None or self.lane not in place.terms:
            return ctx.number_at(place, dtype)
        base = ctx.number_at(place.without(self.lane), dtype)
        steps = np.arange(self.lanes).astype(dtype) * dtype.type(place.factor(self.lane))
        return ctx.add(ctx.dense(steps), ctx.broadcast_in_dim(base, (self.lanes,), ()))

    def place_of(self, number: Value, high: int, index: Iterable[Place]) -> Place:
        """A number in 0 .. high as a place; it was computed at `index`."""
        depth = self._depth(index)
        symbol = Symbol(self._contexts[depth].index_from(number), 0, high)
        self._depths[symbol] = depth
        return Place.of(symbol)

    def context_at(self, index: Iterable[Place]) -> LoopContext:
        """The block that what depends on an index is computed in."""
        return self._contexts[self._depth(index)]

    def mapped(self, x: Map, operands: Sequence[Value], index: Index) -> Value:
        ctx = self._contexts[self._depth(index)]
        lanes = self._lanes_of(index)
        shape: Shape = (lanes,) if lanes else ()
        elements: list[Value] = []
        for v, operand in zip(operands, x.operands, strict=True):
            whole = actual(operand)
            if isinstance(whole, Scalar) and whole.literal is not None:
                elements.append(ctx.constant(whole.literal, whole.dtype, shape))
            elif v.shape == shape:
                elements.append(v)
            else:
                elements.append(ctx.broadcast_in_dim(v, shape, ()))
        return applied(ctx, x.rule, elements, x.dtype, shape)


def applied(
    ctx: LoopContext,
    rule: Callable[..., Any],
    operands: Sequence[Value],
    dtype: np.dtype[Any],
    shape: Shape,
) -> Value:
    """An elementwise rule on registers."""
    ctx.in_avals = [v.aval for v in operands]
    ctx.out_avals = [ShapedArray(shape, dtype)]
    return rule(ctx, *operands)


def number(ctx: LoopContext, x: Scalar) -> Value:
    """A number in a register."""
    if x.register is not None:
        return x.register
    if x.place is not None:
        return ctx.number_at(x.place, x.dtype)
    return ctx.constant(x.literal, x.dtype)


# ---- what a nest reads, and where it is cut


class Reads:
    """What the elements of arrays at symbolic indices are read from.

    `bounds` holds pairs of a place and a length: where the place passes 0 or the length, what is
    computed changes.
    """

    def __init__(self, shape: Shape) -> None:
        self.symbols = [Symbol(None, 0, n - 1) for n in shape]
        self.index: Index = tuple(map(Place.of, self.symbols))
        self.places: list[tuple[Buffer, Place | None]] = []
        self.bounds: list[tuple[Place, int]] = []
        self._seen: set[tuple[Array, Index]] = set()

    def add(self, x: Array, index: Index | None = None) -> None:
        """Notes what `x` reads."""
        x = actual(x)
        index = self.index if index is None else index
        if isinstance(x, Scalar) or (x, index) in self._seen:
            return
        self._seen.add((x, index))
        if isinstance(x, View):
            self.places.append((x.buffer, x.place(index)))
        self.places += [(buffer, None) for buffer in x.anywhere]
        if isinstance(x, Within):
            ranges = [(i, i.bounds, n) for i, n in zip(x.moved(index), x.part.shape, strict=True)]
            if all(low < n and high >= 0 for _, (low, high), n in ranges):
                self.bounds += [(i, n) for i, (low, high), n in ranges if low < 0 or high >= n]
        for operand, at in x.visit(index):
            self.add(operand, at)

    def cuts(self) -> list[list[int]] | None:
        """Where each axis is cut, from 0 to its end; None if some cut does not lie along one."""
        cuts = [{0, s.high + 1} for s in self.symbols]
        for place, length in self.bounds:
            if len(place.terms) != 1:
                return None
            ((symbol, factor),) = place.terms.items()
            if factor not in (1, -1) or symbol not in self.symbols:
                return None
            axis = self.symbols.index(symbol)
            for end in (0, length):
                # Where the place goes from end - 1 to end, or from end to end - 1.
                at = (end - place.constant) * factor + (factor < 0)
                if 0 < at <= symbol.high:
                    cuts[axis].add(at)
        return [sorted(c) for c in cuts]


# ---- loops


class Share:
    """What one of `count` workgroups does of a nest: a part of the rounds along one axis.

    `own` is the workgroup's number.
    """

    __slots__ = ("count", "own")

    def __init__(self, own: Value, count: int) -> None:
        self.own = own
        self.count = count

    def rounds(self, ctx: LoopContext, count: int) -> tuple[Value, Value]:
        """The first of `count` rounds that the workgroup does, and where it ends."""
        each = -(-count // self.count)
        first = ctx.clamped(ctx.times_index(self.own, each), None, count)
        return first, ctx.clamped(ctx.plus_index(first, ctx.index(each)), None, count)


class Axes:
    """The loops of a nest: its shape, where axes are cut, their order and the one in lanes.

    Along the axis `shared` each workgroup does its share.
    """

    def __init__(
        self, shape: Shape, cuts: Sequence[Sequence[int]], order: Sequence[int], lane: int | None
    ) -> None:
        self.shape = shape
        self.cuts = cuts
        self.order = tuple(order)
        self.lane = lane
        self.lanes = 1
        self.share: Share | None = None
        self.shared: int | None = None


Leaf = Callable[[Nest, Index, State], State]


def run_loops(
    nest: Nest, axes: Axes, order: Sequence[int], index: dict[int, Place], state: State, leaf: Leaf
) -> State:
    """The loops along the axes of `order`, the first outermost."""
    if not order:
        full = tuple(index[i] for i in range(len(axes.shape)) if i in index)
        return leaf(nest, full, state)
    axis, rest = order[0], order[1:]
    for low, high in segments(axes.cuts[axis]):
        for start, count, lanes in _pieces(low, high, axes.lanes if axis == axes.lane else 1):

            def body(inner: Nest, place: Place, current: State, lanes: int = lanes) -> State:
                if lanes > 1:
                    lane = Symbol(None, 0, lanes - 1)
                    inner = inner.in_lanes(lane, lanes)
                    place = place + Place.of(lane)
                return run_loops(inner, axes, rest, {**index, axis: place}, current, leaf)

            share = axes.share if axis == axes.shared else None
            state = rounds(nest, start, count, lanes, state, body, share)
    return state


def rounds(
    nest: Nest,
    start: int,
    count: int,
    step: int,
    state: State,
    body: Callable[[Nest, Place, State], State],
    share: Share | None = None,
) -> State:
    """`body` at `start`, `start + step`, ..., `count` times, or a workgroup's share of them."""

    def step_of(ctx: LoopContext, symbol: Symbol, current: State) -> State:
        return body(nest.inside(ctx, symbol), Place.of(symbol) + start, current)

    if share is not None:
        ends = [nest.ctx.times_index(at, step) for at in share.rounds(nest.ctx, count)]
        return nest.ctx.for_each(count * step, step, state, step_of, (ends[0], ends[1]))
    if count == 1:
        return body(nest, Place(start), state)
    return nest.ctx.for_each(count * step, step, state, step_of)


def segments(cuts: Sequence[int]) -> Iterator[tuple[int, int]]:
    return itertools.pairwise(cuts)


def _pieces(low: int, high: int, lanes: int) -> Iterator[tuple[int, int, int]]:
    """(start, rounds, lanes) that cover low .. high-1: whole vectors, then what is left."""
    count, left = divmod(high - low, lanes)
    if count:
        yield low, count, lanes
    if left:
        yield high - left, 1, left


def lanes_for(dtypes: Iterable[np.dtype[Any]]) -> int:
    """How many lanes a vector has."""
    return max(1, _VECTOR_BYTES // max(d.itemsize for d in dtypes))


def best_lane(reads: Reads, targets: Sequence[Place], axes: Iterable[int]) -> int | None:
    """The axis along which most of what is read and written lies in order, if there is one."""
    best, most = None, 0
    for axis in axes:
        symbol = reads.symbols[axis]
        if symbol.high == 0:
            continue
        score = 0
        for place in targets:
            factor = place.factor(symbol)
            score += 2 if factor == 1 else -2 if factor else 0
        for _, place in reads.places:
            if place is not None:
                factor = place.factor(symbol)
                score += 1 if factor == 1 else 0 if factor in (0, -1) else -1
        if score >= most and (score > 0 or not (targets or reads.places)):
            best, most = axis, score
    return best


def _has_rows(cuts: Sequence[int]) -> bool:
    """Whether some piece between cuts is longer than one element."""
    return len(cuts) <= cuts[-1]


def _longest_axis(cuts: Sequence[Sequence[int]], least: int) -> int | None:
    """The axis with the longest piece between cuts, if some has so many elements."""
    longest = [max(high - low for low, high in segments(c)) for c in cuts]
    most = max(longest, default=0)
    return longest.index(most) if most >= least else None


def reduce_lanes(ctx: LoopContext, op: str, x: Value) -> Value:
    """All lanes of a vector in one number, by halving."""
    if not x.shape:
        return x
    lanes = x.shape[0]
    while lanes > 1:
        half = lanes // 2
        places = np.arange(lanes)
        low, high = (ctx.rearranged([x], places[i : i + half]) for i in (0, half))
        y = ctx.binary(op, low, high)
        if lanes % 2:
            last = ctx.rearranged([x], places[-1:])
            x = ctx.rearranged([y, last], np.arange(half + 1))
        else:
            x = y
        lanes = half + lanes % 2
    return ctx.reshape(x, ())


def _fold_few(ctx: LoopContext, op: str, start: Any, x: Array) -> Value:
    """All elements in one number, folded in pairs."""
    nest = Nest([ctx])
    values = [nest.value(x, tuple(map(Place, at))) for at in np.ndindex(x.shape)]
    values[0] = ctx.binary(op, ctx.constant(start, x.dtype), values[0])
    while len(values) > 1:
        pairs = itertools.zip_longest(values[::2], values[1::2])
        values = [a if b is None else ctx.binary(op, a, b) for a, b in pairs]
    return values[0]


def _limit_work(shape: Shape, values: Sequence[Array]) -> None:
    most = _MAX_WORK // max(1, math.prod(shape))
    bound = sum(1 + v.cost for v in values)
    if bound > most and len(values) + cost_of(values) > most:
        raise NotInMemory("much work on one array")


def store_all(
    ctx: LoopContext,
    targets: Sequence[View],
    values: Sequence[Array],
    *,
    in_order: bool,
    share: Share | None = None,
) -> None:
    """Stores arrays of one shape; nothing that is read may be overwritten before.

    With `in_order` the loops go through the elements in row-major order. With `share` each
    workgroup stores its part, so that nothing that is read may be stored by another one.
    """
    shape = targets[0].shape
    if share is None:
        _limit_work(shape, values)
    reads = Reads(shape)
    for v in values:
        reads.add(v)
    cuts = reads.cuts()
    assert cuts is not None, "what is cut along several axes is stored before"
    places = [t.place(reads.index) for t in targets]
    rank = len(shape)
    allowed = range(rank - 1, rank) if in_order else range(rank)
    lanes = lanes_for([t.dtype for t in targets])
    lane = best_lane(reads, places, [a for a in allowed if a >= 0 and _has_rows(cuts[a])])
    if lane is None and not in_order:
        accesses = len(targets) + len(reads.places)
        if cost_of(values) > _SCATTERED_COST * accesses:
            lane = _longest_axis(cuts, lanes)
    order = [a for a in range(rank) if a != lane] + ([lane] if lane is not None else [])
    if not in_order:
        # Inside of the loop in lanes are the axes that have no loop: what is computed for several
        # of their elements is computed once.
        order.sort(key=lambda a: a != lane and not _has_rows(cuts[a]))
    axes = Axes(shape, cuts, order, lane)
    axes.lanes = lanes
    if share is not None:
        _limit_pieces(cuts, values)
        axes.share, axes.shared = share, _shared_axis(axes, share.count)

    def leaf(nest: Nest, index: Index, state: State) -> State:
        found = [nest.value(v, index if v.shape else ()) for v in values]
        for target, x in zip(targets, found, strict=True):
            store(nest, target, index, x)
        return state

    run_loops(Nest([ctx]), axes, axes.order, {}, [], leaf)


def _limit_pieces(cuts: Sequence[Sequence[int]], values: Sequence[Array]) -> None:
    """Each piece between cuts is code of its own."""
    if math.prod(len(c) - 1 for c in cuts) * (1 + cost_of(values)) > _MAX_CODE:
        raise NotInMemory("many pieces")


def _shared_axis(axes: Axes, count: int) -> int | None:
    """The outermost axis with rounds for `count` workgroups, else the one with the most."""
    found, most = None, 0
    for axis in axes.order:
        longest = max(high - low for low, high in segments(axes.cuts[axis]))
        rounds_ = longest // (axes.lanes if axis == axes.lane else 1)
        if rounds_ >= 2 * count:
            return axis
        if rounds_ > most:
            found, most = axis, rounds_
    return found


def lanes_shape(nest: Nest, index: Index) -> Shape:
    """The shape of what is computed at an index: that of a vector if it runs over lanes."""
    runs = nest.lane is not None and any(nest.lane in i.terms for i in index)
    return (nest.lanes,) if runs else ()


def store(nest: Nest, target: View, index: Index, x: Value) -> None:
    place, lane = target.place(index), nest.lane
    ctx = nest.ctx
    runs = any(lane in i.terms for i in index) if lane is not None else False
    if not runs or lane is None:
        ctx.store(x, target.buffer.memory, place, 0)
        return
    if not x.shape:
        x = ctx.broadcast_in_dim(x, (nest.lanes,), ())
    ctx.store(x, target.buffer.memory, place.without(lane), place.factor(lane))


def reduce_all(
    ctx: LoopContext, op: str, start: Any, x: Array, axes: Sequence[int], target: View | None
) -> Value | None:
    """`x` reduced over axes by an operation, from `start` on: stored, or one number in a register.

    The index of `target` is that of the axes that stay.
    """
    _limit_work(x.shape, [x])
    if target is None and x.size * (1 + x.cost) <= _UNROLLED:
        return _fold_few(ctx, op, start, x)
    reads = Reads(x.shape)
    reads.add(x)
    cuts = reads.cuts()
    assert cuts is not None, "what is cut along several axes is stored before"
    kept = [i for i in range(len(x.shape)) if i not in axes]
    places = []
    if target is not None:
        places = [target.place(tuple(reads.index[i] for i in kept))]
    lane = best_lane(reads, places, range(len(x.shape)))
    reduced = [i for i in axes if i != lane] + [i for i in axes if i == lane]
    outer = [i for i in kept if i != lane] + [i for i in kept if i == lane]
    loops = Axes(x.shape, cuts, (*outer, *reduced), lane)
    lanes = lanes_for([x.dtype])
    loops.lanes = lanes if lane in kept else 1
    dtype = x.dtype

    def rows(nest: Nest, index: dict[int, Place], left: Sequence[int], total: Value) -> Value:
        """The reduction along the axes that are left, the last of them in lanes."""
        if not left:
            return nest.ctx.binary(op, total, nest.value(x, tuple(index[i] for i in range(rank))))
        axis, rest = left[0], left[1:]
        if axis == lane:
            return vectors(nest, index, axis, total)
        for low, high in segments(cuts[axis]):

            def body(inner: Nest, place: Place, state: State) -> State:
                return [rows(inner, {**index, axis: place}, rest, state[0])]

            (total,) = rounds(nest, low, high - low, 1, [total], body)
        return total

    def vectors(nest: Nest, index: dict[int, Place], axis: int, total: Value) -> Value:
        """The innermost axis, in lanes: first several vectors at once, then the rest."""
        for low, high in segments(cuts[axis]):
            wide = lanes * _PARTIAL_FOLDS if high - low >= lanes * _PARTIAL_FOLDS else lanes
            for start_at, count, width in _pieces(low, high, wide):

                def body(inner: Nest, place: Place, state: State, width: int = width) -> State:
                    if width > 1:
                        symbol = Symbol(None, 0, width - 1)
                        inner = inner.in_lanes(symbol, width)
                        place = place + Place.of(symbol)
                    at = {**index, axis: place}
                    v = inner.value(x, tuple(at[i] for i in range(rank)))
                    shape = (width,) if width > 1 else ()
                    if v.shape != shape:
                        v = inner.ctx.broadcast_in_dim(v, shape, ())
                    return [inner.ctx.binary(op, state[0], v)]

                ctx_ = nest.ctx
                begin = ctx_.constant(start, dtype, (width,) if width > 1 else ())
                (found,) = rounds(nest, start_at, count, width, [begin], body)
                total = ctx_.binary(op, total, reduce_lanes(ctx_, op, found))
        return total

    rank = len(x.shape)
    if target is None:
        first = ctx.constant(start, dtype)
        return rows(Nest([ctx]), {}, reduced, first)

    def leaf(nest: Nest, index: Index, state: State) -> State:
        runs = nest.lane is not None and any(nest.lane in i.terms for i in index)
        first = nest.ctx.constant(start, dtype, (nest.lanes,) if runs else ())
        total = rows(nest, dict(zip(kept, index, strict=True)), reduced, first)
        store(nest, target, index, total)
        return state

    run_loops(Nest([ctx]), loops, outer, {}, [], leaf)
    return None
