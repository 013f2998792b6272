"""The derivatives of factorisations that exchange rows or columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives._index_dims import GatherDimensionNumbers, GatherScatterMode
from xpr.primitives._linalg_rules import (
    columns,
    kept,
    matmul,
    qr_tangents,
    rows,
    solve,
    swapped,
    triangle,
)
from xpr.primitives.rules import const_like, expand_dims, full_like, shape_of, zero_tangent, zeros


def lu_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """d(L + U) = L tril(X, -1) + triu(X) U with X = L^-1 P dA U^-1.

    For dL = L (strictly lower) and dU = (upper) U add up to P dA. Where A is not square, L or U is
    completed by columns or rows of the identity, which leaves A as it is. The exchanges of rows
    are constant.
    """
    (dx,) = tangents
    factors, pivots, permutation = ops.bind("lu", *primals)
    out = [factors, pivots, permutation]
    fixed = [zero_tangent(pivots), zero_tangent(permutation)]
    if 0 in shape_of(factors):
        return out, [zeros(get_aval(factors)), *fixed]
    low, high = (
        _square(triangle(factors, lower=True, strict=True)),
        _square(factors, as_columns=True),
    )
    high = _with_unit_corner(triangle(high, lower=False), min(shape_of(factors)[-2:]))
    x = solve(low, reordered(dx, permutation), left_side=True, lower=True, unit=True)
    x = solve(high, x, left_side=False, lower=False)
    strict = triangle(x, lower=True, strict=True)
    d_low = ops.add(strict, matmul(low, strict))
    return out, [ops.add(d_low, matmul(triangle(x, lower=False), high)), *fixed]


def qr_pivoted_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, full_matrices: bool
) -> tuple[list[Any], list[Any]]:
    """The derivative of the factorisation of the columns in the order found, which is constant."""
    (dx,) = tangents
    q, r, order = ops.bind("qr_pivoted", *primals, full_matrices=full_matrices)
    if 0 not in shape_of(dx):
        dx = swapped(reordered(swapped(dx), order))
    return [q, r, order], [*qr_tangents(q, r, dx), zero_tangent(order)]


# ---- rows and columns


def _square(x: Any, *, as_columns: bool = False) -> Any:
    """Square matrices with as many rows as `x`, or columns: zeros are added, or some cut off."""
    *rest, m, n = shape_of(x)
    size = n if as_columns else m
    x = columns(rows(x, 0, min(m, size)), 0, min(n, size))
    config = (*((0, 0, 0) for _ in rest), (0, max(0, size - m), 0), (0, max(0, size - n), 0))
    return ops.bind("pad", x, const_like(x, 0), padding_config=config)


def _with_unit_corner(x: Any, start: int) -> Any:
    """`x` with ones on the diagonal from `start` on, where it is zero."""
    if start == shape_of(x)[-1]:
        return x

    def inside(row: Any, column: Any) -> Any:
        return ops.bind("and", ops.eq(row, column), ops.bind("ge", row, full_like(row, start)))

    return ops.add(x, kept(full_like(x, 1), inside))


def reordered(x: Any, order: Any) -> Any:
    """The rows of `x` in the order given for each matrix."""
    rank = len(shape_of(x))
    batch = tuple(range(rank - 2))
    return ops.bind(
        "gather",
        x,
        expand_dims(order, [rank - 1]),
        dimension_numbers=GatherDimensionNumbers(
            offset_dims=(rank - 1,),
            collapsed_slice_dims=(rank - 2,),
            start_index_map=(rank - 2,),
            operand_batching_dims=batch,
            start_indices_batching_dims=batch,
        ),
        slice_sizes=(*(1 for _ in batch), 1, shape_of(x)[-1]),
        indices_are_sorted=False,
        unique_indices=True,
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
        fill_value=None,
    )
