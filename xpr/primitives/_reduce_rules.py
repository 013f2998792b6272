"""Derivative, transpose and batching rules of the reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xpr.core.jaxpr import ClosedJaxpr, eval_jaxpr
from xpr.core.primitive import DerivedRule, Primitive, Rule
from xpr.core.trace import get_aval
from xpr.interpreters.batching import batch_flat, batch_jaxpr
from xpr.interpreters.jvp import jvp_flat
from xpr.primitives import _ops as ops
from xpr.primitives.rules import (
    BatchAxis,
    Dim,
    at_front,
    const_like,
    expand_dims,
    full_like,
    shape_of,
)

Axes = tuple[int, ...]
Combine = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]


# ---- reductions with a parameter `axes`


class ReductionBatch(DerivedRule):
    """Reductions of one operand along the axes that the parameter `axes` names."""

    def rule_for(self, primitive: Primitive) -> Rule:
        def batch(
            axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], *, axes: Axes, **params: Any
        ) -> Any:
            dim = dims[0]
            assert dim is not None
            moved, place = _axes_beside(axes, dim)
            return primitive.bind(args[0], axes=moved, **params), place

        return batch


def _axes_beside(axes: Axes, dim: int) -> tuple[Axes, int]:
    """The reduced axes when the operand has one more axis at `dim`, and its place in the result."""
    moved = tuple(a + (a >= dim) for a in axes)
    return moved, dim - sum(a < dim for a in moved)


def sum_transpose(ct: Any, x: Any, *, axes: Axes, **_: Any) -> list[Any]:
    shape = shape_of(x)
    return [ops.broadcast_in_dim(ct, shape, [i for i in range(len(shape)) if i not in axes])]


def extremum_tangent(t: Any, out: Any, x: Any, *, axes: Axes, **_: Any) -> Any:
    """The mean of the tangents of all elements that are the extremum; NaN where that is NaN."""
    aval = get_aval(x)
    kept = [1 if i in axes else n for i, n in enumerate(aval.shape)]
    chosen = ops.convert(ops.eq(x, ops.reshape(out, kept)), aval.dtype, aval.weak_type)
    count = ops.reduce_sum(chosen, axes)
    return ops.div(ops.reduce_sum(ops.mul(t, chosen), axes), count)


def product_tangent(t: Any, out: Any, x: Any, *, axes: Axes, **_: Any) -> Any:
    """Products by halves of pairs (value, tangent): no division, so zeros do no harm.

    Of these pairs (x, t) and (y, u) the product is (x y, t y + x u).
    """
    if not axes:
        return t
    if 0 in shape_of(x):
        return full_like(out, 0)
    x, t = _merged_first(x, axes), _merged_first(t, axes)
    while (n := shape_of(x)[0]) > 1:
        half = n // 2
        left, right = (_rows(x, 0, half), _rows(t, 0, half)), (_rows(x, half), _rows(t, half))
        if n % 2:
            # The odd element out joins the left half, with a factor of 1 on the right.
            left, right = (
                (_rows(x, 0, half + 1), _rows(t, 0, half + 1)),
                (_one_more(_rows(x, half + 1), 1), _one_more(_rows(t, half + 1), 0)),
            )
        x = ops.mul(left[0], right[0])
        t = ops.bind("add_any", ops.mul(left[1], right[0]), ops.mul(left[0], right[1]))
    return ops.reshape(t, shape_of(out))


def _merged_first(x: Any, axes: Axes) -> Any:
    """`x` with the axes `axes` made one, in front of the others."""
    shape = shape_of(x)
    kept = [i for i in range(len(shape)) if i not in axes]
    order = (*axes, *kept)
    if order != tuple(range(len(shape))):
        x = ops.transpose(x, order)
    if len(axes) == 1:
        return x
    return ops.reshape(x, (math.prod(shape[a] for a in axes), *(shape[i] for i in kept)))


def _rows(x: Any, start: int, stop: int | None = None, step: int = 1) -> Any:
    """The part of axis 0 that the slice start:stop:step means."""
    shape = shape_of(x)
    limit = shape[0] if stop is None else stop
    return ops.bind(
        "slice",
        x,
        start_indices=(start, *(0 for _ in shape[1:])),
        limit_indices=(limit, *shape[1:]),
        strides=None if step == 1 else (step, *(1 for _ in shape[1:])),
    )


def _one_more(x: Any, value: float) -> Any:
    """`x` with a last row of elements equal to `value`."""
    config = ((0, 1, 0), *((0, 0, 0) for _ in shape_of(x)[1:]))
    return ops.bind("pad", x, const_like(x, value), padding_config=config)


# ---- the general reduction


def combining(closed: ClosedJaxpr) -> Combine:
    """The function of scalars `closed`, for two lists of arrays of one shape."""

    def combine(left: Sequence[Any], right: Sequence[Any]) -> Sequence[Any]:
        whole, count = closed, len(left)
        for size in reversed(shape_of(left[0])):
            axis = BatchAxis(size)
            whole = batch_jaxpr(whole, axis, (0,) * (2 * count), (True,) * count).closed
        return eval_jaxpr(whole.jaxpr, whole.consts, *left, *right)

    return combine


def reduce_by_pairs(*args: Any, jaxpr: ClosedJaxpr, dimensions: Axes, **_: Any) -> list[Any]:
    """What `reduce` computes, from slices: neighbours are reduced until one element is left.

    Unlike the primitive this can be differentiated in both modes, and its initial values batched.
    """
    half = len(args) // 2
    operands, inits = args[:half], args[half:]
    combine = combining(jaxpr)
    shape = shape_of(operands[0])
    kept = tuple(n for i, n in enumerate(shape) if i not in dimensions)
    starts = [ops.broadcast_in_dim(i, kept, ()) if kept else i for i in inits]
    if 0 in shape:
        return starts
    rows = [_merged_first(x, dimensions) if dimensions else expand_dims(x, [0]) for x in operands]
    while (n := shape_of(rows[0])[0]) > 1:
        even = n - n % 2
        combined = combine(
            [_rows(r, 0, even, 2) for r in rows], [_rows(r, 1, even, 2) for r in rows]
        )
        if n % 2:
            combined = [
                ops.bind("concatenate", f, _rows(r, even), dimension=0)
                for f, r in zip(combined, rows, strict=True)
            ]
        rows = list(combined)
    return list(combine(starts, [ops.reshape(r, kept) for r in rows]))


def reduce_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], **params: Any
) -> tuple[list[Any], list[Any]]:
    out = ops.bind("reduce", *primals, **params)
    _, out_tangents = jvp_flat(lambda *xs: reduce_by_pairs(*xs, **params), primals, tangents)
    return out, out_tangents


def reduce_batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], **params: Any
) -> tuple[list[Any], Sequence[Dim]]:
    half = len(args) // 2
    if any(d is not None for d in dims[half:]):
        return batch_flat(lambda *xs: reduce_by_pairs(*xs, **params), axis, args, dims)
    operands = [at_front(axis, x, d) for x, d in zip(args[:half], dims, strict=False)]
    axes = tuple(a + 1 for a in params.pop("dimensions"))
    out = ops.bind("reduce", *operands, *args[half:], dimensions=axes, **params)
    return out, [0] * half
