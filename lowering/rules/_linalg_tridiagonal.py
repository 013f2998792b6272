"""Tridiagonal equations by elimination row by row, without a host, as in LAPACK's gtsv."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core.dtypes import is_complex
from xpr.core.trace import get_aval
from xpr.lowering.numerics import linalg_parts as parts
from xpr.primitives import _ops as ops
from xpr.primitives import elementwise as el
from xpr.primitives.rules import broadcast_to, full_like, shape_of


def _size(x: Any) -> Any:
    """|re| + |im|, as in BLAS."""
    if is_complex(get_aval(x).dtype):
        return ops.add(ops.bind("abs", el.real(x)), ops.bind("abs", el.imag(x)))
    return ops.bind("abs", x)


def _eliminated(rows: Any) -> Any:
    """The rows of U, each with its three elements and then its right sides.

    Row i of `rows` holds dl[i], d[i], du[i] and the right sides. Neighbouring rows are exchanged
    where the lower one has the greater element.
    """
    n = shape_of(rows)[-2]

    def body(i: Any, rows: Any, row: Any, upper: Any) -> list[Any]:
        below = parts.row(rows, ops.add(i, np.int32(1)))
        first, second = parts.columns(row, 0, 1), parts.columns(below, 0, 1)
        swap = broadcast_to(ops.gt(_size(second), _size(first)), shape_of(row))
        pivot, other = ops.select(swap, below, row), ops.select(swap, row, below)
        lead = parts.columns(pivot, 0, 1)
        zero = ops.eq(lead, full_like(lead, 0))
        lead = ops.select(zero, full_like(lead, 1), lead)
        factor = ops.div(parts.columns(other, 0, 1), lead)
        factor = ops.select(zero, full_like(factor, 0), factor)
        rest = ops.sub(other, ops.mul(pivot, broadcast_to(factor, shape_of(pivot))))
        return [_shifted(rest), parts.with_row(upper, pivot, i)]

    first = _shifted(parts.rows(rows, 0, 1))
    row, upper = parts.repeated(n - 1, body, [rows], [first, full_like(rows, 0)])
    return parts.with_row(upper, row, np.int32(n - 1))


def _shifted(row: Any) -> Any:
    """The row without its first element, which is eliminated, and with a zero as the third."""
    width = shape_of(row)[-1]
    shifted = parts.joined(
        [parts.columns(row, 1, 3), parts.columns(row, 0, 1), parts.columns(row, 3, width)], -1
    )
    place = parts.places(shape_of(row), -1)
    return parts.where(ops.bind("ne", place, broadcast_to(np.int32(2), shape_of(row))), shifted)


def _away_from_zero(pivots: Any, upper: Any) -> Any:
    """Pivots below the rounding error of the greatest element of U, moved there."""
    info = np.finfo(parts.real_type(pivots))
    most = parts.greatest(_size(parts.columns(upper, 0, 3)), (-2, -1))
    least = ops.mul(most, full_like(most, float(info.eps)))
    least = ops.bind("max", least, full_like(least, float(info.tiny)))
    least = broadcast_to(least, shape_of(pivots))
    lead = parts.real(pivots)
    moved = ops.select(ops.lt(lead, full_like(lead, 0)), ops.neg(least), least)
    near = ops.lt(_size(pivots), least)
    return ops.select(near, parts.broadcast_like(moved, pivots), pivots)


def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool) -> Any:
    """X with A X = B; singular systems give NaN, or with `perturb_singular` great numbers."""
    *batch, n, width = shape_of(b)
    diagonals = [ops.reshape(x, (*batch, n, 1)) for x in (dl, d, du)]
    last = ops.eq(parts.places((*batch, n, 1), -2), broadcast_to(np.int32(n - 1), (*batch, n, 1)))
    diagonals[2] = ops.select(last, full_like(diagonals[2], 0), diagonals[2])
    upper = parts.materialized(_eliminated(parts.joined([*diagonals, b], -1)))
    pivots = parts.columns(upper, 0, 1)
    zeros = ops.eq(pivots, full_like(pivots, 0))
    if perturb_singular:
        pivots = parts.materialized(_away_from_zero(pivots, upper))

    def body(i: Any, upper: Any, pivots: Any, one: Any, two: Any, x: Any) -> list[Any]:
        j = ops.sub(np.int32(n - 1), i)
        row = parts.row(upper, j)
        rest = parts.columns(row, 3, 3 + width)
        rest = ops.sub(rest, parts.times(one, parts.columns(row, 1, 2)))
        rest = ops.sub(rest, parts.times(two, parts.columns(row, 2, 3)))
        found = parts.over(rest, parts.row(pivots, j))
        return [found, one, parts.with_row(x, found, j)]

    none = full_like(parts.rows(b, 0, 1), 0)
    *_, x = parts.repeated(n, body, [upper, pivots], [none, none, full_like(b, 0)])
    if perturb_singular:
        return x
    count = parts.total(ops.convert(zeros, parts.INT32), (-2, -1))
    return parts.nan_unless(ops.eq(count, full_like(count, 0)), x)
