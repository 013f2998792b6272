"""Derivatives, transposes and batching rules of slices at fixed and at computed places.

A window whose place differs from example to example is a gather or a scatter in clip mode: these
move a window that would reach over an edge inside, as the operations here do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.trace import get_aval
from xpr.interpreters.batching import at_front, at_place
from xpr.primitives import _ops as ops
from xpr.primitives._index_dims import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    Shape,
)
from xpr.primitives._shape_rules import shifted, static_slice
from xpr.primitives.rules import (
    BatchAxis,
    Dim,
    Linear,
    const_like,
    instantiate,
    is_linear,
    shape_of,
    zeros,
)

# ---- slice


def slice_transpose(
    ct: Any, x: Any, *, start_indices: Shape, limit_indices: Shape, strides: Shape | None
) -> list[Any]:
    del limit_indices
    sizes, found = shape_of(x), shape_of(ct)
    steps = strides or (1,) * len(sizes)
    config = tuple(
        (start, size - (start + (n - 1) * step + 1 if n else start), step - 1)
        for start, size, n, step in zip(start_indices, sizes, found, steps, strict=True)
    )
    return [ops.bind("pad", ct, const_like(ct, 0), padding_config=config)]


def slice_batch(
    axis: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[Dim],
    *,
    start_indices: Shape,
    limit_indices: Shape,
    strides: Shape | None,
) -> tuple[Any, int]:
    (x,), (dim,) = args, dims
    assert dim is not None
    starts, limits = list(start_indices), list(limit_indices)
    steps = None if strides is None else list(strides)
    starts.insert(dim, 0)
    limits.insert(dim, axis.size)
    if steps is not None:
        steps.insert(dim, 1)
    return static_slice(x, starts, limits, steps), dim


# ---- starts of windows


def _without_needless(
    starts: Sequence[Any], dims: Sequence[Dim], sizes: Shape, shape: Shape
) -> tuple[list[Any], list[Dim]]:
    """The starts, made 0 along axes that the window fills: there it has one place only."""
    pairs = [
        (start, dim) if n < total else (const_like(start, 0), None)
        for start, dim, n, total in zip(starts, dims, sizes, shape, strict=True)
    ]
    return [s for s, _ in pairs], [d for _, d in pairs]


def _index_vectors(axis: BatchAxis, starts: Sequence[Any], dims: Sequence[Dim]) -> Any:
    """An index vector for each example."""
    columns = [
        ops.broadcast_in_dim(s, (axis.size, 1), () if d is None else (0,))
        for s, d in zip(starts, dims, strict=True)
    ]
    return columns[0] if len(columns) == 1 else ops.bind("concatenate", *columns, dimension=1)


def _inserted(starts: Sequence[Any], dim: int) -> list[Any]:
    """The starts with a 0 for the batch axis."""
    found = list(starts)
    found.insert(dim, const_like(starts[0], 0))
    return found


# ---- dynamic_slice


def dynamic_slice_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, slice_sizes: Shape
) -> tuple[Any, Any]:
    x, *starts = primals
    return (
        ops.bind("dynamic_slice", x, *starts, slice_sizes=slice_sizes),
        ops.bind("dynamic_slice", tangents[0], *starts, slice_sizes=slice_sizes),
    )


def dynamic_slice_transpose(ct: Any, x: Any, *starts: Any, slice_sizes: Shape) -> list[Any]:
    del slice_sizes
    whole = ops.bind("dynamic_update_slice", zeros(x.aval), ct, *starts)
    return [whole, *(None for _ in starts)]


def dynamic_slice_batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], *, slice_sizes: Shape
) -> tuple[Any, Dim]:
    x, dim = args[0], dims[0]
    shape = list(shape_of(x))
    if dim is not None:
        del shape[dim]
    starts, start_dims = _without_needless(args[1:], dims[1:], slice_sizes, tuple(shape))
    if all(d is None for d in start_dims):
        if not starts:
            return x, dim
        if dim is None:
            return ops.bind("dynamic_slice", x, *starts, slice_sizes=slice_sizes), None
        sizes = (*slice_sizes[:dim], axis.size, *slice_sizes[dim:])
        return ops.bind("dynamic_slice", x, *_inserted(starts, dim), slice_sizes=sizes), dim
    moved = [i for i, (n, total) in enumerate(zip(slice_sizes, shape, strict=True)) if n < total]
    indices = _index_vectors(axis, [starts[i] for i in moved], [start_dims[i] for i in moved])
    batched = dim is not None
    numbers = GatherDimensionNumbers(
        offset_dims=tuple(range(1, 1 + len(shape))),
        collapsed_slice_dims=(),
        start_index_map=tuple(moved) if dim is None else shifted(moved, dim),
        operand_batching_dims=(dim,) if batched else (),
        start_indices_batching_dims=(0,) if batched else (),
    )
    one = min(axis.size, 1)
    sizes = slice_sizes if dim is None else (*slice_sizes[:dim], one, *slice_sizes[dim:])
    out = ops.bind(
        "gather",
        x,
        indices,
        dimension_numbers=numbers,
        slice_sizes=sizes,
        indices_are_sorted=False,
        unique_indices=batched,
        mode=GatherScatterMode.CLIP,
        fill_value=None,
    )
    return out, 0


# ---- dynamic_update_slice


def dynamic_update_slice_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    x, update, *starts = primals
    x_tangent, update_tangent, *_ = map(instantiate, tangents[:2])
    return (
        ops.bind("dynamic_update_slice", x, update, *starts),
        ops.bind("dynamic_update_slice", x_tangent, update_tangent, *starts),
    )


def dynamic_update_slice_transpose(ct: Any, x: Any, update: Any, *starts: Any) -> list[Any]:
    x_ct = update_ct = None
    if is_linear(x):
        cut = zeros(update.aval if isinstance(update, Linear) else get_aval(update))
        x_ct = ops.bind("dynamic_update_slice", ct, cut, *starts)
    if isinstance(update, Linear):
        update_ct = ops.bind("dynamic_slice", ct, *starts, slice_sizes=update.aval.shape)
    return [x_ct, update_ct, *(None for _ in starts)]


def dynamic_update_slice_batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim]
) -> tuple[Any, Dim]:
    x, update, *starts = args
    dim, update_dim, *start_dims = dims
    shape, window = list(shape_of(x)), list(shape_of(update))
    if dim is not None:
        del shape[dim]
    if update_dim is not None:
        del window[update_dim]
    starts, start_dims = _without_needless(starts, start_dims, tuple(window), tuple(shape))
    if not starts:
        return update, update_dim
    if all(d is None for d in start_dims):
        if dim is None and update_dim is None:
            return ops.bind("dynamic_update_slice", x, update, *starts), None
        place = dim if dim is not None else update_dim
        assert place is not None
        x, update = at_place(axis, x, dim, place), at_place(axis, update, update_dim, place)
        return ops.bind("dynamic_update_slice", x, update, *_inserted(starts, place)), place
    moved = [i for i, (n, total) in enumerate(zip(window, shape, strict=True)) if n < total]
    indices = _index_vectors(axis, [starts[i] for i in moved], [start_dims[i] for i in moved])
    axes = tuple(range(1, 1 + len(shape)))
    out = ops.bind(
        "scatter",
        at_front(axis, x, dim),
        indices,
        at_front(axis, update, update_dim),
        dimension_numbers=ScatterDimensionNumbers(
            update_window_dims=axes,
            inserted_window_dims=(),
            scatter_dims_to_operand_dims=tuple(i + 1 for i in moved),
            operand_batching_dims=(0,),
            scatter_indices_batching_dims=(0,),
        ),
        # Each example has a window in its own part of the operand, one after the other.
        indices_are_sorted=True,
        unique_indices=True,
        mode=GatherScatterMode.CLIP,
        update_jaxpr=None,
        update_consts=(),
    )
    return out, 0
