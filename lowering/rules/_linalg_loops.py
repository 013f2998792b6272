"""Factorisations as loops over columns, for targets that cannot call the host.

Functions of tracers, on stacks of matrices. Golub and Van Loan, "Matrix Computations", 4th edition:
Cholesky by columns (4.2), substitution (3.1), Householder QR (5.1, 5.2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core.dtypes import is_complex
from xpr.core.trace import get_aval, trace_to_jaxpr
from xpr.primitives import _ops as ops
from xpr.primitives import elementwise as el
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
from xpr.primitives.slicing import (
    dynamic_slice_in_dim,
    dynamic_update_slice_in_dim,
    slice_in_dim,
)
from xpr.primitives.while_loop import while_p

_INT32 = np.dtype(np.int32)


def _repeated(
    count: int, body: Callable[..., Sequence[Any]], fixed: Sequence[Any], start: Sequence[Any]
) -> list[Any]:
    """`values = body(i, *fixed, *values)` for each i below `count`."""

    def step(*args: Any) -> list[Any]:
        own, i, values = args[: len(fixed)], args[len(fixed)], args[len(fixed) + 1 :]
        return [ops.add(i, np.int32(1)), *body(i, *own, *values)]

    def below(i: Any, *_: Any) -> list[Any]:
        return [ops.lt(i, np.int32(count))]

    carried = [np.int32(0), *start]
    avals = [get_aval(x) for x in carried]
    out = while_p.bind(
        *fixed,
        *carried,
        cond_jaxpr=trace_to_jaxpr(below, avals),
        body_jaxpr=trace_to_jaxpr(step, [*(get_aval(x) for x in fixed), *avals]),
        cond_nconsts=0,
        body_nconsts=len(fixed),
    )
    return list(out[1:])


def _column(x: Any, i: Any) -> Any:
    return dynamic_slice_in_dim(x, i, 1, axis=-1, allow_negative_indices=False)


def _row(x: Any, i: Any) -> Any:
    return dynamic_slice_in_dim(x, i, 1, axis=-2, allow_negative_indices=False)


def _with_column(x: Any, column: Any, i: Any) -> Any:
    return dynamic_update_slice_in_dim(x, column, i, -1, allow_negative_indices=False)


def _with_row(x: Any, row: Any, i: Any) -> Any:
    return dynamic_update_slice_in_dim(x, row, i, -2, allow_negative_indices=False)


def _from_row(x: Any, i: Any, *, strict: bool = False) -> Any:
    """The columns `x` with zeros above row `i`, and in it when `strict`."""
    shape = shape_of(x)
    row = ops.bind("iota", dtype=_INT32, shape=shape, dimension=len(shape) - 2, sharding=None)
    kept = ops.bind("gt" if strict else "ge", row, broadcast_to(i, shape))
    return ops.select(kept, x, full_like(x, 0))


def _real(x: Any) -> Any:
    return el.real(x) if is_complex(get_aval(x).dtype) else x


def cholesky(x: Any) -> Any:
    """Each column of L from the columns before it."""

    def body(j: Any, x: Any, factor: Any) -> list[Any]:
        column = ops.sub(_column(x, j), matmul(factor, adjoint(_row(factor, j))))
        pivot = ops.bind("sqrt", _real(_row(column, j)))
        zero = ops.eq(pivot, full_like(pivot, 0))
        pivot = ops.select(zero, full_like(pivot, np.nan), pivot)
        pivot = ops.convert(pivot, get_aval(x).dtype)
        below = _from_row(column, j, strict=True)
        whole = ops.div(
            _with_row(below, ops.mul(pivot, pivot), j), broadcast_to(pivot, shape_of(below))
        )
        return [_with_column(factor, whole, j)]

    x = triangle(x, lower=True)
    (factor,) = _repeated(shape_of(x)[-1], body, [x], [full_like(x, 0)])
    # One NaN on the diagonal says that there is no factor.
    diagonal = _real(diagonal_of(factor))
    total = ops.reduce_sum(diagonal, (len(shape_of(diagonal)) - 1,))
    rank = len(shape_of(x))
    failed = ops.broadcast_in_dim(ops.bind("ne", total, total), shape_of(x), tuple(range(rank - 2)))
    return triangle(ops.select(failed, full_like(factor, np.nan), factor), lower=True)


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
    """Substitution, row by row, in an equation with a lower matrix on the left."""
    rank = len(shape_of(a))
    m = conjugate(a) if conjugate_a else a
    turned = transpose_a == left_side
    m = swapped(m) if turned else m
    b = b if left_side else swapped(b)
    if lower == turned:
        m, b = rev(m, (rank - 2, rank - 1)), rev(b, (rank - 2,))

    def body(i: Any, m: Any, below: Any, b: Any, x: Any) -> list[Any]:
        row = ops.sub(_row(b, i), matmul(_row(below, i), x))
        if not unit_diagonal:
            row = ops.div(row, broadcast_to(_column(_row(m, i), i), shape_of(row)))
        return [_with_row(x, row, i)]

    below = triangle(m, lower=True, strict=True)
    (x,) = _repeated(shape_of(m)[-1], body, [m, below, b], [full_like(b, 0)])
    x = rev(x, (rank - 2,)) if lower == turned else x
    return x if left_side else swapped(x)


def qr(x: Any, *, full_matrices: bool) -> list[Any]:
    """Reflections I - tau v v^H that make the columns of R, multiplied from the last to the first.

    tau and the sign are those of LAPACK's larfg: R has a real diagonal of the sign opposite to the
    column's leading element.
    """
    *batch, m, n = shape_of(x)
    k = min(m, n)
    dtype = get_aval(x).dtype
    last = (len(batch), len(batch) + 1)

    def squared(v: Any) -> Any:
        parts = (el.real(v), el.imag(v)) if is_complex(dtype) else (v,)
        squares = [ops.mul(p, p) for p in parts]
        both = squares[0] if len(squares) == 1 else ops.add(*squares)
        total = ops.reduce_sum(both, last)
        return ops.reshape(total, (*batch, 1, 1))

    def reflect(j: Any, r: Any, vectors: Any, taus: Any) -> list[Any]:
        column = _column(r, j)
        first, tail = _row(column, j), _from_row(column, j, strict=True)
        rest = squared(tail)
        lead = _real(first)
        norm = ops.bind("sqrt", ops.add(squared(first), rest))
        beta = ops.select(ops.bind("ge", lead, full_like(lead, 0)), ops.neg(norm), norm)
        done = ops.eq(rest, full_like(rest, 0))
        if is_complex(dtype):
            imaginary = el.imag(first)
            done = ops.bind("and", done, ops.eq(imaginary, full_like(imaginary, 0)))
        one = full_like(first, 1)
        beta = ops.convert(beta, dtype)
        safe = ops.select(done, one, beta)
        tau = ops.select(done, full_like(first, 0), ops.div(ops.sub(beta, first), safe))
        scale = ops.select(done, one, ops.sub(first, beta))
        vector = ops.div(tail, broadcast_to(scale, shape_of(tail)))
        vector = _with_row(vector, one, j)
        change = matmul(matmul(vector, conjugate(tau)), matmul(adjoint(vector), r))
        return [ops.sub(r, change), _with_column(vectors, vector, j), _with_column(taus, tau, j)]

    vectors = slice_in_dim(full_like(x, 0), 0, k, axis=-1)
    taus = slice_in_dim(vectors, 0, 1, axis=-2)
    r, vectors, taus = _repeated(k, reflect, [], [x, vectors, taus])

    def accumulate(i: Any, vectors: Any, taus: Any, q: Any) -> list[Any]:
        j = ops.sub(np.int32(k - 1), i)
        vector = _column(vectors, j)
        change = matmul(matmul(vector, _column(taus, j)), matmul(adjoint(vector), q))
        return [ops.sub(q, change)]

    width = m if full_matrices else k
    identity = broadcast_to(np.eye(m, width, dtype=dtype), (*batch, m, width))
    (q,) = _repeated(k, accumulate, [vectors, taus], [identity])
    return [q, triangle(slice_in_dim(r, 0, width, axis=-2), lower=False)]
