"""Joining and splitting arrays: concatenate, stack, unstack, split, tile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.primitive import define
from xpr.core.trace import get_aval
from xpr.primitives._index_dims import Shape, as_ints, canonicalize_axis, is_array
from xpr.primitives.families import require_same_dtypes

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


concatenate_p = define(
    "concatenate",
    family=_FAMILY,
    doc="Joins arrays along one axis.",
    abstract=_concatenate_abstract,
    reference=_concatenate_reference,
)


def concatenate(operands: Any, dimension: int) -> Any:
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


stack_p = define(
    "stack",
    family=_FAMILY,
    doc="Joins arrays of one shape along a new axis.",
    abstract=_stack_abstract,
    reference=_stack_reference,
)


def stack(operands: Sequence[Any], axis: int = 0) -> Any:
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


unstack_p = define(
    "unstack",
    family=_FAMILY,
    doc="The slices along one axis, each an array of its own.",
    abstract=_unstack_abstract,
    reference=_unstack_reference,
    multiple_results=True,
)


def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """The slices of `x` along `axis`, without that axis; the inverse of `stack`."""
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


split_p = define(
    "split",
    family=_FAMILY,
    doc="Consecutive parts of the given sizes along one axis.",
    abstract=_split_abstract,
    reference=_split_reference,
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


tile_p = define(
    "tile",
    family=_FAMILY,
    doc="Repeats the whole array along each axis.",
    abstract=_tile_abstract,
    reference=_tile_reference,
)


def tile(operand: Any, reps: Sequence[int]) -> Any:
    """Repeats `operand` `reps[i]` times along axis i; one count for each axis.

    >>> import xpr.numpy as jnp
    >>> tile(jnp.array([1, 2]), (2,))
    Array([1, 2, 1, 2], dtype=int32)
    """
    return tile_p.bind(operand, reps=as_ints("tile", "reps", reps))
