"""Cholesky factors and triangular equations in blocks, for targets that cannot call the host.

Functions of tracers, on stacks of matrices. Golub and Van Loan, "Matrix Computations", 4th edition:
Cholesky in blocks (4.2), substitution (3.1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.lowering.numerics import linalg_parts as parts
from xpr.primitives import _ops as ops
from xpr.primitives._linalg_rules import (
    adjoint,
    conjugate,
    diagonal_of,
    matmul,
    swapped,
    triangle,
)
from xpr.primitives.rules import broadcast_to, full_like, shape_of
from xpr.primitives.shape import rev

# ---- Cholesky


def _panel(x: Any, offset: Any) -> Any:
    """Columns of L from columns that earlier ones have been subtracted from.

    Row `offset` holds the first diagonal element; rows above the diagonal become zeros.
    """
    shape = shape_of(x)
    width = shape[-1]

    def body(j: Any, offset: Any, x: Any) -> list[Any]:
        i = ops.add(offset, j)
        old = parts.column(x, j)
        pivot = parts.sqrt(parts.real(parts.row(old, i)))
        zero = ops.eq(pivot, full_like(pivot, 0))
        pivot = ops.select(zero, full_like(pivot, np.nan), pivot)
        column = parts.over(parts.from_row(old, i, strict=True), pivot)
        here = ops.eq(parts.places(shape_of(old), -2), broadcast_to(i, shape_of(old)))
        column = ops.select(here, parts.broadcast_like(pivot, column), column)
        wide = broadcast_to(column, shape)
        across = adjoint(parts.row_window(column, offset, width))
        number = parts.places(shape, -1)
        after = ops.sub(x, ops.mul(wide, broadcast_to(across, shape)))
        updated = ops.select(ops.gt(number, broadcast_to(j, shape)), after, x)
        return [ops.select(ops.eq(number, broadcast_to(j, shape)), wide, updated)]

    (x,) = parts.repeated(width, body, [offset], [x])
    return x


def cholesky(x: Any) -> Any:
    """The lower factors, NaN where there is none; the lower triangle of `x` is read."""
    n = shape_of(x)[-1]
    block = parts.block_size(n)
    count = -(-n // block)
    factor = parts.with_identity(triangle(x, lower=True), count * block)
    if count == 1:
        factor = _panel(factor, np.int32(0))
    else:

        def body(i: Any, x: Any) -> list[Any]:
            offset = ops.mul(i, np.int32(block))
            panel = _panel(parts.column_block(x, i, block), offset)
            change = parts.product(panel, adjoint(panel))
            column = parts.places(shape_of(x), -1)
            end = broadcast_to(ops.add(offset, np.int32(block)), shape_of(x))
            x = ops.select(ops.bind("ge", column, end), ops.sub(x, change), x)
            return [parts.with_column_block(x, panel, i)]

        (factor,) = parts.repeated(count, body, [], [factor])
    factor = parts.materialized(parts.columns(parts.rows(factor, 0, n), 0, n))
    # One NaN on the diagonal says that there is no factor.
    diagonal = parts.real(diagonal_of(factor))
    total = ops.reduce_sum(diagonal, (len(shape_of(diagonal)) - 1,))
    rank = len(shape_of(x))
    failed = ops.broadcast_in_dim(ops.bind("ne", total, total), shape_of(x), tuple(range(rank - 2)))
    return triangle(ops.select(failed, full_like(factor, np.nan), factor), lower=True)


# ---- triangular equations


def triangular_solve(
    a: Any,
    b: Any,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> Any:
    """The solution, by turning the equation into one with a lower matrix on the left."""
    rank = len(shape_of(a))
    m = conjugate(a) if conjugate_a else a
    transposed = transpose_a == left_side
    m = swapped(m) if transposed else m
    b = b if left_side else swapped(b)
    if lower == transposed:
        m, b = rev(m, (rank - 2, rank - 1)), rev(b, (rank - 2,))
    m = triangle(m, lower=True, strict=unit_diagonal)
    if unit_diagonal:
        m = ops.add(m, parts.identity(m, shape_of(m)[-1]))
    n = shape_of(m)[-1]
    x = _substituted(m, b) if parts.block_size(n) == n else _in_blocks(m, b)
    x = rev(x, (rank - 2,)) if lower == transposed else x
    return x if left_side else swapped(x)


def _substituted(m: Any, b: Any) -> Any:
    """X with M X = B for lower triangular M, row by row."""

    def body(i: Any, m: Any, below: Any, b: Any, x: Any) -> list[Any]:
        row = ops.sub(parts.row(b, i), matmul(parts.row(below, i), x))
        row = ops.div(row, broadcast_to(parts.column(parts.row(m, i), i), shape_of(row)))
        return [parts.with_row(x, row, i)]

    below = triangle(m, lower=True, strict=True)
    (x,) = parts.repeated(shape_of(m)[-1], body, [m, below, b], [full_like(b, 0)])
    return x


def _in_blocks(m: Any, b: Any) -> Any:
    """The same, block by block, with the inverses of all blocks on the diagonal.

    A step of refinement in each block makes up for what a product with an inverse loses.
    """
    n, width = shape_of(b)[-2:]
    block = parts.block_size(n)
    count = -(-n // block)
    m, b = parts.with_identity(m, count * block), parts.padded(b, count * block, width)
    diagonal = parts.materialized(_diagonal_blocks(m, block))
    inverses = parts.materialized(_substituted(diagonal, parts.identity(diagonal, block)))

    def body(i: Any, m: Any, diagonal: Any, inverses: Any, b: Any, x: Any) -> list[Any]:
        own, inverse = (
            ops.reshape(parts.part(y, i, -3), (*shape_of(m)[:-2], block, block))
            for y in (diagonal, inverses)
        )
        right = ops.sub(parts.row_block(b, i, block), matmul(parts.row_block(m, i, block), x))
        right = parts.materialized(right)
        found = parts.product(inverse, right)
        found = ops.add(found, parts.product(inverse, ops.sub(right, parts.product(own, found))))
        return [parts.with_row_block(x, found, i)]

    (x,) = parts.repeated(count, body, [m, diagonal, inverses, b], [full_like(b, 0)])
    return parts.rows(x, 0, n)


def _diagonal_blocks(m: Any, block: int) -> Any:
    """The square blocks on the diagonals of matrices, [..., count, block, block]."""
    *batch, n, _ = shape_of(m)
    count = n // block
    blocks = ops.reshape(m, (*batch, count, block, count, block))
    shape = shape_of(blocks)
    kept = ops.eq(parts.places(shape, -4), parts.places(shape, -2))
    return ops.reduce_sum(parts.where(kept, blocks), (len(shape) - 2,))
