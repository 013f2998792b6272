"""Rules of gathers and scatters: indices are clamped, or what lies outside is left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.loops.affine import Place
from xpr.lowering.loops.arrays import Array, Map, Scalar, View, actual, moved
from xpr.lowering.loops.conflicts import Verdict, verdict
from xpr.lowering.loops.moving import in_shape, part_of, shifted
from xpr.lowering.loops.nest import number
from xpr.lowering.loops.program import Program
from xpr.lowering.loops.refusal import NotInMemory
from xpr.primitives._index_dims import GatherScatterMode
from xpr.primitives.gather import gather_fill

Avals = Sequence[ShapedArray]
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
    return [p.settled(moved(flat, (), lambda _, k=k: (Place(k),))) for k in range(count)]


def _inside(p: Program, starts: Sequence[Array], limits: Sequence[int]) -> Value | None:
    """Whether all starts lie in 0 .. limit; None if that is known."""
    ctx, found = p.ctx, None
    for x, limit in zip(starts, limits, strict=True):
        x = p.settled(x)
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


def _spread_starts(rank: int, mapping: Sequence[int], places: Sequence[Place]) -> list[Place]:
    starts = [Place()] * rank
    for axis, place in zip(mapping, places, strict=True):
        starts[axis] = place
    return starts


def gather(
    p: Program,
    _: Primitive,
    avals: Avals,
    x: Array,
    indices: Array,
    *,
    dimension_numbers: Any,
    slice_sizes: Sequence[int],
    mode: GatherScatterMode,
    fill_value: Any,
    **__: Any,
) -> Array:
    dims, aval = dimension_numbers, avals[0]
    if dims.operand_batching_dims:
        raise NotInMemory("a gather in batches")
    limits = [x.shape[a] - slice_sizes[a] for a in dims.start_index_map]
    filled = mode is GatherScatterMode.FILL_OR_DROP
    fill = gather_fill(x.dtype, fill_value)
    if math.prod(indices.shape[:-1]) != 1:
        raise NotInMemory("a gather of several slices")
    starts = _components(p, indices)
    places = [p.start(s, limit) for s, limit in zip(starts, limits, strict=True)]
    if not isinstance(x, (View, Scalar)):
        x = p.stored(x)
    part = shifted(
        x, tuple(slice_sizes), _spread_starts(len(x.shape), dims.start_index_map, places)
    )
    found = in_shape(p, part, aval.shape)
    inside = _inside(p, starts, limits) if filled else None
    if inside is None:
        return found

    def choose(ctx: LoweringContext, test: Value, one: Value, other: Value) -> Value:
        return ctx.select(test, one, other)

    test = Scalar((), np.dtype(np.bool_), inside)
    other = Scalar((), x.dtype, literal=fill)
    return Map(choose, (test, found, other), aval.shape, x.dtype, 1)


def scatter(
    p: Program,
    primitive: Primitive,
    avals: Avals,
    x: Array,
    indices: Array,
    updates: Array,
    *,
    dimension_numbers: Any,
    mode: GatherScatterMode,
    update_consts: Sequence[Any] = (),
    update_jaxpr: Any = None,
    **__: Any,
) -> Array:
    dims = dimension_numbers
    if dims.operand_batching_dims:
        raise NotInMemory("a scatter in batches")
    if math.prod(indices.shape[:-1]) != 1:
        raise NotInMemory("a scatter of several slices")
    window = [1] * len(x.shape)
    axes = [a for a in range(len(x.shape)) if a not in dims.inserted_window_dims]
    for axis, d in zip(axes, dims.update_window_dims, strict=True):
        window[axis] = updates.shape[d]
    shape = tuple(window)
    if tuple(sorted(dims.update_window_dims)) != tuple(dims.update_window_dims):
        raise NotInMemory("a scatter of transposed windows")
    starts = _components(p, indices)
    limits = [x.shape[a] - shape[a] for a in dims.scatter_dims_to_operand_dims]
    places = [p.start(s, limit) for s, limit in zip(starts, limits, strict=True)]
    dropped = mode is not GatherScatterMode.CLIP and mode is not GatherScatterMode.PROMISE_IN_BOUNDS
    inside = _inside(p, starts, limits) if dropped else None
    update = in_shape(p, updates, shape)
    target = p.writable(x, [update])
    at = _spread_starts(len(shape), dims.scatter_dims_to_operand_dims, places)
    part = part_of(target, shape, at)
    if primitive.name != "scatter":
        update = _combined(_COMBINES[primitive.name], part, update)
    elif update_jaxpr is not None:
        raise NotInMemory("a scatter with a function")
    if inside is None:
        p.assign([(part, update)])
        return target
    if verdict([part], [update]) is not Verdict.FREE:
        update = p.stored(update, again=True)
    bit = inside
    with p.branch(bit):
        p.assign([(part, update)])
    return target


def _combined(op: str, part: View, update: Array) -> Array:
    def combine(ctx: LoweringContext, old: Value, new: Value) -> Value:
        return ctx.binary(op, old, new)

    operands: list[Array] = [part, actual(update)]
    if isinstance(operands[1], Scalar):
        operands[1] = operands[1].shaped(())
    if part.size == 1:
        part = View(part.buffer, part.offset, (), (), part.dtype)
        return Map(combine, (part, operands[1]), (), part.dtype, 1)
    return Map(combine, operands, part.shape, part.dtype, 1)
