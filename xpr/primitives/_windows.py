"""Windows of an array at indexed places, as one fancy index of NumPy: for reference rules."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from xpr.primitives._index_dims import Shape

Host = np.ndarray[Any, Any]


class WindowPlan(NamedTuple):
    """How windows of an array at indexed places become one NumPy fancy index.

    The array's axes are taken in the order `order`: first the `picked` ones, each with its own
    index array, then the rest, which are sliced by `tail`. The indexed array's axes are then the
    indices' batch axes, the axes of picked windows wider than 1, and the tail; `shape` is that
    with an axis for each window axis that is kept, and `permutation` puts these in place.
    """

    order: Shape
    picked: Shape
    tail: tuple[slice, ...]
    batch: Shape
    shape: Shape
    permutation: Shape
    rest: Shape
    """The axes that are not picked."""

    components: tuple[tuple[int, int, int], ...]
    """(index component, axis, greatest start) for each entry of an index vector."""


@functools.lru_cache(maxsize=4096)
def window_plan(
    shape: Shape,
    index_shape: Shape,
    sizes: Shape,
    start_map: Shape,
    left_out: Shape,
    batching: Shape,
    offset_dims: Shape,
) -> WindowPlan:
    """The plan for windows of `sizes` in an array of `shape`; arguments as in gather's numbers."""
    batch = index_shape[:-1]
    ndim = len(shape)
    # A window as wide as its axis can only start at 0, so it is a slice like unindexed axes.
    picked = tuple(
        a
        for a in range(ndim)
        if a in batching or (a in start_map and (sizes[a] < shape[a] or sizes[a] == 1))
    )
    rest = tuple(a for a in range(ndim) if a not in picked)
    wide = [a for a in picked if sizes[a] != 1]
    kept = [a for a in range(ndim) if a not in left_out and a not in batching]
    # Axes of the indexed array, by the axis of the operand they stand for.
    layout = [*wide, *rest]
    sources = [*layout, *(a for a in kept if a not in layout)]
    full = (
        *batch,
        *(sizes[a] for a in layout),
        *(1 for _ in sources[len(layout) :]),
    )
    # Axes in `rest` that are left out have size 1 and go away in the reshape.
    dropped = [len(batch) + i for i, a in enumerate(sources) if a not in kept]
    shape_ = tuple(s for i, s in enumerate(full) if i not in dropped)
    names = [a for a in sources if a in kept]
    windows = iter(kept)
    batches = iter(range(len(batch)))
    permutation = tuple(
        len(batch) + names.index(next(windows)) if i in offset_dims else next(batches)
        for i in range(len(batch) + len(kept))
    )
    return WindowPlan(
        order=(*picked, *rest),
        picked=picked,
        tail=tuple(slice(0, sizes[a]) for a in rest),
        batch=batch,
        shape=shape_,
        permutation=permutation,
        rest=rest,
        components=tuple((k, a, shape[a] - sizes[a]) for k, a in enumerate(start_map)),
    )


def in_bounds(plan: WindowPlan, indices: Host) -> Host:
    """For each index vector, whether its window lies within the array."""
    ok = np.ones(plan.batch, np.bool_)
    for k, _, limit in plan.components:
        component = indices[..., k]
        if component.dtype.kind == "i":
            ok &= component >= 0
        if limit < np.iinfo(component.dtype).max:
            ok &= component <= limit
    return ok


def picked_indices(
    plan: WindowPlan, indices: Host, sizes: Shape, batching: Shape, index_batching: Shape
) -> list[Host]:
    """The index arrays of the picked axes, starts clamped, over batch axes and wide windows."""
    starts: dict[int, Host] = {}
    for k, axis, limit in plan.components:
        component = indices[..., k]
        if component.dtype.kind == "u" and limit < np.iinfo(component.dtype).max:
            component = np.minimum(component, component.dtype.type(limit))
        starts[axis] = np.clip(component.astype(np.intp), 0, limit)
    for axis, index_axis in zip(batching, index_batching, strict=True):
        line = [1] * len(plan.batch)
        line[index_axis] = -1
        starts[axis] = np.arange(plan.batch[index_axis]).reshape(line)
    if plan.picked and all(a in batching for a in plan.picked):
        # No index array spans the whole batch yet.
        first = plan.picked[0]
        starts[first] = np.broadcast_to(starts[first], plan.batch)
    wide = [a for a in plan.picked if sizes[a] != 1]
    if not wide:
        return [starts[a] for a in plan.picked]
    found = []
    for axis in plan.picked:
        start = starts[axis].reshape(starts[axis].shape + (1,) * len(wide))
        if axis in wide:
            line = [1] * len(wide)
            line[wide.index(axis)] = -1
            start = start + np.arange(sizes[axis]).reshape(line)
        found.append(start)
    return found
