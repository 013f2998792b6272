"""Rules of reductions and products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.loops.memory.arrays import Array, Index, Map, Scalar, View, moved
from xpr.lowering.loops.memory.elementwise import elementwise, full
from xpr.lowering.loops.memory.nest import reduce_all
from xpr.lowering.loops.memory.products import Axis, Product, in_tiles
from xpr.lowering.loops.memory.program import Program
from xpr.lowering.loops.refusal import NotInMemory
from xpr.primitives.convert import convert_element_type_p
from xpr.primitives.dot_general import accumulation_dtype

Avals = Sequence[ShapedArray]

# Products of matrices of more multiplications than this are done faster by other dispatches. Those
# with a vector wait for memory, and what a dispatch for each step costs besides is copies.
_MAX_PRODUCTS = 1 << 23
_MAX_VECTOR_PRODUCTS = 1 << 21


def _least(dtype: np.dtype[Any]) -> Any:
    if dtype == np.bool_:
        return False
    return -np.inf if dtypes.kind(dtype) == "f" else dtypes.iinfo(dtype).min


def _greatest(dtype: np.dtype[Any]) -> Any:
    if dtype == np.bool_:
        return True
    return np.inf if dtypes.kind(dtype) == "f" else dtypes.iinfo(dtype).max


STARTS: dict[str, tuple[str, Callable[[np.dtype[Any]], Any]]] = {
    "reduce_sum": ("add", lambda d: 0),
    "reduce_prod": ("multiply", lambda d: 1),
    "reduce_max": ("maximum", _least),
    "reduce_min": ("minimum", _greatest),
    "reduce_and": (
        "and",
        lambda d: True if d == np.bool_ else -1 if d.kind == "i" else dtypes.iinfo(d).max,
    ),
    "reduce_or": ("or", lambda d: 0),
    "reduce_xor": ("xor", lambda d: 0),
}


def reduce(
    p: Program,
    primitive: Primitive,
    avals: Avals,
    x: Array,
    *,
    axes: Sequence[int],
    **__: Any,
) -> Array:
    op, start = STARTS[primitive.name]
    return reduced_along(p, op, start(x.dtype), x, axes, avals[0])


def reduced_along(
    p: Program, op: str, start: Any, x: Array, axes: Sequence[int], aval: ShapedArray
) -> Array:
    """`x` reduced along axes by an operation."""
    x = p.in_register(x)
    if isinstance(x, Scalar):
        return x.shaped(aval.shape)
    if x.size == 0:
        return full(p.literal(np.asarray(start).astype(x.dtype)[()], x.dtype), aval.shape)
    p.cut_along_axes(x)
    if aval.size == 1:
        return Scalar(
            aval.shape, aval.dtype, reduce_all(p.ctx, op, start, x, range(len(x.shape)), None)
        )
    target = p.allocate(aval.shape, aval.dtype)
    reduce_all(p.ctx, op, start, x, axes, target)
    return target


def _converted(p: Program, x: Array, dtype: np.dtype[Any]) -> Array:
    if x.dtype == dtype:
        return x
    aval = ShapedArray(x.shape, dtype)
    return elementwise(p, convert_element_type_p, [aval], x, new_dtype=dtype, weak_type=False)


def dot_general(
    p: Program,
    _: Primitive,
    avals: Avals,
    x: Array,
    y: Array,
    *,
    dimension_numbers: Any,
    **__: Any,
) -> Array:
    aval = avals[0]
    wide = accumulation_dtype(x.dtype, y.dtype, aval.dtype)
    if wide == np.bool_ or wide != aval.dtype:
        raise NotInMemory(f"a product of {x.dtype} and {y.dtype} that gives {aval.dtype}")
    x, y = _converted(p, x, wide), _converted(p, y, wide)
    (left, right), (left_batch, right_batch) = dimension_numbers
    free_x = [i for i in range(len(x.shape)) if i not in (*left, *left_batch)]
    free_y = [i for i in range(len(y.shape)) if i not in (*right, *right_batch)]
    sizes = (
        *(x.shape[i] for i in left_batch),
        *(x.shape[i] for i in free_x),
        *(y.shape[i] for i in free_y),
        *(x.shape[i] for i in left),
    )
    with_vector = 1 in (
        math.prod(x.shape[i] for i in free_x),
        math.prod(y.shape[i] for i in free_y),
    )
    if math.prod(sizes) > (_MAX_VECTOR_PRODUCTS if with_vector else _MAX_PRODUCTS):
        raise NotInMemory("a large product")
    nb, nx, ny = len(left_batch), len(free_x), len(free_y)
    x, y = (v if isinstance(v, Scalar) or not v.size else p.stored(v) for v in (x, y))
    if isinstance(x, View) and isinstance(y, View) and left and aval.size > 1:
        out = p.allocate(aval.shape, aval.dtype)
        product = Product(
            x,
            y,
            out,
            tuple(
                Axis(x.shape[i], x.strides[i], y.strides[j], out.strides[a])
                for a, (i, j) in enumerate(zip(left_batch, right_batch, strict=True))
            ),
            tuple(
                Axis(x.shape[i], x.strides[i], 0, out.strides[nb + a]) for a, i in enumerate(free_x)
            ),
            tuple(
                Axis(y.shape[i], 0, y.strides[i], out.strides[nb + nx + a])
                for a, i in enumerate(free_y)
            ),
            tuple(
                Axis(x.shape[i], x.strides[i], y.strides[j])
                for i, j in zip(left, right, strict=True)
            ),
        )
        if in_tiles(p.ctx, product):
            return out

    def broadcast(
        v: Array, batch: Sequence[int], free: Sequence[int], at: int, summed: Sequence[int]
    ) -> Array:
        axes = {a: i for i, a in enumerate(batch)}
        axes |= {a: at + i for i, a in enumerate(free)}
        axes |= {a: nb + nx + ny + i for i, a in enumerate(summed)}

        def mapping(index: Index) -> Index:
            return tuple(index[axes[a]] for a in range(len(v.shape)))

        return moved(v, sizes, mapping)

    a = broadcast(x, left_batch, free_x, nb, left)
    b = broadcast(y, right_batch, free_y, nb + nx, right)

    def multiply(ctx: LoweringContext, u: Value, v: Value) -> Value:
        return ctx.mul(u, v)

    products = Map(multiply, (a, b), sizes, x.dtype, 1)
    axes = range(nb + nx + ny, len(sizes))
    if not axes:
        return products
    return reduced_along(p, "add", 0, products, tuple(axes), aval)
