"""Derivative and batching rules of sorting: tangents go where their elements go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.primitive import Rule
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives._index_dims import GatherDimensionNumbers, GatherScatterMode
from xpr.primitives.rules import (
    BatchAxis,
    Dim,
    Zero,
    at_front,
    expand_dims,
    shape_of,
    zero_tangent,
    zeros,
)

_INT32 = np.dtype(np.int32)


def _taken(x: Any, order: Any, axis: int) -> Any:
    """The elements of `x` at the distinct places `order` along `axis`."""
    shape = shape_of(order)
    if 0 in shape:
        return zeros(get_aval(x).update(shape=shape))
    others = tuple(i for i in range(len(shape)) if i != axis)
    return ops.bind(
        "gather",
        x,
        expand_dims(order, [len(shape)]),
        dimension_numbers=GatherDimensionNumbers(
            offset_dims=(),
            collapsed_slice_dims=(axis,),
            start_index_map=(axis,),
            operand_batching_dims=others,
            start_indices_batching_dims=others,
        ),
        slice_sizes=(1,) * len(shape),
        indices_are_sorted=False,
        unique_indices=True,
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
        fill_value=None,
    )


# ---- sort


def sort_jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    dimension: int,
    is_stable: bool,
    num_keys: int,
) -> tuple[list[Any], list[Any]]:
    """Places are sorted along with the operands, and tangents taken from these."""
    places = ops.bind(
        "iota", dtype=_INT32, shape=shape_of(primals[0]), dimension=dimension, sharding=None
    )
    *out, order = ops.bind(
        "sort", *primals, places, dimension=dimension, is_stable=is_stable, num_keys=num_keys
    )
    return out, [t if type(t) is Zero else _taken(t, order, dimension) for t in tangents]


def sort_batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], *, dimension: int, **params: Any
) -> tuple[list[Any], list[Dim]]:
    place = next(d for d in dims if d is not None)
    if any(d != place for d in dims):
        place = 0
        args = [at_front(axis, x, d) for x, d in zip(args, dims, strict=True)]
    out = ops.bind("sort", *args, dimension=dimension + (dimension >= place), **params)
    return out, [place] * len(args)


# ---- the greatest elements


def selection_jvp(name: str) -> Rule:
    """The rule of a primitive that gives elements of its operand and their indices."""

    def jvp(
        primals: Sequence[Any], tangents: Sequence[Any], **params: Any
    ) -> tuple[list[Any], list[Any]]:
        (x,), (t,) = primals, tangents
        values, indices = ops.bind(name, x, **params)
        axis = params["axis"] if name == "top_k" else params["reduction_dimension"]
        tangent = _taken(t, indices, axis % len(shape_of(x)))
        return [values, indices], [tangent, zero_tangent(indices)]

    return jvp


def top_k_batch(
    mapped: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], *, k: int, axis: int
) -> tuple[list[Any], list[Dim]]:
    (x,), (dim,) = args, dims
    assert dim is not None
    return ops.bind("top_k", x, k=k, axis=axis + (axis >= dim)), [dim, dim]


def approx_top_k_batch(
    mapped: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[Dim],
    *,
    reduction_dimension: int,
    **params: Any,
) -> tuple[list[Any], list[Dim]]:
    (x,), (dim,) = args, dims
    assert dim is not None
    axis = reduction_dimension % (len(shape_of(x)) - 1)
    axis += axis >= dim
    return ops.bind("approx_top_k", x, reduction_dimension=axis, **params), [dim, dim]
