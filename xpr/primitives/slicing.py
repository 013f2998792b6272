"""Contiguous parts of an array, at fixed and at computed places, and their replacement."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.primitive import define
from xpr.core.trace import Tracer, get_aval, is_valid_value
from xpr.primitives._index_dims import (
    Shape,
    as_ints,
    canonicalize_axis,
    canonicalize_shape,
)
from xpr.primitives._slicing_rules import (
    dynamic_slice_batch,
    dynamic_slice_jvp,
    dynamic_slice_transpose,
    dynamic_update_slice_batch,
    dynamic_update_slice_jvp,
    dynamic_update_slice_transpose,
    slice_batch,
    slice_transpose,
)
from xpr.primitives._views import detached
from xpr.primitives.compare import lt, select_n
from xpr.primitives.convert import convert_type, wide_index
from xpr.primitives.elementwise import add
from xpr.primitives.families import require_same_dtypes
from xpr.primitives.rules import LinearJVP
from xpr.primitives.shape import expand_dims, squeeze

__all__ = [
    "dynamic_index_in_dim",
    "dynamic_slice",
    "dynamic_slice_in_dim",
    "dynamic_update_index_in_dim",
    "dynamic_update_slice",
    "dynamic_update_slice_in_dim",
    "index_in_dim",
    "slice",
    "slice_in_dim",
]

_FAMILY = "slicing"
Host = np.ndarray[Any, Any]
# `slice` names the operation in this file, as it does in JAX's lax.
_range = slice


# ---- slice


def _slice_abstract(
    x: ShapedArray, *, start_indices: Shape, limit_indices: Shape, strides: Shape | None
) -> ShapedArray:
    start, limit = start_indices, limit_indices
    if len(start) != x.ndim:
        raise TypeError(
            "slice start_indices must have length equal to the number of dimensions of the "
            f"operand, got indices {start} for operand shape {x.shape}."
        )
    if len(limit) != len(start):
        raise TypeError(
            "slice limit_indices must have the same length as start_indices, "
            f"got start_indices {start} and limit_indices {limit}."
        )
    if any(a < 0 for a in start):
        raise TypeError(f"slice start_indices must have every element be nonnegative, got {start}.")
    if any(b > s for b, s in zip(limit, x.shape, strict=True)):
        raise TypeError(
            "slice limit_indices must be less than or equal to operand shape, "
            f"got limit_indices {limit} for operand shape {x.shape}."
        )
    if any(b < a for a, b in zip(start, limit, strict=True)):
        raise TypeError(
            "slice limit_indices must be greater than or equal to start_indices, "
            f"got start_indices {start} and limit_indices {limit}."
        )
    if strides is None:
        shape = tuple(b - a for a, b in zip(start, limit, strict=True))
        return ShapedArray(shape, x.dtype, x.weak_type)
    if len(strides) != x.ndim:
        raise TypeError(
            "slice strides must have length equal to the number of dimensions of the operand, "
            f"got strides {strides} for operand shape {x.shape}."
        )
    if any(s <= 0 for s in strides):
        raise TypeError(f"slice strides must have every element be positive, got {strides}.")
    shape = tuple(-((a - b) // s) for a, b, s in zip(start, limit, strides, strict=True))
    return ShapedArray(shape, x.dtype, x.weak_type)


def _slice_reference(
    x: Host, *, start_indices: Shape, limit_indices: Shape, strides: Shape | None
) -> Host:
    steps = (1,) * x.ndim if strides is None else strides
    return detached(x[tuple(map(_range, start_indices, limit_indices, steps))], x)


slice_p = define(
    "slice",
    family=_FAMILY,
    doc="The part from start_indices up to limit_indices, in steps of strides.",
    abstract=_slice_abstract,
    reference=_slice_reference,
    jvp=LinearJVP(),
    transpose=slice_transpose,
    batch=slice_batch,
)


def slice(
    operand: Any,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Array:
    """The part of `operand` from `start_indices` up to (not including) `limit_indices`.

    Every `strides[i]`-th element along axis i; indices are static, not negative and within the
    operand. Raises TypeError otherwise. Any dtype.

    >>> import xpr.numpy as jnp
    >>> slice(jnp.arange(6), (1,), (6,), (2,))
    Array([1, 3, 5], dtype=int32)
    """
    return slice_p.bind(
        operand,
        start_indices=as_ints("slice", "start_indices", start_indices),
        limit_indices=as_ints("slice", "limit_indices", limit_indices),
        strides=None if strides is None else as_ints("slice", "strides", strides),
    )


def slice_in_dim(
    operand: Any,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Array:
    """`slice` along one axis; negative indices count from the end, None means the edge.

    >>> import xpr.numpy as jnp
    >>> slice_in_dim(jnp.arange(4), 1, -1)
    Array([1, 2], dtype=int32)
    """
    shape = get_aval(operand).shape
    axis = _axis_of("slice_in_dim", axis, shape)
    size = shape[axis]
    first = 0 if start_index is None else operator.index(start_index)
    last = size if limit_index is None else operator.index(limit_index)
    start, limit, strides = [0] * len(shape), list(shape), [1] * len(shape)
    start[axis] = first + size if first < 0 else first
    limit[axis] = last + size if last < 0 else last
    strides[axis] = operator.index(stride)
    return slice(operand, start, limit, strides)


def _axis_of(name: str, axis: int, shape: Shape) -> int:
    if not -len(shape) <= axis < len(shape):
        raise IndexError(f"{name}: axis {axis} is out of bounds for an array of shape {shape}")
    return canonicalize_axis(axis, len(shape))


def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """The slice at the static `index` of one axis; IndexError when out of bounds.

    >>> import xpr.numpy as jnp
    >>> index_in_dim(jnp.ones((2, 3)), -1, axis=1, keepdims=False).shape
    (2,)
    """
    shape = get_aval(operand).shape
    axis, index = _axis_of("index_in_dim", axis, shape), operator.index(index)
    if not -shape[axis] <= index < shape[axis]:
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {shape[axis]}")
    start = index % shape[axis]
    part = slice_in_dim(operand, start, start + 1, axis=axis)
    return part if keepdims else squeeze(part, (axis,))


# ---- dynamic_slice


def _check_starts(name: str, x: ShapedArray, starts: Sequence[ShapedArray]) -> None:
    if len(starts) != x.ndim:
        raise ValueError(
            "Length of slice indices must match number of operand dimensions "
            f"({len(starts)} vs {x.shape})"
        )
    if any(i.shape for i in starts):
        shown = ", ".join(i.str_short() for i in starts)
        raise TypeError(f"start_indices arguments to {name} must be scalars, got indices ({shown})")
    kinds = {i.dtype for i in starts}
    if len(kinds) > 1 or any(not dtypes.is_integer(d) for d in kinds):
        shown = ", ".join(str(i.dtype) for i in starts)
        raise TypeError(
            f"index arguments to {name} must be integers of the same type, got: {shown}"
        )


def _dynamic_slice_abstract(
    x: ShapedArray, *starts: ShapedArray, slice_sizes: Shape
) -> ShapedArray:
    _check_starts("dynamic_slice", x, starts)
    if len(slice_sizes) != x.ndim:
        raise TypeError(
            "slice slice_sizes must have length equal to the number of dimensions of the operand, "
            f"got slice_sizes {slice_sizes} for operand shape {x.shape}."
        )
    if any(n > s for n, s in zip(slice_sizes, x.shape, strict=True)):
        raise TypeError(
            "slice slice_sizes must be less than or equal to operand shape, "
            f"got slice_sizes {slice_sizes} for operand shape {x.shape}."
        )
    if any(n < 0 for n in slice_sizes):
        raise TypeError(
            "slice slice_sizes must be greater than or equal to zero, "
            f"got slice_sizes of {slice_sizes}."
        )
    return ShapedArray(slice_sizes, x.dtype, x.weak_type)


def _window(x: Host, starts: Sequence[Host], sizes: Shape) -> tuple[Any, ...]:
    """The window of those sizes that starts nearest to `starts` and lies within `x`."""
    window = []
    for start, size, total in zip(starts, sizes, x.shape, strict=True):
        first = min(max(int(start), 0), total - size)
        window.append(_range(first, first + size))
    return tuple(window)


def _dynamic_slice_reference(x: Host, *starts: Host, slice_sizes: Shape) -> Host:
    return detached(x[_window(x, starts, slice_sizes)], x)


dynamic_slice_p = define(
    "dynamic_slice",
    family=_FAMILY,
    doc="The window of slice_sizes at run-time start indices, moved inside if need be.",
    abstract=_dynamic_slice_abstract,
    reference=_dynamic_slice_reference,
    jvp=dynamic_slice_jvp,
    transpose=dynamic_slice_transpose,
    batch=dynamic_slice_batch,
)


def _start_indices(
    name: str, shape: Shape, start_indices: Any, allow_negative: bool | Sequence[bool]
) -> list[Any]:
    """One scalar for each axis, negative ones counted from the end where that is allowed."""
    if isinstance(start_indices, (Array, np.ndarray)):
        if start_indices.ndim != 1:
            raise ValueError(
                f"Slice indices must be a 1D sequence, got {start_indices.shape} as start_indices "
                f"of {name}"
            )
        if isinstance(start_indices, Tracer):
            entries = [
                index_in_dim(start_indices, i, keepdims=False) for i in range(start_indices.size)
            ]
        else:
            entries = list(_concrete(start_indices))
    else:
        entries = list(start_indices)
    if len(entries) != len(shape):
        raise ValueError(
            "Length of slice indices must match number of operand dimensions "
            f"({len(entries)} vs {shape})"
        )
    allowed = (
        [allow_negative] * len(shape) if isinstance(allow_negative, bool) else list(allow_negative)
    )
    if len(allowed) != len(shape):
        raise ValueError(
            f"{name} allow_negative_indices must have an entry for each of the {len(shape)} axes, "
            f"got {len(allowed)}"
        )
    entries = [wide_index(e) if is_valid_value(e) else e for e in entries]
    dtype = _common_dtype(entries)
    entries = [_concrete_scalar(e) for e in entries]
    if any(allowed) and max(shape, default=0) > np.iinfo(dtype).max:
        # Small integers cannot hold a negative index counted from the end of so long an axis.
        dtype = dtypes.default_dtype("i")
        entries = [
            convert_type(e, dtype) if isinstance(e, Tracer) and dtypes.is_integer(e.dtype) else e
            for e in entries
        ]
    return [
        _canonical_start(e, size, wrap, dtype)
        for e, size, wrap in zip(entries, shape, allowed, strict=True)
    ]


def _concrete(x: Any) -> Host:
    return np.asarray(x._value if isinstance(x, Array) else x)  # type: ignore[attr-defined]


def _concrete_scalar(x: Any) -> Any:
    """A concrete array or number as a NumPy or Python scalar (arrays of rank > 0 stay)."""
    if type(x) is int or isinstance(x, (np.generic, Tracer)):
        return x
    if isinstance(x, (Array, np.ndarray)):
        value = _concrete(x)
        return value if value.ndim else value[()]
    return x


def _common_dtype(entries: Sequence[Any]) -> np.dtype[Any]:
    """The dtype of the first index that has one of its own: Python integers take it."""
    for e in entries:
        if type(e) is not int:
            dtype = get_aval(e).dtype
            return dtype if dtypes.is_integer(dtype) else dtypes.default_dtype("i")
    return dtypes.default_dtype("i")


def wrap_negative(index: Any, size: int) -> Any:
    """Negative indices into an axis of that size counted from its end; others as they are."""
    index = wide_index(index)
    aval = get_aval(index)
    if dtypes.kind(aval.dtype) == "u":
        return index
    dtype = aval.dtype
    if size > np.iinfo(dtype).max:
        dtype = dtypes.default_dtype("i")
    negative = lt(index, aval.dtype.type(0))
    strong = convert_type(index, dtype)
    return select_n(
        negative, strong if dtype != aval.dtype else index, add(strong, dtype.type(size))
    )


def _canonical_start(index: Any, size: int, wrap: bool, dtype: np.dtype[Any]) -> Any:
    if isinstance(index, Tracer):
        return wrap_negative(index, size) if wrap and index.ndim == 0 else index
    if type(index) is not int:
        if not isinstance(index, np.integer):
            return index
        own = get_aval(index).dtype
        dtype, index = (own if own.itemsize >= dtype.itemsize else dtype), int(index)
    if wrap and index < 0:
        index += size
    # A start beyond the dtype is beyond the array too: the nearest one means the same.
    info = np.iinfo(dtype)
    return dtype.type(min(max(index, info.min), info.max))


def dynamic_slice(
    operand: Any,
    start_indices: Any,
    slice_sizes: Any,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """The window of shape `slice_sizes` that starts at `start_indices` (which may be traced).

    Negative starts count from the end of the axis, unless `allow_negative_indices` is False (one
    flag, or one for each axis). A window that would reach over an edge is moved inside.

    Raises TypeError when a window size exceeds its axis or an index is not an integer scalar.

    >>> import xpr.numpy as jnp
    >>> dynamic_slice(jnp.arange(5), (4,), (2,))
    Array([3, 4], dtype=int32)
    """
    shape = get_aval(operand).shape
    starts = _start_indices("dynamic_slice", shape, start_indices, allow_negative_indices)
    sizes = canonicalize_shape("dynamic_slice", slice_sizes)
    return dynamic_slice_p.bind(operand, *starts, slice_sizes=sizes)


def dynamic_slice_in_dim(
    operand: Any,
    start_index: Any,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """`dynamic_slice` along one axis, the others whole.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.dynamic_slice_in_dim(jnp.arange(5), 1, 3)
    Array([1, 2, 3], dtype=int32)
    """
    shape = get_aval(operand).shape
    axis = _axis_of("dynamic_slice_in_dim", axis, shape)
    sizes = list(shape)
    sizes[axis] = operator.index(slice_size)
    starts = [start_index if i == axis else 0 for i in range(len(shape))]
    return dynamic_slice(operand, starts, sizes, allow_negative_indices=allow_negative_indices)


def dynamic_index_in_dim(
    operand: Any,
    index: Any,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """The slice at `index` (which may be traced) of one axis; an index outside is moved inside.

    >>> import xpr.numpy as jnp
    >>> dynamic_index_in_dim(jnp.arange(3), 1, keepdims=False)
    Array(1, dtype=int32)
    """
    axis = _axis_of("dynamic_index_in_dim", axis, get_aval(operand).shape)
    part = dynamic_slice_in_dim(
        operand, index, 1, axis, allow_negative_indices=allow_negative_indices
    )
    return part if keepdims else squeeze(part, (axis,))


# ---- dynamic_update_slice


def _dynamic_update_slice_abstract(
    x: ShapedArray, update: ShapedArray, *starts: ShapedArray
) -> ShapedArray:
    name = "dynamic_update_slice"
    if x.ndim != update.ndim:
        raise TypeError(
            f"{name} update must have the same rank as operand, "
            f"got update shape {update.shape} for operand shape {x.shape}."
        )
    if any(n > s for n, s in zip(update.shape, x.shape, strict=True)):
        raise TypeError(
            f"{name} update shape must be smaller than operand shape, "
            f"got update shape {update.shape} for operand shape {x.shape}."
        )
    dtype = require_same_dtypes(name, x, update)
    _check_starts(name, x, starts)
    return ShapedArray(x.shape, dtype)


def _dynamic_update_slice_reference(x: Host, update: Host, *starts: Host) -> Host:
    out = x.copy()
    out[_window(x, starts, update.shape)] = update
    return out


dynamic_update_slice_p = define(
    "dynamic_update_slice",
    family=_FAMILY,
    doc="The operand with a window at run-time start indices replaced by the update.",
    abstract=_dynamic_update_slice_abstract,
    reference=_dynamic_update_slice_reference,
    jvp=dynamic_update_slice_jvp,
    transpose=dynamic_update_slice_transpose,
    batch=dynamic_update_slice_batch,
)


def dynamic_update_slice(
    operand: Any,
    update: Any,
    start_indices: Any,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """`operand` with the window of the shape of `update` at `start_indices` replaced by it.

    Start indices are treated as in `dynamic_slice`. Ranks and dtypes must agree, and no axis of
    the update may be longer than the operand's; TypeError otherwise. The operand is left alone.

    >>> import xpr.numpy as jnp
    >>> dynamic_update_slice(jnp.zeros(4), jnp.ones(2), (3,))
    Array([0., 0., 1., 1.], dtype=float32)
    """
    shape = get_aval(operand).shape
    starts = _start_indices("dynamic_update_slice", shape, start_indices, allow_negative_indices)
    return dynamic_update_slice_p.bind(operand, update, *starts)


def dynamic_update_slice_in_dim(
    operand: Any, update: Any, start_index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Array:
    """`dynamic_update_slice` along one axis, the other starts being 0.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.dynamic_update_slice_in_dim(jnp.zeros(4), jnp.ones(2), 1, axis=0)
    Array([0., 1., 1., 0.], dtype=float32)
    """
    shape = get_aval(operand).shape
    axis = _axis_of("dynamic_update_slice_in_dim", axis, shape)
    starts = [start_index if i == axis else 0 for i in range(len(shape))]
    return dynamic_update_slice(
        operand, update, starts, allow_negative_indices=allow_negative_indices
    )


def dynamic_update_index_in_dim(
    operand: Any, update: Any, index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Array:
    """`operand` with the slice at `index` of one axis replaced; the update may lack that axis.

    >>> import xpr.numpy as jnp
    >>> dynamic_update_index_in_dim(jnp.zeros(3), 7.0, 1, axis=0)
    Array([0., 7., 0.], dtype=float32)
    """
    shape = get_aval(operand).shape
    axis = _axis_of("dynamic_update_index_in_dim", axis, shape)
    if get_aval(update).ndim != len(shape):
        update = expand_dims(update, (axis,))
    return dynamic_update_slice_in_dim(
        operand, update, index, axis, allow_negative_indices=allow_negative_indices
    )
