"""Rearranging the elements of one array: reshape, transpose, broadcast, reverse, pad and the like.

`xpr.primitives.joining` has the operations that join and split arrays (they can be imported from
here too), `xpr.primitives.creation` those that make arrays from nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.array import Array
from xpr.core.aval import ShapedArray, reduced_axes, unreduced_axes
from xpr.core.placing import bound_there, given_sharding, places_now, resharded
from xpr.core.primitive import define
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives._index_dims import (
    Shape,
    as_ints,
    canonicalize_axes,
    canonicalize_shape,
    is_array,
)
from xpr.primitives._shape_rules import (
    PaddingConfig,
    broadcast_in_dim_batch,
    broadcast_in_dim_transpose,
    inverse,
    pad_batch,
    pad_transpose,
    reshape_batch,
    reshape_transpose,
    rev_batch,
    squeeze_batch,
    transpose_batch,
)
from xpr.primitives.joining import concatenate, split, stack, tile, unstack
from xpr.primitives.rules import LinearJVP, shape_of

__all__ = [
    "broadcast",
    "broadcast_in_dim",
    "broadcast_like",
    "broadcast_shapes",
    "broadcast_to_rank",
    "collapse",
    "concatenate",
    "expand_dims",
    "pad",
    "reshape",
    "rev",
    "split",
    "squeeze",
    "stack",
    "tile",
    "transpose",
    "unstack",
]

_FAMILY = "shape"
Host = np.ndarray[Any, Any]


# ---- broadcast_in_dim


def _broadcast_in_dim_abstract(
    x: ShapedArray, *, shape: Shape, broadcast_dimensions: Shape, sharding: Any
) -> ShapedArray:
    name, dims = "broadcast_in_dim", broadcast_dimensions
    if any(d < 0 for d in shape):
        raise TypeError(f"{name} shape must have every element be nonnegative, got {shape}.")
    if len(dims) != x.ndim:
        raise TypeError(
            f"{name} broadcast_dimensions must have length equal to operand ndim; "
            f"got broadcast_dimensions {dims} for operand ndim {x.ndim}."
        )
    if any(d < 0 for d in dims):
        raise TypeError(
            f"{name} broadcast_dimensions must have every element be nonnegative, got {dims}."
        )
    if any(d >= len(shape) for d in dims):
        raise TypeError(
            f"{name} broadcast_dimensions must be a subset of output dimensions, got {dims} "
            f"for operand ndim {x.ndim} and shape {shape}."
        )
    if len(set(dims)) != len(dims):
        raise TypeError(f"{name} broadcast_dimensions must not repeat an axis, got {dims}.")
    if any(size not in (1, shape[d]) for size, d in zip(x.shape, dims, strict=True)):
        raise TypeError(
            f"{name} operand dimension sizes must either be 1, or be equal to their corresponding "
            f"dimensions in the target broadcast shape; got operand of shape {x.shape}, target "
            f"broadcast shape {shape}, broadcast_dimensions {dims}"
        )
    return ShapedArray(shape, x.dtype, x.weak_type)


def _broadcast_in_dim_reference(
    x: Host, *, shape: Shape, broadcast_dimensions: Shape, sharding: Any
) -> Host:
    if not x.ndim:
        # A full array costs less than the zero-stride view when it is read.
        out = np.empty(shape, x.dtype)
        out.fill(x[()])
        return out
    order = sorted(range(x.ndim), key=broadcast_dimensions.__getitem__)
    sizes = [1] * len(shape)
    for axis in order:
        sizes[broadcast_dimensions[axis]] = x.shape[axis]
    aligned = x.transpose(order).reshape(sizes)
    return aligned if aligned.shape == shape else np.array(np.broadcast_to(aligned, shape))


def _broadcast_in_dim_printed(params: dict[str, Any]) -> dict[str, Any]:
    # The result's type shows the shape already.
    shown = {}
    if params["broadcast_dimensions"]:
        shown["broadcast_dimensions"] = params["broadcast_dimensions"]
    if params["sharding"] is not None:
        shown["sharding"] = params["sharding"]
    return shown


broadcast_in_dim_p = define(
    "broadcast_in_dim",
    family=_FAMILY,
    doc="Broadcasts x to a greater shape, its axis i becoming axis broadcast_dimensions[i].",
    abstract=_broadcast_in_dim_abstract,
    reference=_broadcast_in_dim_reference,
    jvp=LinearJVP(),
    transpose=broadcast_in_dim_transpose,
    batch=broadcast_in_dim_batch,
    pp_params=_broadcast_in_dim_printed,
)


def broadcast_in_dim(
    operand: Any, shape: Any, broadcast_dimensions: Sequence[int], *, out_sharding: Any = None
) -> Array:
    """Broadcasts `operand` to `shape`, its axis i becoming axis `broadcast_dimensions[i]`.

    Each axis of the operand must have size 1 or the size of its axis in `shape`. Any dtype.
    Raises TypeError for sizes or axes that do not fit.

    >>> import xpr.numpy as jnp
    >>> broadcast_in_dim(jnp.array([1, 2]), (2, 3), (0,))
    Array([[1, 1, 1],
           [2, 2, 2]], dtype=int32)
    """
    if places_now(out_sharding):
        return resharded(
            "broadcast_in_dim",
            out_sharding,
            lambda: broadcast_in_dim(operand, shape, broadcast_dimensions),
        )
    given = given_sharding("broadcast_in_dim", out_sharding)
    sizes = canonicalize_shape("broadcast_in_dim", shape)
    dims = as_ints("broadcast_in_dim", "broadcast_dimensions", broadcast_dimensions)
    same = given is None and is_array(operand) and operand.shape == sizes
    if same and dims == tuple(range(len(sizes))):
        return operand
    return bound_there(
        broadcast_in_dim_p, operand, shape=sizes, broadcast_dimensions=dims, sharding=given
    )


def broadcast(operand: Any, sizes: Sequence[int], *, out_sharding: Any = None) -> Array:
    """Adds leading axes of the given sizes: the result has shape `sizes + operand.shape`.

    >>> import xpr.numpy as jnp
    >>> broadcast(jnp.ones(3), (2,)).shape
    (2, 3)
    """
    shape = get_aval(operand).shape
    front = as_ints("broadcast", "sizes", sizes)
    dims = tuple(range(len(front), len(front) + len(shape)))
    return broadcast_in_dim(operand, front + shape, dims, out_sharding=out_sharding)


def broadcast_shapes(*shapes: Sequence[int]) -> Shape:
    """The shape that arrays of `shapes` broadcast to; ValueError when they do not.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    shown = [canonicalize_shape("broadcast_shapes", s) for s in shapes]
    try:
        return tuple(np.broadcast_shapes(*shown))
    except ValueError:
        raise ValueError(f"Incompatible shapes for broadcasting: shapes={shown}") from None


def broadcast_to_rank(x: Any, rank: int) -> Array:
    """Adds leading axes of size 1 until `x` has `rank` axes; ValueError when it has more.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.broadcast_to_rank(jnp.ones((2, 3)), 4).shape
    (1, 1, 2, 3)
    """
    ndim = get_aval(x).ndim
    if ndim > rank:
        raise ValueError(f"broadcast_to_rank needs an array of at most {rank} axes, got {ndim}")
    return expand_dims(x, range(rank - ndim))


def broadcast_like(arr: Any, like_arr: Any) -> Array:
    """`arr` broadcast (by NumPy's rules) to the shape of `like_arr`, its dtype kept.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.broadcast_like(jnp.array([1, 2]), jnp.ones((2, 2)))
    Array([[1, 2],
           [1, 2]], dtype=int32)
    """
    shape, target = get_aval(arr).shape, get_aval(like_arr).shape
    if broadcast_shapes(shape, target) != target:
        raise ValueError(f"broadcast_like cannot broadcast shape {shape} to shape {target}")
    return broadcast_in_dim(arr, target, range(len(target) - len(shape), len(target)))


def expand_dims(array: Any, dimensions: Any) -> Array:
    """Inserts axes of size 1, so that they stand at `dimensions` of the result.

    Raises ValueError for an axis out of range or named twice.

    >>> import xpr.numpy as jnp
    >>> expand_dims(jnp.ones((2, 3)), (0, -1)).shape
    (1, 2, 3, 1)
    """
    shape = get_aval(array).shape
    wanted = tuple(dimensions)
    ndim = len(shape) + len(wanted)
    new = canonicalize_axes(wanted, ndim)
    if len(set(new)) != len(new):
        raise ValueError(f"repeated axis in lax.expand_dims: {wanted}")
    kept = [i for i in range(ndim) if i not in new]
    sizes = [1] * ndim
    for axis, size in zip(kept, shape, strict=True):
        sizes[axis] = size
    return broadcast_in_dim(array, tuple(sizes), kept)


# ---- reshape


def _reshape_abstract(
    x: ShapedArray, *, new_sizes: Shape, dimensions: Shape | None, sharding: Any
) -> ShapedArray:
    if any(d < 0 for d in new_sizes):
        raise TypeError(f"reshape new_sizes must all be positive, got {new_sizes}.")
    size = 1
    for d in new_sizes:
        size *= d
    if size != x.size:
        raise TypeError(
            f"reshape total size must be unchanged, got new_sizes {new_sizes} (total size {size}) "
            f"for shape {x.shape} (total size {x.size})."
        )
    if dimensions is not None and sorted(dimensions) != list(range(x.ndim)):
        raise TypeError(
            "reshape dimensions must be a permutation of operand dimensions, "
            f"got dimensions {dimensions} for shape {x.shape}."
        )
    return ShapedArray(new_sizes, x.dtype, x.weak_type)


def _reshape_reference(
    x: Host, *, new_sizes: Shape, dimensions: Shape | None, sharding: Any
) -> Host:
    return (x if dimensions is None else x.transpose(dimensions)).reshape(new_sizes)


reshape_p = define(
    "reshape",
    family=_FAMILY,
    doc="The elements of x in row-major order (of permuted axes) in another shape.",
    abstract=_reshape_abstract,
    reference=_reshape_reference,
    jvp=LinearJVP(),
    transpose=reshape_transpose,
    batch=reshape_batch,
)


def reshape(
    operand: Any,
    new_sizes: Any,
    dimensions: Sequence[int] | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """The elements of `operand` in row-major order in the shape `new_sizes`.

    `dimensions`, a permutation of the operand's axes, is applied first. Any dtype. Raises TypeError
    when the number of elements differs.

    >>> import xpr.numpy as jnp
    >>> reshape(jnp.arange(6), (2, 3))
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    """
    aval = get_aval(operand)
    if places_now(out_sharding) and not (unreduced_axes(aval) or reduced_axes(aval)):
        return resharded("reshape", out_sharding, lambda: reshape(operand, new_sizes, dimensions))
    given = given_sharding("reshape", out_sharding)
    sizes = canonicalize_shape("reshape", new_sizes)
    order = None if dimensions is None else as_ints("reshape", "dimensions", dimensions)
    if order == tuple(range(aval.ndim)):
        order = None
    if given is None and order is None and aval.shape == sizes and is_array(operand):
        return operand
    return bound_there(reshape_p, operand, new_sizes=sizes, dimensions=order, sharding=given)


def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """Merges the axes from `start_dimension` up to, not including, `stop_dimension` into one.

    >>> import xpr.numpy as jnp
    >>> collapse(jnp.ones((2, 3, 4)), 1).shape
    (2, 12)
    """
    shape = get_aval(operand).shape
    start, stop, _ = slice(start_dimension, stop_dimension).indices(len(shape))
    if stop < start:
        raise ValueError(
            f"collapse requires start_dimension <= stop_dimension, got {start_dimension} and "
            f"{stop_dimension} for an array of {len(shape)} axes"
        )
    merged = 1
    for d in shape[start:stop]:
        merged *= d
    return reshape(operand, (*shape[:start], merged, *shape[stop:]))


# ---- transpose


def _transpose_abstract(x: ShapedArray, *, permutation: Shape) -> ShapedArray:
    if sorted(permutation) != list(range(x.ndim)):
        raise TypeError(
            "transpose permutation isn't a permutation of operand dimensions, "
            f"got permutation {permutation} for operand shape {x.shape}."
        )
    return ShapedArray(tuple(x.shape[i] for i in permutation), x.dtype, x.weak_type)


def _transpose_reference(x: Host, *, permutation: Shape) -> Host:
    return x.transpose(permutation)


transpose_p = define(
    "transpose",
    family=_FAMILY,
    doc="Permutes the axes: axis i of the result is axis permutation[i] of x.",
    abstract=_transpose_abstract,
    reference=_transpose_reference,
    jvp=LinearJVP(),
    transpose=lambda ct, x, *, permutation: [ops.transpose(ct, inverse(permutation))],
    batch=transpose_batch,
)


def transpose(operand: Any, permutation: Sequence[int] | Host) -> Array:
    """Permutes axes: axis i of the result is axis `permutation[i]` of `operand`. Any dtype.

    >>> import xpr.numpy as jnp
    >>> transpose(jnp.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    order = as_ints("transpose", "permutation", permutation)
    if is_array(operand) and order == tuple(range(operand.ndim)):
        return operand
    return transpose_p.bind(operand, permutation=order)


# ---- squeeze


def _squeeze_abstract(x: ShapedArray, *, dimensions: Shape) -> ShapedArray:
    if any(x.shape[d] != 1 for d in dimensions):
        raise ValueError(
            "cannot select an axis to squeeze out which has size not equal to one, "
            f"got shape={x.shape} and dimensions={dimensions}"
        )
    kept = tuple(s for i, s in enumerate(x.shape) if i not in dimensions)
    return ShapedArray(kept, x.dtype, x.weak_type)


def _squeeze_reference(x: Host, *, dimensions: Shape) -> Host:
    return x.squeeze(dimensions)


squeeze_p = define(
    "squeeze",
    family=_FAMILY,
    doc="Removes axes of size 1.",
    abstract=_squeeze_abstract,
    reference=_squeeze_reference,
    jvp=LinearJVP(),
    transpose=lambda ct, x, *, dimensions: [ops.reshape(ct, shape_of(x))],
    batch=squeeze_batch,
)


def squeeze(array: Any, dimensions: Any) -> Array:
    """Removes the axes `dimensions`, which must have size 1. Any dtype.

    Raises ValueError for another size, an axis out of range or one named twice.

    >>> import xpr.numpy as jnp
    >>> squeeze(jnp.ones((1, 3, 1)), (0,)).shape
    (3, 1)
    """
    axes = canonicalize_axes(dimensions, get_aval(array).ndim)
    if len(set(axes)) != len(axes):
        raise ValueError(f"dimensions are not unique: {axes}")
    if not axes and is_array(array):
        return array
    return squeeze_p.bind(array, dimensions=tuple(sorted(axes)))


# ---- rev


def _rev_abstract(x: ShapedArray, *, dimensions: Shape) -> ShapedArray:
    if len(set(dimensions)) != len(dimensions):
        raise TypeError(f"rev dimensions must be unique, got {dimensions}.")
    if any(d < 0 for d in dimensions):
        raise TypeError(f"rev dimensions must have every element be nonnegative, got {dimensions}.")
    if any(d >= x.ndim for d in dimensions):
        raise TypeError(
            "rev dimensions must all be less than operand ndim, "
            f"got dimensions {dimensions} for operand ndim {x.ndim}."
        )
    return x


def _rev_reference(x: Host, *, dimensions: Shape) -> Host:
    return x[tuple(slice(None, None, -1 if i in dimensions else 1) for i in range(x.ndim))]


rev_p = define(
    "rev",
    family=_FAMILY,
    doc="Reverses the order of the elements along some axes.",
    abstract=_rev_abstract,
    reference=_rev_reference,
    jvp=LinearJVP(),
    transpose=lambda ct, x, *, dimensions: [ops.bind("rev", ct, dimensions=dimensions)],
    batch=rev_batch,
)


def rev(operand: Any, dimensions: Sequence[int]) -> Array:
    """Reverses the order of the elements along `dimensions`. Any dtype.

    >>> import xpr.numpy as jnp
    >>> rev(jnp.arange(3), (0,))
    Array([2, 1, 0], dtype=int32)
    """
    return rev_p.bind(operand, dimensions=as_ints("rev", "dimensions", dimensions))


# ---- pad


def _pad_abstract(
    x: ShapedArray, padding_value: ShapedArray, *, padding_config: PaddingConfig
) -> ShapedArray:
    if x.dtype != padding_value.dtype:
        raise TypeError(
            "pad operand and padding_value must be same dtype: "
            f"got {x.dtype} and {padding_value.dtype}."
        )
    if padding_value.shape:
        raise ValueError(f"padding_value must be a scalar; got shape {padding_value.shape}")
    if len(padding_config) != x.ndim:
        raise ValueError(
            "length of padding_config must equal the number of axes of operand, "
            f"got padding_config {padding_config} for operand shape {x.shape}"
        )
    if any(interior < 0 for _, _, interior in padding_config):
        raise ValueError(
            "interior padding in padding_config must be nonnegative, "
            f"got padding_config {padding_config}"
        )
    shape = tuple(
        low + high + size + max(size - 1, 0) * interior
        for size, (low, high, interior) in zip(x.shape, padding_config, strict=True)
    )
    if any(d < 0 for d in shape):
        raise ValueError(
            f"Dimension size after padding is not at least 0, got result shape {shape}, "
            f"for padding_config {padding_config} and operand shape {x.shape}"
        )
    return ShapedArray(shape, x.dtype, x.weak_type and padding_value.weak_type)


def _pad_reference(x: Host, padding_value: Host, *, padding_config: PaddingConfig) -> Host:
    shape, source, place = [], [], []
    for size, (low, high, interior) in zip(x.shape, padding_config, strict=True):
        step = interior + 1
        length = low + high + size + max(size - 1, 0) * interior
        # Element i lands at low + i * step; those that land outside are cut off.
        first = -(low // step) if low < 0 else 0
        last = min(size, -((low - length) // step))
        shape.append(length)
        source.append(slice(first, max(first, last)))
        start = low + first * step
        place.append(slice(start, start + max(0, last - first) * step, step))
    out = np.empty(shape, x.dtype)
    out.fill(padding_value[()])
    if out.size and x.size:
        kept = x[tuple(source)]
        if kept.size:
            out[tuple(place)] = kept
    return out


pad_p = define(
    "pad",
    family=_FAMILY,
    doc="Adds padding_value at the edges and between elements; a negative edge cuts off.",
    abstract=_pad_abstract,
    reference=_pad_reference,
    jvp=LinearJVP(),
    transpose=pad_transpose,
    batch=pad_batch,
)


def pad(operand: Any, padding_value: Any, padding_config: Sequence[tuple[int, int, int]]) -> Array:
    """Pads each axis: `padding_config` has (low, high, interior) for each.

    `interior` copies of the scalar `padding_value` go between neighbours, `low` and `high` before
    and after; a negative low or high removes elements instead. Both operands have the same dtype.

    >>> import xpr.numpy as jnp
    >>> pad(jnp.array([1, 2, 3]), 0, [(1, -1, 1)])
    Array([0, 1, 0, 2, 0], dtype=int32)
    """
    config = tuple(as_ints("pad", "padding_config", edges) for edges in padding_config)
    if any(len(edges) != 3 for edges in config):
        raise ValueError(f"pad requires (low, high, interior) for each axis, got {config}")
    return pad_p.bind(operand, padding_value, padding_config=config)
