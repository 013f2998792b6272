"""Joining and splitting arrays: concatenate, stack, unstack, split, tile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.primitive import define
from xpr.core.trace import get_aval
from xpr.interpreters.batching import at_place
from xpr.primitives import _ops as ops
from xpr.primitives._index_dims import Shape, as_ints, canonicalize_axis, is_array
from xpr.primitives._shape_rules import static_slice
from xpr.primitives.families import require_same_dtypes
from xpr.primitives.rules import (
    BatchAxis,
    Dim,
    LinearJVP,
    Zero,
    instantiate,
    is_linear,
    shape_of,
)

__all__ = ["concatenate", "split", "stack", "tile", "unstack"]

_FAMILY = "joining"
Host = np.ndarray[Any, Any]


def _shapes(avals: Sequence[ShapedArray]) -> str:
    return ", ".join(str(a.shape) for a in avals)


# ---- concatenate


def _concatenate_abstract(*avals: ShapedArray, dimension: int) -> ShapedArray:
    if not avals:
        raise ValueError("concatenate requires a non-empty sequences of arrays")
    first = avals[0]
    if any(a.ndim != first.ndim for a in avals):
        raise TypeError(
            f"Cannot concatenate arrays with different numbers of dimensions: got {_shapes(avals)}."
        )
    if not 0 <= dimension < first.ndim:
        raise TypeError(
            "concatenate dimension out of bounds: "
            f"dimension {dimension} for shapes {_shapes(avals)}."
        )
    before, after = first.shape[:dimension], first.shape[dimension + 1 :]
    if any(a.shape[:dimension] != before or a.shape[dimension + 1 :] != after for a in avals):
        raise TypeError(
            "Cannot concatenate arrays with shapes that differ in dimensions other than the one "
            f"being concatenated: concatenating along dimension {dimension} for shapes "
            f"{_shapes(avals)}."
        )
    dtype = require_same_dtypes("concatenate", *avals)
    total = sum(a.shape[dimension] for a in avals)
    return ShapedArray((*before, total, *after), dtype, all(a.weak_type for a in avals))


def _concatenate_reference(*xs: Host, dimension: int) -> Host:
    return np.concatenate(xs, axis=dimension)


def _concatenate_transpose(ct: Any, *xs: Any, dimension: int) -> list[Any]:
    limits = list(shape_of(ct))
    starts, end, found = [0] * len(limits), 0, []
    for x in xs:
        starts[dimension], end = end, end + shape_of(x)[dimension]
        limits[dimension] = end
        found.append(static_slice(ct, starts, limits) if is_linear(x) else None)
    return found


def _concatenate_batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], *, dimension: int
) -> tuple[Any, int]:
    place = next(d for d in dims if d is not None)
    xs = [at_place(axis, x, d, place) for x, d in zip(args, dims, strict=True)]
    return concatenate_p.bind(*xs, dimension=dimension + (dimension >= place)), place


concatenate_p = define(
    "concatenate",
    family=_FAMILY,
    doc="Joins arrays along one axis.",
    abstract=_concatenate_abstract,
    reference=_concatenate_reference,
    jvp=LinearJVP(),
    transpose=_concatenate_transpose,
    batch=_concatenate_batch,
)


def concatenate(operands: Any, dimension: int) -> Array:
    """Joins arrays along axis `dimension`; the other axes and the dtypes must agree.

    Raises ValueError for an empty sequence, TypeError for shapes or dtypes that differ.

    >>> import xpr.numpy as jnp
    >>> concatenate([jnp.array([1, 2]), jnp.array([3])], 0)
    Array([1, 2, 3], dtype=int32)
    """
    if is_array(operands):
        raise TypeError("concatenate requires a sequence of arrays, got one array")
    xs = list(operands)
    if not xs:
        raise ValueError("concatenate requires a non-empty sequences of arrays")
    if len(xs) == 1 and is_array(xs[0]) and 0 <= dimension < xs[0].ndim:
        return xs[0]
    return concatenate_p.bind(*xs, dimension=int(dimension))


# ---- stack and unstack


def _stack_abstract(*avals: ShapedArray, axis: int) -> ShapedArray:
    if not avals:
        raise ValueError("stack requires a non-empty sequence of arrays")
    first = avals[0]
    if any(a.ndim != first.ndim for a in avals):
        raise ValueError(
            f"Cannot stack arrays with different numbers of dimensions: got {_shapes(avals)}."
        )
    if any(a.shape != first.shape for a in avals):
        raise ValueError(f"stack requires arrays of one shape, got {_shapes(avals)}.")
    dtype = require_same_dtypes("stack", *avals)
    shape = (*first.shape[:axis], len(avals), *first.shape[axis:])
    return ShapedArray(shape, dtype, all(a.weak_type for a in avals))


def _stack_reference(*xs: Host, axis: int) -> Host:
    return np.stack(xs, axis=axis)


def _stack_transpose(ct: Any, *xs: Any, axis: int) -> list[Any]:
    if all(map(is_linear, xs)):
        return list(ops.bind("unstack", ct, axis=axis))
    whole = shape_of(ct)
    found: list[Any] = []
    for i, x in enumerate(xs):
        part = None
        if is_linear(x):
            starts, limits = [0] * len(whole), list(whole)
            starts[axis], limits[axis] = i, i + 1
            part = ops.reshape(static_slice(ct, starts, limits), shape_of(x))
        found.append(part)
    return found


def _stack_batch(
    batch_axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], *, axis: int
) -> tuple[Any, int]:
    place = next(d for d in dims if d is not None)
    xs = [at_place(batch_axis, x, d, place) for x, d in zip(args, dims, strict=True)]
    # The new axis may come before the batch axis: then that one moves along.
    before = axis <= place
    return stack_p.bind(*xs, axis=axis if before else axis + 1), place + before


stack_p = define(
    "stack",
    family=_FAMILY,
    doc="Joins arrays of one shape along a new axis.",
    abstract=_stack_abstract,
    reference=_stack_reference,
    jvp=LinearJVP(),
    transpose=_stack_transpose,
    batch=_stack_batch,
)


def stack(operands: Sequence[Any], axis: int = 0) -> Array:
    """Joins arrays of one shape and dtype along a new axis, which stands at `axis`.

    >>> import xpr.numpy as jnp
    >>> stack([jnp.zeros(3), jnp.ones(3)], axis=1).shape
    (3, 2)
    """
    xs = list(operands)
    if not xs:
        raise ValueError("stack requires a non-empty sequence of arrays")
    return stack_p.bind(*xs, axis=canonicalize_axis(axis, get_aval(xs[0]).ndim + 1))


def _unstack_abstract(x: ShapedArray, *, axis: int) -> list[ShapedArray]:
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return [ShapedArray(shape, x.dtype, x.weak_type)] * x.shape[axis]


def _unstack_reference(x: Host, *, axis: int) -> tuple[Host, ...]:
    return tuple(np.asarray(part) for part in np.moveaxis(x, axis, 0))


def _unstack_transpose(cts: Sequence[Any], x: Any, *, axis: int) -> list[Any]:
    if all(type(ct) is Zero for ct in cts):
        return [Zero(x.aval)]
    return [ops.bind("stack", *map(instantiate, cts), axis=axis)]


def _unstack_batch(
    batch_axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], *, axis: int
) -> tuple[list[Any], list[Dim]]:
    del batch_axis
    (x,), (dim,) = args, dims
    assert dim is not None
    out = unstack_p.bind(x, axis=axis + (axis >= dim))
    return out, [dim - (axis < dim)] * len(out)


unstack_p = define(
    "unstack",
    family=_FAMILY,
    doc="The slices along one axis, each an array of its own.",
    abstract=_unstack_abstract,
    reference=_unstack_reference,
    jvp=LinearJVP(),
    transpose=_unstack_transpose,
    batch=_unstack_batch,
    multiple_results=True,
)


def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """The slices of `x` along `axis`, without that axis; the inverse of `stack`.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.unstack(jnp.array([[1, 2], [3, 4]]))
    (Array([1, 2], dtype=int32), Array([3, 4], dtype=int32))
    """
    return tuple(unstack_p.bind(x, axis=canonicalize_axis(axis, get_aval(x).ndim)))


# ---- split


def _split_abstract(x: ShapedArray, *, sizes: Shape, axis: int) -> list[ShapedArray]:
    if any(s < 0 for s in sizes):
        raise ValueError(f"Sizes passed to split must be nonnegative, got {list(sizes)}")
    if sum(sizes) != x.shape[axis]:
        raise ValueError(
            f"Sum of sizes {sum(sizes)} must be equal to dimension {axis} "
            f"of the operand shape {list(x.shape)}"
        )
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    return [ShapedArray((*before, s, *after), x.dtype, x.weak_type) for s in sizes]


def _split_reference(x: Host, *, sizes: Shape, axis: int) -> tuple[Host, ...]:
    ends = np.cumsum(sizes, dtype=np.int64)
    skip = (slice(None),) * axis
    return tuple(x[(*skip, slice(e - s, e))] for s, e in zip(sizes, ends.tolist(), strict=True))


def _split_transpose(cts: Sequence[Any], x: Any, *, sizes: Shape, axis: int) -> list[Any]:
    del sizes
    if all(type(ct) is Zero for ct in cts):
        return [Zero(x.aval)]
    return [ops.bind("concatenate", *map(instantiate, cts), dimension=axis)]


def _split_batch(
    batch_axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], *, sizes: Shape, axis: int
) -> tuple[list[Any], list[Dim]]:
    del batch_axis
    (x,), (dim,) = args, dims
    assert dim is not None
    out = split_p.bind(x, sizes=sizes, axis=axis + (axis >= dim))
    return out, [dim] * len(out)


split_p = define(
    "split",
    family=_FAMILY,
    doc="Consecutive parts of the given sizes along one axis.",
    abstract=_split_abstract,
    reference=_split_reference,
    jvp=LinearJVP(),
    transpose=_split_transpose,
    batch=_split_batch,
    multiple_results=True,
)


def split(operand: Any, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    """Consecutive parts of `operand` along `axis`, part i having size `sizes[i]`.

    Raises ValueError when the sizes do not add up to the size of the axis.

    >>> import xpr.numpy as jnp
    >>> split(jnp.arange(4), (1, 3))
    [Array([0], dtype=int32), Array([1, 2, 3], dtype=int32)]
    """
    return list(
        split_p.bind(
            operand,
            sizes=as_ints("split", "sizes", sizes),
            axis=canonicalize_axis(axis, get_aval(operand).ndim),
        )
    )


# ---- tile


def _tile_abstract(x: ShapedArray, *, reps: Shape) -> ShapedArray:
    if len(reps) != x.ndim:
        raise TypeError(
            "reps length must be equal to the ndim of x, "
            f"got len(reps)={len(reps)} and x.ndim={x.ndim}."
        )
    if any(r < 0 for r in reps):
        raise TypeError(f"tile reps must have every element be nonnegative, got {reps}.")
    shape = tuple(size * r for size, r in zip(x.shape, reps, strict=True))
    return ShapedArray(shape, x.dtype, x.weak_type)


def _tile_reference(x: Host, *, reps: Shape) -> Host:
    return np.tile(x, reps)


def _tile_transpose(ct: Any, x: Any, *, reps: Shape) -> list[Any]:
    shape = shape_of(x)
    # Each axis as (copies, one copy); the copies are summed.
    apart = [n for pair in zip(reps, shape, strict=True) for n in pair]
    return [ops.reduce_sum(ops.reshape(ct, apart), range(0, 2 * len(shape), 2))]


def _tile_batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], *, reps: Shape
) -> tuple[Any, int]:
    del axis
    (x,), (dim,) = args, dims
    assert dim is not None
    return tile_p.bind(x, reps=(*reps[:dim], 1, *reps[dim:])), dim


tile_p = define(
    "tile",
    family=_FAMILY,
    doc="Repeats the whole array along each axis.",
    abstract=_tile_abstract,
    reference=_tile_reference,
    jvp=LinearJVP(),
    transpose=_tile_transpose,
    batch=_tile_batch,
)


def tile(operand: Any, reps: Sequence[int]) -> Array:
    """Repeats `operand` `reps[i]` times along axis i; one count for each axis.

    >>> import xpr.numpy as jnp
    >>> tile(jnp.array([1, 2]), (2,))
    Array([1, 2, 1, 2], dtype=int32)
    """
    return tile_p.bind(operand, reps=as_ints("tile", "reps", reps))
