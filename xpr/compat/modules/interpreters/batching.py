"""`jax.interpreters.batching`: batching rules of primitives."""

from __future__ import annotations

import functools
from typing import Any

from xpr.compat.primitives import axis_primitive_batchers as axis_primitive_batchers
from xpr.compat.primitives import fancy_primitive_batchers as fancy_primitive_batchers
from xpr.compat.primitives import primitive_batchers as primitive_batchers
from xpr.core.primitive import Primitive
from xpr.interpreters.batching import broadcast_batch, move_axis
from xpr.transforms.vmap import refuse_type

__all__ = [
    "axis_primitive_batchers",
    "bdim_at_front",
    "broadcast",
    "defbroadcasting",
    "defreducer",
    "defvectorized",
    "fancy_primitive_batchers",
    "moveaxis",
    "not_mapped",
    "primitive_batchers",
    "register_vmappable",
]

not_mapped = None


def moveaxis(x: Any, source: int, target: int) -> Any:
    """`x` with an axis moved."""
    return move_axis(x, source, target)


def broadcast(x: Any, size: int, axis: int) -> Any:
    """`x` repeated along a new axis."""
    return broadcast_batch(x, size, axis)


def bdim_at_front(x: Any, dim: int | None, size: int) -> Any:
    """`x` with its batch axis moved to the front, or repeated along one."""
    return broadcast_batch(x, size, 0) if dim is None else move_axis(x, dim, 0)


def defvectorized(primitive: Primitive) -> None:
    """Makes a primitive one that computes each element alone; batch axes must agree."""
    primitive_batchers[primitive] = functools.partial(_vectorized, primitive)


def _vectorized(primitive: Primitive, args: Any, dims: Any, **params: Any) -> Any:
    if len(set(dims)) != 1:
        raise ValueError(f"{primitive}: batch axes {tuple(dims)} must agree")
    result = primitive.bind(*args, **params)
    return result, ([dims[0]] * len(result) if primitive.multiple_results else dims[0])


def defreducer(primitive: Primitive) -> None:
    """Makes a primitive one that reduces its operand over the axes of its parameter `axes`."""
    primitive_batchers[primitive] = functools.partial(_reducer, primitive)


def _reducer(
    primitive: Primitive, args: Any, dims: Any, *, axes: tuple[int, ...], **params: Any
) -> Any:
    (x,), (dim,) = args, dims
    moved = tuple(a + (a >= dim) for a in axes)
    result = primitive.bind(x, axes=moved, **params)
    return result, dim - sum(a < dim for a in moved)


def defbroadcasting(primitive: Primitive) -> None:
    """As `defvectorized`, for operands whose ranks and batch axes may differ."""
    primitive_batchers[primitive] = functools.partial(_broadcasting, primitive)


def _broadcasting(primitive: Primitive, args: Any, dims: Any, **params: Any) -> Any:
    rank = max(x.ndim - (d is not None) for x, d in zip(args, dims, strict=True))
    size = next(x.shape[d] for x, d in zip(args, dims, strict=True) if d is not None)
    moved = []
    for x, d in zip(args, dims, strict=True):
        front = bdim_at_front(x, d, size)
        missing = rank - (front.ndim - 1)
        moved.append(front.reshape(front.shape[0], *(1,) * missing, *front.shape[1:]))
    result = primitive.bind(*moved, **params)
    return result, ([0] * len(result) if primitive.multiple_results else 0)


def register_vmappable(
    data_type: type,
    spec_type: type,
    axis_size_type: type,
    to_elt: Any,
    from_elt: Any,
    make_iota: Any,
) -> None:
    """Takes a class whose values `vmap` would map by rules of their own.

    xpr's `vmap` has no such rules: it raises NotImplementedError for values of the class.
    """
    del spec_type, axis_size_type, to_elt, from_elt, make_iota
    refuse_type(data_type, "it has rules of its own (register_vmappable), which xpr does not use")
