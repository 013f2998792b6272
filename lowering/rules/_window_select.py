"""The selected element of each window, and sums at the places of selected elements.

A selection goes through a window in order and keeps an element while a comparison holds for it and
the next one. So a NaN gives way to the next element, and all that was before it is forgotten.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Shape, Value
from xpr.lowering.rules._window_reduce import interleave, reduce_by_axes
from xpr.primitives._index_dims import GatherScatterMode, ScatterDimensionNumbers
from xpr.primitives._window_dims import WindowDims, dilated
from xpr.primitives.scatter import scatter_add

_I8 = np.dtype(np.int8)
_I32 = np.dtype(np.int32)
_I64 = np.dtype(np.int64)

# Windows of up to this many elements are gone through one by one, larger ones axis by axis.
_SMALL_WINDOW = 32


def selected_payload(
    ctx: LoweringContext,
    operand: Value,
    inside: Value | None,
    payload: Value,
    select_prim: Primitive,
    dims: WindowDims,
    shape: Shape,
) -> Value:
    """The element of `payload` where each window of `operand` has its selected one, else 0.

    Both are padded; `inside` says (as int8) where they have elements that may be selected.
    """
    direction = select_prim.name.upper()
    if math.prod(dims.dimensions) <= _SMALL_WINDOW:
        found, real = _one_by_one(ctx, operand, inside, payload, direction, dims, shape)
    else:
        found, real = _axis_by_axis(ctx, operand, inside, payload, direction, dims)
    return found if real is None else ctx.select(real, found, 0)


def add_at_selected(
    ctx: LoweringContext,
    operand: Value,
    inside: Value | None,
    source: Value,
    select_prim: Primitive,
    dims: WindowDims,
) -> Value:
    """An array of the shape of `operand`: at each place the sum of the sources selected there."""
    direction = select_prim.name.upper()
    shape = source.shape
    if math.prod(dims.dimensions) <= _SMALL_WINDOW and math.prod(dims.strides) <= _SMALL_WINDOW:
        which, real = _one_by_one(ctx, operand, inside, None, direction, dims, shape)
        if real is not None:
            which = ctx.select(real, which, -1)
        return _sum_by_phase(ctx, source, which, dims, operand.shape)
    place = _places(ctx, operand.shape)
    at, real = _axis_by_axis(ctx, operand, inside, place, direction, dims)
    if real is not None:
        at = ctx.select(real, at, -1)
    extents = [dilated(w, d) for w, d in zip(dims.dimensions, dims.window_dilation, strict=True)]
    apart = all(n == 1 or s >= e for n, s, e in zip(shape, dims.strides, extents, strict=True))
    if apart:
        # Each place is in one window at most: that window's source, if it selected the place.
        source, at = (_dilated(ctx, v, dims.strides, operand.shape) for v in (source, at))
        return ctx.select(ctx.compare("EQ", at, place), source, 0)
    return _scattered(ctx, source, at, operand.shape)


def _places(ctx: LoweringContext, shape: Shape) -> Value:
    """The row-major number of each element."""
    size = math.prod(shape)
    kind = _I32 if size <= np.iinfo(_I32).max else _I64
    return ctx.reshape(ctx.iota(kind, (size,), 0), shape)


# ---- selections


def _one_by_one(
    ctx: LoweringContext,
    operand: Value,
    inside: Value | None,
    payload: Value | None,
    direction: str,
    dims: WindowDims,
    shape: Shape,
) -> tuple[Value, Value | None]:
    """What goes with the selected elements: of `payload`, or the numbers in their windows.

    The second result says which windows have an element at all; it is None if `inside` is.
    """
    sources = [operand] + [v for v in (inside, payload) if v is not None]
    best: list[Value] = []
    for number, element in enumerate(itertools.product(*map(range, dims.dimensions))):
        new = [_windows_at(ctx, v, element, dims, shape) for v in sources]
        if payload is None:
            new.append(ctx.constant(number, _I32, shape))
        if not best:
            best = new
            continue
        keep = ctx.compare(direction, best[0], new[0])
        if inside is not None:
            keep = _keep_real(ctx, keep, best[1], new[1])
        best = [ctx.select(keep, a, b) for a, b in zip(best, new, strict=True)]
    return best[-1], None if inside is None else ctx.compare("NE", best[1], 0)


def _keep_real(ctx: LoweringContext, keep: Value, mine: Value, other: Value) -> Value:
    """`keep` where both are elements, else whether the first one is, or neither."""
    mine, other = ctx.compare("NE", mine, 0), ctx.compare("NE", other, 0)
    return ctx.select(ctx.and_(mine, other), keep, ctx.or_(mine, ctx.not_(other)))


def _windows_at(
    ctx: LoweringContext, x: Value, element: Sequence[int], dims: WindowDims, shape: Shape
) -> Value:
    """The element of that index in each window."""
    start = [k * d for k, d in zip(element, dims.window_dilation, strict=True)]
    limit = [a + (n - 1) * s + 1 for a, n, s in zip(start, shape, dims.strides, strict=True)]
    return ctx.slice(x, start, limit, dims.strides)


def _axis_by_axis(
    ctx: LoweringContext,
    operand: Value,
    inside: Value | None,
    payload: Value,
    direction: str,
    dims: WindowDims,
) -> tuple[Value, Value | None]:
    """The elements of `payload` that go with the selected ones, and which windows have one.

    Here the selection is an associative reduction: beside the selected element it knows whether a
    NaN was met, since whatever is before a NaN is forgotten.
    """
    is_float = dtypes.is_float(operand.dtype)
    parts = [operand, payload]
    inits: list[Any] = [0, 0]
    if is_float:
        parts.append(ctx.convert(ctx.compare("NE", operand, operand), _I8))
        inits.append(0)
    # The mask is always there: the reduction of a whole axis starts from no element.
    parts.append(ctx.constant(1, _I8, operand.shape) if inside is None else inside)
    inits.append(0)

    def combine(inner: LoweringContext, *values: Value) -> list[Value]:
        half = len(values) // 2
        best, new = values[:half], values[half:]
        keep = inner.compare(direction, best[0], new[0])
        if is_float:
            keep = inner.and_(keep, inner.compare("EQ", new[2], 0))
        keep = _keep_real(inner, keep, best[-1], new[-1])
        merged = [inner.select(keep, a, b) for a, b in zip(best[:2], new[:2], strict=True)]
        return [*merged, *(inner.or_(a, b) for a, b in zip(best[2:], new[2:], strict=True))]

    starts = [ctx.constant(v, x.dtype) for v, x in zip(inits, parts, strict=True)]
    found = reduce_by_axes(ctx, parts, starts, lambda *values: combine(ctx, *values), combine, dims)
    return found[1], None if inside is None else ctx.compare("NE", found[-1], 0)


# ---- sums at selected elements


def _dilated(ctx: LoweringContext, x: Value, strides: Sequence[int], shape: Shape) -> Value:
    """The element of each window at all places from its start to the next window's; 0 beyond."""
    rows: list[int] = []
    for n, s, size in zip(x.shape, strides, shape, strict=True):
        rows += [n, s if n > 1 else size]
    wide = ctx.broadcast_in_dim(x, tuple(rows), range(0, 2 * len(x.shape), 2))
    merged = tuple(a * b for a, b in zip(rows[::2], rows[1::2], strict=True))
    whole = ctx.reshape(wide, merged)
    limit = [min(a, b) for a, b in zip(merged, shape, strict=True)]
    zeros = [0] * len(shape)
    cut = ctx.slice(whole, zeros, limit) if tuple(limit) != merged else whole
    missing = [a - b for a, b in zip(shape, limit, strict=True)]
    # Places beyond the last window are no window's: -1 is no place, and no sum is added there.
    fill = ctx.constant(-1 if x.dtype in (_I32, _I64) else 0, x.dtype)
    return ctx.pad(cut, fill, zeros, missing, zeros) if any(missing) else cut


def _scattered(ctx: LoweringContext, source: Value, at: Value, shape: Shape) -> Value:
    """Sources added at the row-major places `at`; -1 drops one."""
    count, size = source.aval.size, math.prod(shape)
    dims = ScatterDimensionNumbers((), (0,), (0,))

    def function(zeros: Any, places: Any, updates: Any) -> Any:
        return scatter_add(zeros, places, updates, dims, mode=GatherScatterMode.FILL_OR_DROP)

    zeros = ctx.constant(0, source.dtype, (size,))
    places, updates = ctx.reshape(at, (count, 1)), ctx.reshape(source, (count,))
    return ctx.reshape(ctx.inline(function, zeros, places, updates), shape)


def _sum_by_phase(
    ctx: LoweringContext, source: Value, which: Value, dims: WindowDims, shape: Shape
) -> Value:
    """No scattering: each place gathers from the windows that it can belong to.

    A place s * q + r of phase r is element k of window q - t where k's offset is s * t + r. So
    each phase is a sum of shifted sources, masked where the window selected another element;
    the phases are interleaved at the end.
    """
    rank = len(shape)
    offsets = [
        [k * d for k in range(w)]
        for w, d in zip(dims.dimensions, dims.window_dilation, strict=True)
    ]
    reach = [o[-1] // s for o, s in zip(offsets, dims.strides, strict=True)]
    quotients = [-(-n // s) for n, s in zip(shape, dims.strides, strict=True)]
    high = [max(0, q - n) for q, n in zip(quotients, source.shape, strict=True)]
    zeros = [0] * rank
    wide = ctx.pad(source, ctx.constant(0, source.dtype), reach, high, zeros)
    selected = ctx.pad(which, ctx.constant(-1, _I32), reach, high, zeros)
    by_phase: dict[tuple[int, ...], list[tuple[int, list[int]]]] = {}
    for number, element in enumerate(itertools.product(*map(range, dims.dimensions))):
        at = [o[k] for o, k in zip(offsets, element, strict=True)]
        phase = tuple(a % s for a, s in zip(at, dims.strides, strict=True))
        turns = [a // s for a, s in zip(at, dims.strides, strict=True)]
        by_phase.setdefault(phase, []).append((number, turns))
    nothing = ctx.constant(0, source.dtype, tuple(quotients))
    parts: dict[tuple[int, ...], Value] = {}
    for phase in itertools.product(*map(range, dims.strides)):
        total: Value | None = None
        for number, turns in by_phase.get(phase, []):
            start = [r - t for r, t in zip(reach, turns, strict=True)]
            limit = [a + q for a, q in zip(start, quotients, strict=True)]
            chosen = ctx.compare("EQ", ctx.slice(selected, start, limit), number)
            term = ctx.select(chosen, ctx.slice(wide, start, limit), 0)
            total = term if total is None else ctx.add(total, term)
        parts[phase] = nothing if total is None else total
    whole = interleave(ctx, parts, dims.strides, quotients)
    return ctx.slice(whole, [0] * rank, shape)
