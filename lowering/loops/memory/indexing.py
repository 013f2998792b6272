"""Rules of gathers and scatters: indices are clamped, or what lies outside is left out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Shape, Value
from xpr.lowering.loops.memory.affine import Place, Symbol
from xpr.lowering.loops.memory.arrays import Array, Buffer, Index, Map, Scalar, View, actual, moved
from xpr.lowering.loops.memory.conflicts import Verdict, verdict
from xpr.lowering.loops.memory.context import LoopContext
from xpr.lowering.loops.memory.data_movement import in_shape, part_from, shifted
from xpr.lowering.loops.memory.nest import Nest, number
from xpr.lowering.loops.memory.program import Program, again, all_buffers
from xpr.lowering.loops.refusal import NotInMemory
from xpr.primitives._index_dims import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from xpr.primitives.gather import gather_fill

Avals = Sequence[ShapedArray]
_GATHER_COST = 4
_COMBINES = {
    "scatter-add": "add",
    "scatter-sub": "subtract",
    "scatter-mul": "multiply",
    "scatter-min": "minimum",
    "scatter-max": "maximum",
}


def _components(p: Program, indices: Array) -> list[Array]:
    """The numbers of a single index vector."""
    count = indices.shape[-1]
    flat = in_shape(p, indices, (count,))
    return [p.in_register(moved(flat, (), lambda _, k=k: (Place(k),))) for k in range(count)]


def _inside(p: Program, starts: Sequence[Array], limits: Sequence[int]) -> Value | None:
    """Whether all starts lie in 0 .. limit; None if that is known."""
    ctx, found = p.ctx, None
    for x, limit in zip(starts, limits, strict=True):
        x = p.in_register(x)
        assert isinstance(x, Scalar)
        low, high = x.place.bounds if x.place is not None else (-1, limit + 1)
        tests = []
        if (low < 0 and dtypes.kind(x.dtype) == "i") or x.place is None:
            tests.append("GE")
        if high > limit or x.place is None:
            tests.append("LE")
        if x.place is not None and (high < 0 or low > limit):
            tests = ["GE", "LE"]
        for test in tests:
            bound = 0 if test == "GE" else min(limit, int(dtypes.iinfo(x.dtype).max))
            if test == "GE" and dtypes.kind(x.dtype) == "u":
                continue
            one = ctx.compare(test, number(ctx, x), bound)
            found = one if found is None else ctx.and_(found, one)
    return found


def _starts_by_axis(rank: int, mapping: Sequence[int], places: Sequence[Place]) -> list[Place]:
    starts = [Place()] * rank
    for axis, place in zip(mapping, places, strict=True):
        starts[axis] = place
    return starts


class _Gathered(Array):
    """Slices of an array in memory at starts that are computed element by element."""

    __slots__ = ("dims", "fill", "indices", "limits", "operand")

    def __init__(
        self,
        operand: View,
        indices: Array,
        dims: GatherDimensionNumbers,
        limits: Sequence[int],
        fill: Any,
        shape: Shape,
    ) -> None:
        super().__init__(
            shape, operand.dtype, operand.buffers | indices.buffers, indices.cost + _GATHER_COST
        )
        self.operand = operand
        self.indices = indices
        self.dims = dims
        self.limits = tuple(limits)
        self.fill = fill

    @property
    def operands(self) -> Sequence[Array]:
        return self.operand, self.indices

    @property
    def anywhere(self) -> Sequence[Buffer]:
        return tuple(self.operand.buffers)

    def _vectors(self, index: Index) -> list[Index]:
        """Where in the indices the components of the start for an element lie."""
        batch = [p for i, p in enumerate(index) if i not in self.dims.offset_dims]
        return [(*batch, Place(k)) for k in range(len(self.limits))]

    def visit(self, index: Index) -> Iterator[tuple[Array, Index]]:
        for at in self._vectors(index):
            yield self.indices, at

    def at(self, nest: Nest, index: Index) -> Value:
        dims, x = self.dims, self.operand
        batch = [p for i, p in enumerate(index) if i not in dims.offset_dims]
        offsets = iter([index[i] for i in dims.offset_dims])
        inside: list[Place] = []
        for axis in range(len(x.shape)):
            if axis in dims.operand_batching_dims:
                k = dims.operand_batching_dims.index(axis)
                inside.append(batch[dims.start_indices_batching_dims[k]])
            elif axis in dims.collapsed_slice_dims:
                inside.append(Place())
            else:
                inside.append(next(offsets))
        place = x.place(tuple(inside))
        ok: Value | None = None
        total: Value | None = None
        vectors = self._vectors(index)
        ctx = nest.context_at(batch)
        high = 0
        for axis, limit, at in zip(dims.start_index_map, self.limits, vectors, strict=True):
            start = nest.value(self.indices, at)
            one, valid = _clamped(ctx, start, limit, tested=self.fill is not None)
            if valid is not None:
                ok = valid if ok is None else ctx.and_(ok, valid)
            term = ctx.mul(one, x.strides[axis])
            high += limit * x.strides[axis]
            total = term if total is None else ctx.add(total, term)
        if total is None:
            found = nest.load(x.buffer, place, x.dtype)
        elif total.shape:
            found = nest.load_each(x.buffer, place, total, high, x.dtype)
        else:
            found = nest.load(x.buffer, place + nest.place_of(total, high, batch), x.dtype)
        if ok is None:
            return found
        ctx = nest.context_at(index)
        if found.shape != ok.shape:
            ok = ctx.broadcast_in_dim(ok, found.shape, ())
        return ctx.select(ok, found, ctx.constant(self.fill, x.dtype, found.shape))


def _clamped(
    ctx: LoopContext, start: Value, limit: int, *, tested: bool
) -> tuple[Value, Value | None]:
    """Starts moved into 0 .. limit, as int64, and whether they lay there."""
    ok: Value | None = None
    low, high = start, start
    if dtypes.kind(start.dtype) == "i":
        low = high = ctx.maximum(start, 0)
        ok = ctx.compare("GE", start, 0)
    if limit < int(dtypes.iinfo(start.dtype).max):
        high = ctx.minimum(low, limit)
        below = ctx.compare("LE", start, limit)
        ok = below if ok is None else ctx.and_(ok, below)
    return ctx.convert(high, np.int64), ok if tested else None


def gather(
    p: Program,
    _: Primitive,
    avals: Avals,
    x: Array,
    indices: Array,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    mode: GatherScatterMode,
    fill_value: Any,
    **__: Any,
) -> Array:
    dims, aval = dimension_numbers, avals[0]
    limits = [x.shape[a] - slice_sizes[a] for a in dims.start_index_map]
    filled = mode is GatherScatterMode.FILL_OR_DROP
    fill = gather_fill(x.dtype, fill_value) if filled else None
    if math.prod(indices.shape[:-1]) != 1:
        return _Gathered(p.stored(x), p.in_register(indices), dims, limits, fill, aval.shape)
    starts = _components(p, indices)
    places = [p.start(s, limit) for s, limit in zip(starts, limits, strict=True)]
    if not isinstance(x, (View, Scalar)):
        x = p.stored(x)
    at = _starts_by_axis(len(x.shape), dims.start_index_map, places)
    found = in_shape(p, shifted(x, tuple(slice_sizes), at), aval.shape)
    inside = _inside(p, starts, limits) if filled else None
    if inside is None:
        return found

    def choose(ctx: LoweringContext, test: Value, one: Value, other: Value) -> Value:
        return ctx.select(test, one, other)

    test = Scalar((), np.dtype(np.bool_), inside)
    other = Scalar((), x.dtype, literal=fill)
    if isinstance(found, Scalar):
        found = found.shaped(())
    return Map(choose, (test, found, other), aval.shape, x.dtype, 1)


def scatter(
    p: Program,
    primitive: Primitive,
    avals: Avals,
    x: Array,
    indices: Array,
    updates: Array,
    *,
    dimension_numbers: ScatterDimensionNumbers,
    mode: GatherScatterMode,
    update_consts: Sequence[Any] = (),
    update_jaxpr: Any = None,
    **__: Any,
) -> Array:
    dims = dimension_numbers
    if updates.size == 0:
        return x
    if tuple(sorted(dims.update_window_dims)) != tuple(dims.update_window_dims):
        raise NotInMemory("a scatter of transposed windows")
    problem = _Scatter(x.shape, updates.shape, dims, mode, _COMBINES.get(primitive.name))
    if primitive.name == "scatter" and update_jaxpr is not None:
        if math.prod(problem.window) > 1:
            raise NotInMemory("a scatter of windows with a function")
        problem.function = update_jaxpr
    batch = indices.shape[:-1]
    if math.prod(batch) == 1:
        target = p.writable(x, [updates])
        problem.one(p, target, _components(p, indices), (Place(),) * len(batch), updates)
        return target
    indices, updates = p.streamed(indices, x), p.streamed(updates, x)
    target = p.writable(x, [indices, updates])
    if target.buffer in all_buffers(indices) | all_buffers(updates):
        target = p.copied(target)

    def rounds(ctx: LoopContext, left: Sequence[int], at: tuple[Place, ...]) -> None:
        if not left:
            row = tuple(at)
            starts = [
                p.in_register(moved(again(indices), (), lambda _, k=k: (*row, Place(k))))
                for k in range(indices.shape[-1])
            ]
            problem.one(p, again(target), starts, row, again(updates))
            return

        def body(inner: LoopContext, counter: Symbol, _: Any) -> Sequence[Value]:
            with p.inside(inner, [target.buffer]):
                rounds(inner, left[1:], (*at, Place.of(counter)))
            return ()

        ctx.for_each(left[0], 1, (), body)

    rounds(p.ctx, batch, ())
    return target


class _Scatter:
    """Where the updates of a scatter go, and how they are combined with what is there."""

    def __init__(
        self,
        shape: Shape,
        updates: Shape,
        dims: ScatterDimensionNumbers,
        mode: GatherScatterMode,
        combine: str | None,
    ) -> None:
        self.dims = dims
        self.combine = combine
        self.function: ClosedJaxpr | None = None
        self.dropped = mode not in (GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS)
        left_out = (*dims.inserted_window_dims, *dims.operand_batching_dims)
        window = [1] * len(shape)
        axes = [a for a in range(len(shape)) if a not in left_out]
        for axis, d in zip(axes, dims.update_window_dims, strict=True):
            window[axis] = updates[d]
        self.window = tuple(window)
        self.axes = axes
        self.limits = [shape[a] - window[a] for a in dims.scatter_dims_to_operand_dims]

    def one(
        self,
        p: Program,
        target: Array,
        starts: Sequence[Array],
        batch: Sequence[Place],
        updates: Array,
    ) -> None:
        """The update of one index vector, which stands at `batch` of the indices."""
        dims, shape = self.dims, self.window
        places = [p.start(s, limit) for s, limit in zip(starts, self.limits, strict=True)]
        inside = _inside(p, starts, self.limits) if self.dropped else None
        at = _starts_by_axis(len(shape), dims.scatter_dims_to_operand_dims, places)
        pairs = zip(dims.operand_batching_dims, dims.scatter_indices_batching_dims, strict=True)
        for axis, k in pairs:
            at[axis] = batch[k]

        def mapping(index: Index) -> Index:
            rows = iter(batch)
            window = iter([index[a] for a in self.axes])
            return tuple(
                next(window) if d in dims.update_window_dims else next(rows)
                for d in range(len(updates.shape))
            )

        update = p.in_register(moved(updates, shape, mapping))
        assert isinstance(target, View)
        part = part_from(target, shape, at)
        if self.function is not None:
            old, new = (in_shape(p, v, ()) for v in (part, update))
            update = in_shape(p, p.run(self.function, [old, new])[0], shape)
        elif self.combine is not None:
            update = _combined(self.combine, part, update)
        if inside is None:
            p.store_all([(part, update)])
            return
        if verdict([part], [update]) is not Verdict.FREE:
            update = p.stored(update, again=True)
        with p.branch(inside):
            p.store_all([(part, update)])


def _combined(op: str, part: View, update: Array) -> Array:
    def combine(ctx: LoweringContext, old: Value, new: Value) -> Value:
        return ctx.binary(op, old, new)

    update = actual(update)
    if isinstance(update, Scalar):
        update = update.shaped(())
    if part.size == 1:
        part = View(part.buffer, part.offset, (), (), part.dtype)
    return Map(combine, (part, update), part.shape, part.dtype, 1)
