"""LU factors with partial pivoting, in blocks of columns, without a host.

Golub and Van Loan, "Matrix Computations", 4th edition, 3.4: a block of columns is factored column
by column, and the columns after it are updated by one product. Rows are not exchanged on the way:
`place`, integers [..., m, 1], holds the place at which each row will stand, and one gather at the
end puts them there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr.core.dtypes import is_complex
from xpr.core.trace import get_aval
from xpr.lowering.numerics import linalg_parts as parts
from xpr.primitives import _ops as ops
from xpr.primitives import elementwise as el
from xpr.primitives._linalg_rules import swapped
from xpr.primitives.gather import index_take
from xpr.primitives.rules import broadcast_to, full_like, shape_of
from xpr.primitives.slicing import slice_in_dim


def _magnitude(x: Any) -> Any:
    """What pivots are chosen by: as in BLAS, |re| + |im|."""
    if is_complex(get_aval(x).dtype):
        return ops.add(ops.bind("abs", el.real(x)), ops.bind("abs", el.imag(x)))
    return ops.bind("abs", x)


def _pivot_place(column: Any, place: Any, i: Any) -> Any:
    """The place of the greatest element among rows whose place is `i` or more, [..., 1, 1].

    The first of equal ones; `i` where there is a NaN.
    """
    open_rows = ops.bind("ge", place, _spread(i, place))
    size = _magnitude(column)
    size = ops.select(open_rows, size, full_like(size, -1))
    most = broadcast_to(parts.greatest(size, (-2,)), shape_of(size))
    wanted = ops.bind("and", open_rows, ops.eq(size, most))
    none = np.iinfo(np.int32).max
    found = ops.select(wanted, place, full_like(place, none))
    found = ops.neg(parts.greatest(ops.neg(found), (-2,)))
    return ops.select(ops.eq(found, full_like(found, none)), _spread(i, found), found)


def _spread(i: Any, like: Any) -> Any:
    """The index `i` for every element of `like`."""
    return broadcast_to(i, shape_of(like))


def _panel(x: Any, place: Any, offset: Any) -> list[Any]:
    """The factored columns `x`, the places of rows, and the pivots [..., 1, b] of these columns."""
    *batch, _, width = shape_of(x)

    def body(j: Any, offset: Any, x: Any, place: Any, pivots: Any) -> list[Any]:
        i = ops.add(offset, j)
        column = parts.column(x, j)
        pivot_place = _pivot_place(column, place, i)
        here = broadcast_to(pivot_place, shape_of(place))
        index = _spread(i, place)
        chosen = ops.eq(place, here)
        pivot_row = parts.total(parts.where(broadcast_to(chosen, shape_of(x)), x), (-2,))
        place = ops.select(chosen, index, ops.select(ops.eq(place, index), here, place))
        below = ops.gt(place, index)
        pivot = parts.column(pivot_row, j)
        pivot = ops.select(ops.eq(pivot, full_like(pivot, 0)), full_like(pivot, 1), pivot)
        factors = ops.select(below, parts.over(column, pivot), column)
        wide = broadcast_to(factors, shape_of(x))
        updated = ops.sub(x, ops.mul(wide, broadcast_to(pivot_row, shape_of(x))))
        number = parts.places(shape_of(x), -1)
        here = _spread(j, number)
        after = ops.bind("and", ops.gt(number, here), broadcast_to(below, shape_of(x)))
        x = ops.select(ops.eq(number, here), wide, ops.select(after, updated, x))
        return [x, place, parts.with_column(pivots, pivot_place, j)]

    pivots = broadcast_to(np.int32(0), (*batch, 1, width))
    return parts.repeated(width, body, [offset], [x, place, pivots])


def _substituted(factor: Any, b: Any) -> Any:
    """X with L X = B for the unit lower triangle L of `factor`."""

    def body(j: Any, factor: Any, x: Any) -> list[Any]:
        scales = parts.from_row(parts.column(factor, j), j, strict=True)
        row = broadcast_to(parts.row(x, j), shape_of(x))
        return [ops.sub(x, ops.mul(broadcast_to(scales, shape_of(x)), row))]

    (x,) = parts.repeated(shape_of(factor)[-1], body, [factor], [b])
    return x


def _eliminated(x: Any, panel: Any, place: Any, offset: Any) -> Any:
    """The matrices after a factored panel at the column `offset`, updated right of it."""
    *batch, m, _ = shape_of(x)
    width = shape_of(panel)[-1]
    end = ops.add(offset, np.int32(width))
    shape = (*batch, m, width)
    number = ops.add(parts.places(shape, -1), broadcast_to(offset, shape))
    here = ops.eq(broadcast_to(place, shape), number)
    # The rows that were chosen, in order: products with ones and zeros.
    pick = ops.convert(here, get_aval(x).dtype)
    rows = parts.product(swapped(pick), parts.joined([panel, x], -1))
    factor, old = parts.columns(rows, 0, width), parts.columns(rows, width, shape_of(rows)[-1])
    new = _substituted(parts.materialized(factor), parts.materialized(old))
    rest = ops.bind("ge", place, _spread(end, place))
    done = ops.lt(place, _spread(offset, place))
    scales = ops.select(broadcast_to(rest, shape), ops.neg(panel), pick)
    scales = ops.select(broadcast_to(done, shape), full_like(scales, 0), scales)
    change = parts.product(scales, new)
    kept = ops.bind("or", rest, done)
    updated = ops.add(parts.where(broadcast_to(kept, shape_of(x)), x), change)
    column = parts.places(shape_of(x), -1)
    return ops.select(ops.bind("ge", column, _spread(end, column)), updated, x)


def lu(x: Any) -> list[Any]:
    """L and U in one matrix, the exchanges of rows, and the permutation that they make."""
    *batch, m, n = shape_of(x)
    k = min(m, n)
    block = parts.block_size(k)
    count = -(-k // block)
    height, width = max(m, count * block), -(-n // block) * block
    x = parts.padded(x, height, width)
    place = parts.places((*batch, height, 1), -2)
    if count == 1 and width == block:
        x, place, pivots = _panel(x, place, np.int32(0))
    else:

        def body(i: Any, x: Any, place: Any, pivots: Any) -> list[Any]:
            offset = ops.mul(i, np.int32(block))
            panel = parts.column_block(x, i, block)
            panel, place, found = _panel(panel, place, offset)
            x = _eliminated(x, panel, place, offset)
            x = parts.with_column_block(x, panel, i)
            return [x, place, parts.with_column_block(pivots, found, i)]

        pivots = broadcast_to(np.int32(0), (*batch, 1, count * block))
        x, place, pivots = parts.repeated(count, body, [], [x, place, pivots])
    order = _inverse(parts.materialized(place))
    x = _rows_at(parts.materialized(x), parts.materialized(order))
    x = parts.columns(parts.rows(x, 0, m), 0, n)
    pivots = ops.reshape(parts.columns(pivots, 0, k), (*batch, k))
    return [x, pivots, slice_in_dim(order, 0, m, axis=-1)]


def _inverse(place: Any) -> Any:
    """For each place the row that stands there, [..., m]."""
    *batch, m, _ = shape_of(place)
    shape = (*batch, m, m)
    here = ops.eq(broadcast_to(place, shape), parts.places(shape, -1))
    numbers = parts.where(here, parts.places(shape, -2))
    return ops.reduce_sum(numbers, (len(shape) - 2,))


def _rows_at(x: Any, order: Any) -> Any:
    """The rows of matrices in another order."""
    *batch, m, n = shape_of(x)
    count = math.prod(batch)
    starts = ops.mul(parts.places((count, m), -2), np.int32(m))
    index = ops.reshape(ops.add(ops.reshape(order, (count, m)), starts), (count * m,))
    found = index_take(ops.reshape(x, (count * m, n)), [index], [0])
    return ops.reshape(found, shape_of(x))
