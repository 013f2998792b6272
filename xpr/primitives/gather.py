"""Gather: slices of an array taken at places that an array of indices names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.primitive import define
from xpr.core.trace import get_aval, is_valid_value
from xpr.primitives._index_dims import (
    GatherDimensionNumbers,
    GatherScatterMode,
    Shape,
    canonical_numbers,
    canonicalize_axes,
    canonicalize_shape,
    check_axes,
    check_batching,
    require_index_dtype,
)
from xpr.primitives._shape_rules import shifted
from xpr.primitives._views import detached
from xpr.primitives._windows import in_bounds, picked_indices, window_plan
from xpr.primitives.compare import lt, select_n
from xpr.primitives.convert import wide_index
from xpr.primitives.elementwise import add, rem
from xpr.primitives.joining import concatenate
from xpr.primitives.rules import BatchAxis, Dim, move_axis, zeros
from xpr.primitives.scatter import ScatterDimensionNumbers, scatter_add
from xpr.primitives.shape import expand_dims

__all__ = ["GatherDimensionNumbers", "GatherScatterMode", "gather", "index_take"]

_FAMILY = "gather"
Host = np.ndarray[Any, Any]


# ---- abstract


def _gather_abstract(
    x: ShapedArray,
    indices: ShapedArray,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Shape,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: GatherScatterMode,
    fill_value: Any,
) -> ShapedArray:
    require_index_dtype("gather", indices)
    dims = dimension_numbers
    check_axes("gather", "start_index_map", dims.start_index_map, x.ndim)
    check_axes("gather", "collapsed_slice_dims", dims.collapsed_slice_dims, x.ndim, ordered=True)
    check_batching(
        "gather",
        x,
        indices,
        dims.operand_batching_dims,
        dims.start_indices_batching_dims,
        {
            "start_index_map": dims.start_index_map,
            "collapsed_slice_dims": dims.collapsed_slice_dims,
        },
    )
    if len(dims.start_index_map) != indices.shape[-1]:
        raise TypeError(
            f"Gather op has {len(dims.start_index_map)} elements in start_index_map and the bound "
            f"of dimension index_vector_dim={indices.ndim - 1} of indices is {indices.shape[-1]}. "
            "These two numbers must be equal."
        )
    if len(slice_sizes) != x.ndim:
        raise TypeError(
            "Gather op must have one slice size for every input dimension; "
            f"got: len(slice_sizes)={len(slice_sizes)}, input_shape.rank={x.ndim}"
        )
    for axis, (size, bound) in enumerate(zip(slice_sizes, x.shape, strict=True)):
        if not 0 <= size <= bound:
            raise TypeError(
                f"Slice size at index {axis} in gather op is out of range, must be within "
                f"[0, {bound} + 1), got {size}."
            )
    for what in ("collapsed_slice_dims", "operand_batching_dims"):
        for position, axis in enumerate(getattr(dims, what)):
            if slice_sizes[axis] > 1:
                verb = "collapse" if what == "collapsed_slice_dims" else "batch over"
                raise TypeError(
                    f"Gather op can only {verb} slice dims with bound 1, but bound is "
                    f"{slice_sizes[axis]} for index {axis} at position {position}."
                )
    left_out = {*dims.collapsed_slice_dims, *dims.operand_batching_dims}
    window = [size for axis, size in enumerate(slice_sizes) if axis not in left_out]
    ndim = len(dims.offset_dims) + indices.ndim - 1
    check_axes("gather", "offset_dims", dims.offset_dims, ndim, ordered=True)
    if len(dims.offset_dims) != len(window):
        raise TypeError(
            "All components of the offset index in a gather op must either be a offset dimension "
            f"or explicitly collapsed/batching; got {len(slice_sizes)=}, {slice_sizes=}, "
            f"offset_dims={dims.offset_dims}, collapsed_slice_dims={dims.collapsed_slice_dims}, "
            f"operand_batching_dims={dims.operand_batching_dims}."
        )
    offsets, batch = iter(window), iter(indices.shape[:-1])
    shape = tuple(next(offsets) if i in dims.offset_dims else next(batch) for i in range(ndim))
    return ShapedArray(shape, x.dtype, x.weak_type)


# ---- reference


def _gather_reference(
    x: Host,
    indices: Host,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Shape,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: GatherScatterMode,
    fill_value: Any,
) -> Host:
    dims = dimension_numbers
    plan = window_plan(
        x.shape,
        indices.shape,
        slice_sizes,
        dims.start_index_map,
        dims.collapsed_slice_dims,
        dims.operand_batching_dims,
        dims.offset_dims,
    )
    where = picked_indices(
        plan, indices, slice_sizes, dims.operand_batching_dims, dims.start_indices_batching_dims
    )
    whole = all(t.stop == x.shape[a] for t, a in zip(plan.tail, plan.rest, strict=True))
    if len(where) == 1 and whole:
        # One indexed axis: `take` is several times faster than a general index.
        taken = np.take(x, where[0], axis=plan.picked[0], mode="clip")
        before = plan.picked[0]
        after = range(before, before + where[0].ndim)
        found = np.moveaxis(taken, after, range(where[0].ndim)) if before else taken
    else:
        viewed = x.transpose(plan.order)
        found = viewed[(*where, *plan.tail)]
        if not where:
            # Every window starts at 0: one window serves the whole batch.
            found = np.broadcast_to(found, plan.batch + found.shape)
    out = found.reshape(plan.shape).transpose(plan.permutation)
    if np.may_share_memory(out, x):  # a single window is a basic index
        out = detached(out, x)
    if mode is not GatherScatterMode.FILL_OR_DROP:
        return out
    ok = in_bounds(plan, indices)
    if ok.all():
        return out
    lined = ok.reshape([1 if i in dims.offset_dims else n for i, n in enumerate(out.shape)])
    return np.where(lined, out, np.asarray(gather_fill(x.dtype, fill_value)).astype(x.dtype))


def gather_fill(dtype: np.dtype[Any], fill_value: Any) -> Any:
    """The value that FILL_OR_DROP gives for `dtype`: NaN, the least signed integer, the greatest
    unsigned one, True; or `fill_value` where it is given."""
    if fill_value is not None:
        return fill_value
    kind = dtypes.kind(dtype)
    if kind in "fc":
        return np.nan
    if kind == "b":
        return True
    info = dtypes.iinfo(dtype)
    return int(info.min) if kind == "i" else int(info.max)


# ---- rules


def _gather_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, fill_value: Any, **params: Any
) -> tuple[Any, Any]:
    x, indices = primals
    out = gather_p.bind(x, indices, fill_value=fill_value, **params)
    # What a window outside is filled with does not depend on the operand.
    fill = 0 if params["mode"] is GatherScatterMode.FILL_OR_DROP else None
    return out, gather_p.bind(tangents[0], indices, fill_value=fill, **params)


def _gather_transpose(
    ct: Any,
    x: Any,
    indices: Any,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Shape,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: GatherScatterMode,
    fill_value: Any,
) -> list[Any]:
    del slice_sizes, fill_value
    if mode is GatherScatterMode.PROMISE_IN_BOUNDS:
        # What a broken promise has read elsewhere gets no cotangent, as in JAX.
        mode = GatherScatterMode.FILL_OR_DROP
    found = scatter_add(
        zeros(x.aval),
        indices,
        ct,
        ScatterDimensionNumbers(*dimension_numbers),
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=mode,
    )
    return [found, None]


def _gather_batch(
    axis: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[Dim],
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Shape,
    indices_are_sorted: bool,
    unique_indices: bool,
    **params: Any,
) -> tuple[Any, int]:
    (x, indices), (dim, index_dim) = args, dims
    numbers = dimension_numbers
    place = 0
    pairs = list(
        zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
    )
    if dim is not None:
        # The operand has an axis more: of the windows, or one that runs in step with the indices.
        numbers = numbers._replace(
            collapsed_slice_dims=shifted(numbers.collapsed_slice_dims, dim),
            start_index_map=shifted(numbers.start_index_map, dim),
        )
        pairs = [(a + (a >= dim), b) for a, b in pairs]
        size = axis.size if index_dim is None else min(axis.size, 1)
        slice_sizes = (*slice_sizes[:dim], size, *slice_sizes[dim:])
    if index_dim is not None:
        indices = move_axis(indices, index_dim, 0)
        pairs = [(a, b + 1) for a, b in pairs]
        if dim is not None:
            pairs = sorted([*pairs, (dim, 0)])
        # Examples may read the same elements; within each, what was promised still holds.
        indices_are_sorted = False
        unique_indices = unique_indices and dim is not None
        offsets = tuple(d + 1 for d in numbers.offset_dims)
    else:
        assert dim is not None
        left_out = {*numbers.collapsed_slice_dims, *(a for a, _ in pairs)}
        before = sum(a not in left_out for a in range(dim))
        offsets = numbers.offset_dims
        place = offsets[before - 1] + 1 if before else 0
        offsets = (*offsets[:before], place, *(d + 1 for d in offsets[before:]))
    numbers = numbers._replace(
        offset_dims=offsets,
        operand_batching_dims=tuple(a for a, _ in pairs),
        start_indices_batching_dims=tuple(b for _, b in pairs),
    )
    out = gather_p.bind(
        x,
        indices,
        dimension_numbers=numbers,
        slice_sizes=slice_sizes,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        **params,
    )
    return out, place


gather_p = define(
    "gather",
    family=_FAMILY,
    doc="Windows of an array at the places that index vectors name.",
    abstract=_gather_abstract,
    reference=_gather_reference,
    jvp=_gather_jvp,
    transpose=_gather_transpose,
    batch=_gather_batch,
)


# ---- public


def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Any,
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
) -> Array:
    """Windows of shape `slice_sizes` of `operand`, one for each index vector.

    The index vectors are the last axis of `start_indices` (any integer dtype); entry k of a vector
    is where the window starts along axis `start_index_map[k]`. The result has the other axes of
    `start_indices` and, at the positions `offset_dims`, the axes of the window.

    `mode` says what a window that is not wholly inside means: "clip" moves it inside, "fill" gives
    `fill_value` (by default NaN, or the least signed or greatest unsigned integer),
    "promise_in_bounds" (the default) says there is none; xpr then clips, and never reads outside.
    `unique_indices` and `indices_are_sorted` are promises too.

    Raises TypeError for dimension numbers or sizes that do not fit, ValueError for an unknown mode.
    StableHLO specification, operation `gather`.

    >>> import xpr.numpy as jnp
    >>> numbers = GatherDimensionNumbers((1,), (0,), (0,))
    >>> gather(jnp.array([[1, 2], [3, 4]]), jnp.array([[1], [0], [1]]), numbers, (1, 2))
    Array([[3, 4],
           [1, 2],
           [3, 4]], dtype=int32)
    """
    chosen = (
        GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.from_any(mode)
    )
    if chosen is GatherScatterMode.ONE_HOT:
        raise ValueError("gather has no mode one_hot: take_along_axis has")
    sizes = canonicalize_shape("gather", slice_sizes)
    if chosen is GatherScatterMode.FILL_OR_DROP:
        fill_value = _static_fill(fill_value, get_aval(operand).dtype)
    else:
        fill_value = None
    return gather_p.bind(
        operand,
        wide_index(start_indices) if is_valid_value(start_indices) else start_indices,
        dimension_numbers=canonical_numbers("gather", dimension_numbers, GatherDimensionNumbers),
        slice_sizes=sizes,
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        mode=chosen,
        fill_value=fill_value,
    )


def _static_fill(fill_value: Any, dtype: np.dtype[Any]) -> Any:
    if fill_value is None or isinstance(fill_value, (bool, int, float, complex)):
        return fill_value
    value = np.asarray(fill_value)
    if value.ndim:
        raise TypeError(f"gather requires a scalar fill_value, got shape {value.shape}")
    return value.item() if value.dtype.kind in "biufc" else value.astype(np.float32).item()


def index_take(src: Any, idxs: Sequence[Any], axes: Sequence[int]) -> Array:
    """Elements (or slices) of `src` at `idxs[k]` along axis `axes[k]`, indices taken modulo sizes.

    Each of `idxs` is a 1-D integer array of one length n; the result has a leading axis of size n
    and then the axes of `src` that are not in `axes`.

    >>> import xpr.numpy as jnp
    >>> index_take(jnp.array([[1, 2], [3, 4]]), [jnp.array([1, -1])], (0,))
    Array([[3, 4],
           [3, 4]], dtype=int32)
    """
    shape = get_aval(src).shape
    axes = canonicalize_axes(tuple(axes), len(shape))
    if len(idxs) != len(axes):
        raise ValueError(
            f"index_take requires an index for each axis, got {len(idxs)} and {len(axes)}"
        )
    columns = []
    for index, axis in zip(idxs, axes, strict=True):
        aval = get_aval(index)
        require_index_dtype("index_take", aval)
        # Python's remainder: the result has the sign of the (positive) size.
        size = aval.dtype.type(shape[axis])
        left = rem(index, size)
        if dtypes.kind(aval.dtype) == "i":
            left = select_n(lt(left, aval.dtype.type(0)), left, add(left, size))
        columns.append(expand_dims(left, (1,)))
    indices = columns[0] if len(columns) == 1 else concatenate(columns, 1)
    rest = [a for a in range(len(shape)) if a not in axes]
    numbers = GatherDimensionNumbers(
        offset_dims=tuple(range(1, 1 + len(rest))),
        collapsed_slice_dims=tuple(sorted(axes)),
        start_index_map=axes,
    )
    sizes = [1 if a in axes else s for a, s in enumerate(shape)]
    return gather(src, indices, numbers, sizes, mode=GatherScatterMode.PROMISE_IN_BOUNDS)
