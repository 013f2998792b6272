"""Slices: axes taken entirely pass through; small windows come from whoever has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xpr.core.primitive import get_primitive
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.sharding.place import padded
from xpr.sharding.rule import FactorRule, LocalShapes, Place, register
from xpr.sharding.rules._forms import NONE, Avals, AxisFactors, Builder, Params, axes_over
from xpr.sharding.rules._local import (
    clamped,
    counted,
    neutral,
    offset,
    spread,
    window_at,
)

_INT32_MAX = np.iinfo(np.int32).max


def _windows_of_all(
    place: Place,
    x: Any,
    starts: Mapping[int, Any],
    sizes: Mapping[int, int],
    over: Mapping[int, Any],
) -> Any:
    """The window of an array of which `x` is one part, for everybody.

    `starts` are int32 and in the whole; `over` has the mesh axes of the axes that are sharded.
    """
    op, nothing = neutral(get_aval(x).dtype)
    local = dict(starts)
    for axis, axes in over.items():
        size, own = sizes[axis], get_aval(x).shape[axis]
        # Where the window is not among the device's own elements, it lies in the padding.
        x = padded(x, axis, size, size, nothing)
        start = ops.sub(ops.add(starts[axis], np.int32(size)), offset(place, axes, own))
        local[axis] = clamped(start, own + size)
    found = window_at(x, local, sizes)
    return place.reduce(found, tuple(name for axes in over.values() for name in axes), op)


def _slice(operands: Avals, results: Avals, params: Params) -> FactorRule:
    """An axis cut into blocks of which each gives an element passes through in blocks."""
    build = Builder()
    (x,), (y,) = operands, results
    strides = params["strides"] or (1,) * x.ndim
    starts: tuple[int, ...] = params["start_indices"]
    own: list[AxisFactors] = []
    made: list[AxisFactors] = []
    few: list[int] = []
    for i, (n, m, start, stride) in enumerate(zip(x.shape, y.shape, starts, strides, strict=True)):
        if n == m * stride and start < stride:
            made.append(build.through(m))
            own.append(made[-1] + build.whole(stride))
            continue
        made.append(NONE)
        extent = (m - 1) * stride + 1
        if 0 < 4 * extent <= n <= _INT32_MAX:
            # Less is moved when everybody hears of the window than when everybody gets the whole,
            # which may serve other slices, too.
            few.append(i)
            own.append(build.through(n))
        else:
            own.append(NONE)

    def apply(
        place: Place, args: Sequence[Any], params: Params, local: LocalShapes
    ) -> Sequence[Any]:
        (part,) = args
        over = {i: axes_over(own[i], local) for i in few if axes_over(own[i], local)}
        first, limit = list(starts), list(params["limit_indices"])
        for i, n in enumerate(local.operands[0]):
            if i not in few:
                limit[i] = n if made[i] else limit[i]
        if over:
            extents = {i: (y.shape[i] - 1) * strides[i] + 1 for i in over}
            begin = {i: np.int32(starts[i]) for i in over}
            part = _windows_of_all(place, part, begin, extents, over)
            for i, n in extents.items():
                first[i], limit[i] = 0, n
        return [
            get_primitive("slice").bind(
                part,
                start_indices=tuple(first),
                limit_indices=tuple(limit),
                strides=params["strides"],
            )
        ]

    return build.rule([own], [made], apply=apply)


register("slice", _slice)


def _dynamic_slice(operands: Avals, results: Avals, params: Params) -> FactorRule:
    """A window as wide as its axis can only be all of it."""
    del results
    build = Builder()
    x, *starts = operands
    sizes = params["slice_sizes"]
    own = [build.through(n) if 0 < n <= _INT32_MAX else NONE for n in x.shape]
    made = [f if n == m else NONE for f, n, m in zip(own, x.shape, sizes, strict=True)]

    def apply(
        place: Place, args: Sequence[Any], params: Params, local: LocalShapes
    ) -> Sequence[Any]:
        part, *begin = args
        mine = local.results[0]
        over = {
            i: axes_over(f, local)
            for i, f in enumerate(own)
            if axes_over(f, local) and sizes[i] < x.shape[i]
        }
        if not over:
            return [get_primitive("dynamic_slice").bind(part, *begin, slice_sizes=mine)]
        inside = {i: clamped(s, x.shape[i] - sizes[i]) for i, s in enumerate(begin)}
        return [_windows_of_all(place, part, inside, dict(enumerate(mine)), over)]

    return build.rule([own, *([] for _ in starts)], [made], apply=apply)


register("dynamic_slice", _dynamic_slice)


def _dynamic_update_slice(operands: Avals, results: Avals, params: Params) -> FactorRule:
    """Along a sharded axis each device takes from the update what falls into its own part."""
    del results, params
    build = Builder()
    x, update, *starts = operands
    own = [build.through(n) if 0 < n <= _INT32_MAX else NONE for n in x.shape]
    new = [f if n == m else NONE for f, n, m in zip(own, x.shape, update.shape, strict=True)]

    def apply(
        place: Place, args: Sequence[Any], params: Params, local: LocalShapes
    ) -> Sequence[Any]:
        del params
        part, value, *begin = args
        shape = local.operands[0]
        over = {
            i: axes_over(f, local)
            for i, f in enumerate(own)
            if axes_over(f, local) and update.shape[i] < x.shape[i]
        }
        write = get_primitive("dynamic_update_slice")
        if not over:
            return [write.bind(part, value, *begin)]
        inside = {i: clamped(s, x.shape[i] - update.shape[i]) for i, s in enumerate(begin)}
        # The update as wide as the part: element j of the part is element j - first of it.
        first = {i: ops.sub(inside[i], offset(place, axes, shape[i])) for i, axes in over.items()}
        for i, start in first.items():
            value = _aligned(value, i, start, shape[i])
        wide = get_aval(value).shape
        chosen = None
        for i, start in first.items():
            count = counted(wide, i)
            behind = spread(ops.add(start, np.int32(update.shape[i])), wide)
            within = get_primitive("and").bind(
                get_primitive("ge").bind(count, spread(start, wide)), ops.lt(count, behind)
            )
            chosen = within if chosen is None else get_primitive("and").bind(chosen, within)
        there = {i: s for i, s in inside.items() if i not in over}
        old = window_at(part, there, dict(enumerate(wide)))
        new_window = ops.select(chosen, value, old)
        places = [there.get(i, np.int32(0)) for i in range(len(shape))]
        return [write.bind(part, new_window, *places)]

    return build.rule([own, new, *([] for _ in starts)], [own], apply=apply)


def _aligned(value: Any, axis: int, start: Any, size: int) -> Any:
    """Of `size` elements along `axis` those from `start` on are `value`; the others are any."""
    shape = list(get_aval(value).shape)
    width = shape[axis]
    if width == 1:
        shape[axis] = size
        return ops.broadcast_in_dim(value, shape, range(len(shape)))
    around = padded(value, axis, size, size, 0)
    return window_at(
        around, {axis: clamped(ops.sub(np.int32(size), start), size + width)}, {axis: size}
    )


register("dynamic_update_slice", _dynamic_update_slice)
