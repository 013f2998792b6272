"""Transposes and batching rules of the operations that rearrange one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.aval import ShapedArray
from xpr.core.trace import get_aval
from xpr.interpreters.batching import at_front
from xpr.interpreters.zeros import full
from xpr.primitives import _ops as ops
from xpr.primitives._index_dims import Shape
from xpr.primitives.rules import (
    BatchAxis,
    Dim,
    const_like,
    expand_dims,
    is_linear,
    move_axis,
    shape_of,
)

PaddingConfig = tuple[tuple[int, int, int], ...]


def shifted(axes: Sequence[int], dim: int) -> Shape:
    """`axes` of one example as axes of the batch whose batch axis is `dim`."""
    return tuple(a + (a >= dim) for a in axes)


def static_slice(
    x: Any, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int] | None = None
) -> Any:
    """The part of `x` from `starts` up to `limits`."""
    return ops.bind(
        "slice",
        x,
        start_indices=tuple(starts),
        limit_indices=tuple(limits),
        strides=None if strides is None else tuple(strides),
    )


# ---- broadcast_in_dim


def broadcast_in_dim_transpose(
    ct: Any, x: Any, *, shape: Shape, broadcast_dimensions: Shape, sharding: Any
) -> list[Any]:
    del sharding
    sizes = shape_of(x)
    kept = [d for n, d in zip(sizes, broadcast_dimensions, strict=True) if n == shape[d]]
    summed = [d for d in range(len(shape)) if d not in kept]
    total = ops.reduce_sum(ct, summed) if summed else ct
    # What is left has the axes in the order of the result, not of the operand.
    in_order = sorted(kept)
    if kept != in_order:
        total = ops.transpose(total, [in_order.index(d) for d in kept])
    stretched = [i for i, d in enumerate(broadcast_dimensions) if d not in kept]
    return [expand_dims(total, stretched)]


def broadcast_in_dim_batch(
    axis: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[Dim],
    *,
    shape: Shape,
    broadcast_dimensions: Shape,
    sharding: Any,
) -> tuple[Any, int]:
    (x,), (dim,) = args, dims
    assert dim is not None
    sharding = axis.added_to(sharding, len(shape), 0)
    # The operand's axes may go anywhere, so its batch axis need not be moved first.
    places = [d + 1 for d in broadcast_dimensions]
    places.insert(dim, 0)
    out = ops.bind(
        "broadcast_in_dim",
        x,
        shape=(axis.size, *shape),
        broadcast_dimensions=tuple(places),
        sharding=sharding,
    )
    return out, 0


# ---- reshape


def reshape_transpose(
    ct: Any, x: Any, *, new_sizes: Shape, dimensions: Shape | None, sharding: Any
) -> list[Any]:
    del new_sizes, sharding
    shape = shape_of(x)
    if dimensions is None:
        return [ops.reshape(ct, shape)]
    return [ops.transpose(ops.reshape(ct, [shape[d] for d in dimensions]), inverse(dimensions))]


def reshape_batch(
    axis: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[Dim],
    *,
    new_sizes: Shape,
    dimensions: Shape | None,
    sharding: Any,
) -> tuple[Any, int]:
    (x,), (dim,) = args, dims
    assert dim is not None
    sizes = (axis.size, *new_sizes)
    sharding = axis.added_to(sharding, len(new_sizes), 0)
    if dimensions is None:
        x = move_axis(x, dim, 0)
    else:
        dimensions = (dim, *shifted(dimensions, dim))
    return ops.bind("reshape", x, new_sizes=sizes, dimensions=dimensions, sharding=sharding), 0


# ---- transpose, squeeze and rev


def inverse(permutation: Sequence[int]) -> Shape:
    """The permutation that undoes `permutation`."""
    return tuple(sorted(range(len(permutation)), key=permutation.__getitem__))


def transpose_batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], *, permutation: Shape
) -> tuple[Any, int]:
    del axis
    (x,), (dim,) = args, dims
    assert dim is not None
    return ops.transpose(x, (dim, *shifted(permutation, dim))), 0


def squeeze_batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], *, dimensions: Shape
) -> tuple[Any, int]:
    del axis
    (x,), (dim,) = args, dims
    assert dim is not None
    removed = shifted(dimensions, dim)
    return ops.bind("squeeze", x, dimensions=removed), dim - sum(d < dim for d in removed)


def rev_batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], *, dimensions: Shape
) -> tuple[Any, int]:
    del axis
    (x,), (dim,) = args, dims
    assert dim is not None
    return ops.bind("rev", x, dimensions=shifted(dimensions, dim)), dim


# ---- pad


def pad_transpose(
    ct: Any, x: Any, padding_value: Any, *, padding_config: PaddingConfig
) -> list[Any]:
    x_ct = value_ct = None
    if is_linear(x):
        # Edges that were added are cut off, and those that were cut off get zeros.
        edges = tuple((-low, -high, 0) for low, high, _ in padding_config)
        x_ct = ops.bind("pad", ct, const_like(ct, 0), padding_config=edges)
        if any(interior for _, _, interior in padding_config):
            steps = [interior + 1 for _, _, interior in padding_config]
            x_ct = static_slice(x_ct, [0] * len(steps), shape_of(x_ct), steps)
    if is_linear(padding_value):
        # Summed over the padding alone: as a difference of sums it would lose digits.
        padded = _is_padding(shape_of(x), padding_config)
        zeros = full(get_aval(ct), 0)
        value_ct = ops.reduce_sum(ops.select(padded, ct, zeros), range(len(padding_config)))
    return [x_ct, value_ct]


def _is_padding(shape: Shape, padding_config: PaddingConfig) -> Any:
    """Which elements of the padded array are padding."""
    inside = full(ShapedArray(shape, get_aval(False).dtype), False)
    return ops.bind("pad", inside, True, padding_config=padding_config)


def pad_batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], *, padding_config: PaddingConfig
) -> tuple[Any, int]:
    x, value = args
    dim, value_dim = dims
    if value_dim is None:
        assert dim is not None
        config = (*padding_config[:dim], (0, 0, 0), *padding_config[dim:])
        return ops.bind("pad", x, value, padding_config=config), dim
    # One value for each example: padding with zeros shows where they belong.
    x = at_front(axis, x, dim)
    config = ((0, 0, 0), *padding_config)
    padded = ops.bind("pad", x, const_like(x, 0), padding_config=config)
    mask = _is_padding(shape_of(x), config)
    return ops.select(mask, ops.broadcast_in_dim(value, shape_of(padded), (0,)), padded), 0
