"""What the factorisations without a host are written with: loops, rows and columns, sums, masks.

Functions of tracers, on stacks of matrices (the last two axes).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core.dtypes import is_complex
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives import elementwise as el
from xpr.primitives._linalg_rules import conjugate, matmul
from xpr.primitives.rules import broadcast_to, full_like, shape_of
from xpr.primitives.slicing import (
    dynamic_slice_in_dim,
    dynamic_update_slice_in_dim,
    slice_in_dim,
)
from xpr.primitives.while_loop import while_p

INT32 = np.dtype(np.int32)

# ---- loops


def repeated(
    count: int,
    body: Callable[..., Sequence[Any]],
    fixed: Sequence[Any],
    start: Sequence[Any],
    unless: Callable[..., Any] | None = None,
) -> list[Any]:
    """`values = body(i, *fixed, *values)` for each i below `count`.

    With `unless` the loop ends before it where `unless(i, *values)`, a boolean of rank 0, holds.
    """
    if count <= 1 and unless is None:
        return list(body(np.int32(0), *fixed, *start) if count else start)

    def step(*args: Any) -> list[Any]:
        own, i, values = args[: len(fixed)], args[len(fixed)], args[len(fixed) + 1 :]
        return [ops.add(i, np.int32(1)), *body(i, *own, *values)]

    def going_on(i: Any, *values: Any) -> list[Any]:
        below = ops.lt(i, np.int32(count))
        if unless is None:
            return [below]
        return [ops.bind("and", below, ops.bind("not", unless(i, *values)))]

    carried = [np.int32(0), *start]
    avals = [get_aval(x) for x in carried]
    out = while_p.bind(
        *fixed,
        *carried,
        cond_jaxpr=trace_to_jaxpr(going_on, avals),
        body_jaxpr=trace_to_jaxpr(step, [*(get_aval(x) for x in fixed), *avals]),
        cond_nconsts=0,
        body_nconsts=len(fixed),
    )
    return list(out[1:])


# ---- parts of arrays, at an index that may be carried by a loop


def part(x: Any, i: Any, axis: int) -> Any:
    """Element `i` along an axis, which keeps size 1."""
    return dynamic_slice_in_dim(x, i, 1, axis=axis, allow_negative_indices=False)


def with_part(x: Any, update: Any, i: Any, axis: int) -> Any:
    """`x` with element `i` along an axis replaced: in loops a choice for every element."""
    return dynamic_update_slice_in_dim(x, update, i, axis, allow_negative_indices=False)


def column(x: Any, i: Any) -> Any:
    return part(x, i, -1)


def row(x: Any, i: Any) -> Any:
    return part(x, i, -2)


def with_column(x: Any, update: Any, i: Any) -> Any:
    return with_part(x, update, i, -1)


def with_row(x: Any, update: Any, i: Any) -> Any:
    return with_part(x, update, i, -2)


def rows(x: Any, start: int, stop: int) -> Any:
    return slice_in_dim(x, start, stop, axis=-2)


def columns(x: Any, start: int, stop: int) -> Any:
    return slice_in_dim(x, start, stop, axis=-1)


def joined(parts: Sequence[Any], axis: int) -> Any:
    """The parts that are not empty, joined along an axis counted from the end."""
    rank = len(shape_of(parts[0]))
    some = [x for x in parts if shape_of(x)[axis]]
    return some[0] if len(some) == 1 else ops.bind("concatenate", *some, dimension=rank + axis)


def padded(x: Any, height: int, width: int) -> Any:
    """Matrices with rows and columns of zeros up to a size."""
    *batch, m, n = shape_of(x)
    if (m, n) == (height, width):
        return x
    config = (*((0, 0, 0) for _ in batch), (0, height - m, 0), (0, width - n, 0))
    return ops.bind("pad", x, np.zeros((), get_aval(x).dtype)[()], padding_config=config)


# ---- masks


def places(shape: Sequence[int], axis: int) -> Any:
    """The index along an axis, counted from the end, of each element."""
    return ops.bind(
        "iota", dtype=INT32, shape=tuple(shape), dimension=len(shape) + axis, sharding=None
    )


def where(which: Any, x: Any) -> Any:
    """`x` where `which`, else zeros."""
    return ops.select(which, x, full_like(x, 0))


def from_row(x: Any, i: Any, *, strict: bool = False) -> Any:
    """Matrices with zeros above row `i`, and in it when `strict`."""
    shape = shape_of(x)
    name = "gt" if strict else "ge"
    return where(ops.bind(name, places(shape, -2), broadcast_to(i, shape)), x)


def identity(like: Any, size: int) -> Any:
    """Identity matrices of the batch and type of `like`."""
    *batch, _, _ = shape_of(like)
    return broadcast_to(np.eye(size, dtype=get_aval(like).dtype), (*batch, size, size))


# ---- numbers


def real_type(x: Any) -> np.dtype[Any]:
    dtype = get_aval(x).dtype
    return np.dtype(f"f{dtype.itemsize // 2}") if is_complex(dtype) else dtype


def real(x: Any) -> Any:
    return el.real(x) if is_complex(get_aval(x).dtype) else x


def sqrt(x: Any) -> Any:
    return ops.bind("sqrt", x)


def squared(x: Any) -> Any:
    """The squares of absolute values."""
    if not is_complex(get_aval(x).dtype):
        return ops.mul(x, x)
    re, im = el.real(x), el.imag(x)
    return ops.add(ops.mul(re, re), ops.mul(im, im))


def total(x: Any, axes: Sequence[int]) -> Any:
    """The sum along axes counted from the end, which keep size 1."""
    return _reduced("reduce_sum", x, axes, out_sharding=None)


def greatest(x: Any, axes: Sequence[int]) -> Any:
    """The maximum along axes counted from the end, which keep size 1."""
    return _reduced("reduce_max", x, axes, out_sharding=None)


def _reduced(name: str, x: Any, axes: Sequence[int], **params: Any) -> Any:
    shape = shape_of(x)
    found = ops.bind(name, x, axes=tuple(sorted(len(shape) + a for a in axes)), **params)
    kept = {len(shape) + a for a in axes}
    return ops.reshape(found, tuple(1 if i in kept else s for i, s in enumerate(shape)))


def times(x: Any, y: Any) -> Any:
    """The product, with `y` broadcast to the shape of `x` and converted to its type."""
    return ops.mul(x, broadcast_like(y, x))


def over(x: Any, y: Any) -> Any:
    """The quotient, with `y` broadcast to the shape of `x` and converted to its type."""
    return ops.div(x, broadcast_like(y, x))


def broadcast_like(y: Any, like: Any) -> Any:
    dtype = get_aval(like).dtype
    y = y if get_aval(y).dtype == dtype else ops.convert(y, dtype)
    return broadcast_to(y, shape_of(like))


def inner(x: Any, y: Any, axis: int) -> Any:
    """The sums of conj(x) y along an axis counted from the end, which keeps size 1."""
    return total(ops.mul(conjugate(x), y), (axis,))


def materialized(x: Any) -> Any:
    """`x` behind a barrier: computed on its own, nothing fused across."""
    return ops.bind("optimization_barrier", x)[0]


def product(x: Any, y: Any) -> Any:
    """Products of matrices, each on its own: products of the same sizes are compiled once."""
    return materialized(matmul(materialized(x), materialized(y)))


# ---- values that are not finite


def finite_matrices(x: Any) -> Any:
    """Whether all elements of each matrix are finite: booleans [..., 1, 1]."""
    # Not by x - x, which drivers take for zero.
    some = [el.real(x), el.imag(x)] if is_complex(get_aval(x).dtype) else [x]
    flags = [ops.bind("is_finite", v) for v in some]
    every = flags[0] if len(flags) == 1 else ops.bind("and", *flags)
    return _reduced("reduce_and", every, (-2, -1), out_sharding=None)


def nan_unless(which: Any, x: Any) -> Any:
    """`x`, and NaN for the matrices (or vectors) for which `which` [..., 1, 1] does not hold."""
    shape = shape_of(x)
    flags = (
        ops.reshape(which, shape_of(which)[: len(shape)])
        if len(shape) < len(shape_of(which))
        else which
    )
    return ops.select(broadcast_to(flags, shape), x, full_like(x, np.nan))


# ---- blocks of columns

# Up to twice this many columns are one block.
_BLOCK = 32


def block_size(count: int) -> int:
    """How many of `count` columns make a block."""
    return count if count <= 2 * _BLOCK else _BLOCK


def column_block(x: Any, i: Any, size: int) -> Any:
    """Block `i` of the columns, of `size` each."""
    start = ops.mul(i, np.int32(size))
    return dynamic_slice_in_dim(x, start, size, axis=-1, allow_negative_indices=False)


def with_column_block(x: Any, update: Any, i: Any) -> Any:
    """`x` with block `i` of the columns replaced: a choice for every element."""
    *batch, m, n = shape_of(x)
    size = shape_of(update)[-1]
    blocks = ops.reshape(x, (*batch, m, n // size, size))
    found = with_part(blocks, ops.reshape(update, (*batch, m, 1, size)), i, -2)
    return ops.reshape(found, (*batch, m, n))


# ---- blocks of rows


def row_window(x: Any, start: Any, size: int) -> Any:
    """`size` rows from the row `start`."""
    return dynamic_slice_in_dim(x, start, size, axis=-2, allow_negative_indices=False)


def row_block(x: Any, i: Any, size: int) -> Any:
    """Block `i` of the rows, of `size` each."""
    return row_window(x, ops.mul(i, np.int32(size)), size)


def with_row_block(x: Any, update: Any, i: Any) -> Any:
    """`x` with block `i` of the rows replaced: a choice for every element."""
    *batch, m, n = shape_of(x)
    size = shape_of(update)[-2]
    blocks = ops.reshape(x, (*batch, m // size, size, n))
    found = with_part(blocks, ops.reshape(update, (*batch, 1, size, n)), i, -3)
    return ops.reshape(found, (*batch, m, n))


def with_identity(x: Any, size: int) -> Any:
    """`x` in the first rows and columns of identity matrices."""
    n = shape_of(x)[-1]
    if n == size:
        return x
    wide = padded(x, size, size)
    rest = np.diag(np.arange(size) >= n).astype(get_aval(x).dtype)
    return ops.add(wide, broadcast_to(rest, shape_of(wide)))
