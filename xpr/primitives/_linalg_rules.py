"""Derivative and batching rules of the factorisations of matrices.

Derivatives of results that are fixed only up to signs or phases keep those of the result itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core.dtypes import is_complex
from xpr.core.primitive import Rule
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives import elementwise as el
from xpr.primitives._precision import Precision
from xpr.primitives.dot_general import batch_matmul
from xpr.primitives.rules import (
    BatchAxis,
    Dim,
    Zero,
    at_front,
    const_like,
    full_like,
    is_linear,
    move_axis,
    shape_of,
    zeros,
)

_INT32 = np.dtype(np.int32)

# ---- matrices


def matmul(x: Any, y: Any) -> Any:
    """Products of stacks of matrices of one rank."""
    return batch_matmul(x, y, Precision.HIGHEST)


def swapped(x: Any) -> Any:
    """The transposes of matrices."""
    rank = len(shape_of(x))
    return ops.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def conjugate(x: Any) -> Any:
    """The conjugates of complex elements, others as they are."""
    return el.conj(x) if is_complex(get_aval(x).dtype) else x


def adjoint(x: Any) -> Any:
    """The conjugate transposes of matrices."""
    return conjugate(swapped(x))


def _places(x: Any) -> tuple[Any, Any]:
    """The row and the column of each element."""
    shape = shape_of(x)
    row, column = (
        ops.bind("iota", dtype=_INT32, shape=shape, dimension=len(shape) - i, sharding=None)
        for i in (2, 1)
    )
    return row, column


def kept(x: Any, test: Callable[[Any, Any], Any]) -> Any:
    """`x` where `test(row, column)` holds, zeros elsewhere."""
    return ops.select(test(*_places(x)), x, full_like(x, 0))


def triangle(x: Any, *, lower: bool, strict: bool = False) -> Any:
    """A triangle of matrices, with their diagonals unless it is `strict`."""
    name = ("gt" if strict else "ge") if lower else ("lt" if strict else "le")
    return kept(x, lambda row, column: ops.bind(name, row, column))


def on_diagonal(x: Any) -> Any:
    """The matrices with zeros off the diagonal."""
    return kept(x, ops.eq)


def diagonal_of(x: Any) -> Any:
    """The diagonals of square matrices, as vectors."""
    return ops.reduce_sum(on_diagonal(x), (len(shape_of(x)) - 1,))


def along_columns(v: Any, shape: tuple[int, ...]) -> Any:
    """Matrices whose column j is filled with element j of the vectors `v`."""
    rank = len(shape)
    return ops.broadcast_in_dim(v, shape, (*range(rank - 2), rank - 1))


def along_rows(v: Any, shape: tuple[int, ...]) -> Any:
    """Matrices whose row i is filled with element i of the vectors `v`."""
    return ops.broadcast_in_dim(v, shape, tuple(range(len(shape) - 1)))


def columns(x: Any, start: int, stop: int) -> Any:
    """The columns of matrices from `start` to before `stop`."""
    return _part(x, len(shape_of(x)) - 1, start, stop)


def rows(x: Any, start: int, stop: int) -> Any:
    """The rows of matrices from `start` to before `stop`."""
    return _part(x, len(shape_of(x)) - 2, start, stop)


def _part(x: Any, axis: int, start: int, stop: int) -> Any:
    shape = shape_of(x)
    if (start, stop) == (0, shape[axis]):
        return x
    return ops.bind(
        "slice",
        x,
        start_indices=tuple(start if i == axis else 0 for i in range(len(shape))),
        limit_indices=tuple(stop if i == axis else n for i, n in enumerate(shape)),
        strides=None,
    )


def reciprocal_off_diagonal(x: Any) -> Any:
    """1 / x, and zeros on the diagonal."""
    on = ops.eq(*_places(x))
    one = full_like(x, 1)
    return ops.select(on, full_like(x, 0), ops.div(one, ops.select(on, one, x)))


def solve(
    a: Any, b: Any, *, left_side: bool, lower: bool, adjoint: bool = False, unit: bool = False
) -> Any:
    """X with A X = B, or X A = B, for triangular A or its adjoint; `unit`: of unit diagonal."""
    return ops.bind(
        "triangular_solve",
        a,
        b,
        left_side=left_side,
        lower=lower,
        transpose_a=adjoint,
        conjugate_a=adjoint and is_complex(get_aval(a).dtype),
        unit_diagonal=unit,
    )


# ---- Cholesky


def cholesky_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """dL = L phi(L^-1 dA L^-H), phi the lower triangle with half the diagonal.

    I. Murray, "Differentiation of the Cholesky decomposition", 2016.
    """
    factor = ops.bind("cholesky", *primals)
    inner = solve(factor, tangents[0], left_side=False, lower=True, adjoint=True)
    inner = solve(factor, inner, left_side=True, lower=True)
    halves = ops.mul(inner, full_like(inner, 0.5))
    row, column = _places(inner)
    phi = ops.select(ops.eq(row, column), halves, triangle(inner, lower=True))
    return factor, matmul(factor, phi)


# ---- triangular equations


def triangular_solve_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], **params: Any
) -> tuple[Any, Any]:
    """dX = op(A)^-1 (dB - op(dA) X), or from the other side."""
    (a, b), (da, db) = primals, tangents
    x = ops.bind("triangular_solve", a, b, **params)
    right = None if type(db) is Zero else db
    if type(da) is not Zero:
        da = triangle(da, lower=params["lower"], strict=params["unit_diagonal"])
        da = swapped(da) if params["transpose_a"] else da
        da = conjugate(da) if params["conjugate_a"] else da
        product = matmul(da, x) if params["left_side"] else matmul(x, da)
        right = ops.neg(product) if right is None else ops.sub(right, product)
    return x, ops.bind("triangular_solve", a, right, **params)


def triangular_solve_transpose(
    ct: Any, a: Any, b: Any, *, transpose_a: bool, **params: Any
) -> list[Any]:
    """The equation with the transposed matrix."""
    assert is_linear(b)
    assert not is_linear(a)
    return [None, ops.bind("triangular_solve", a, ct, transpose_a=not transpose_a, **params)]


def triangular_solve_batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], **params: Any
) -> tuple[Any, Dim]:
    """Right sides of one matrix become columns (rows) of one right side."""
    (a, b), (a_dim, b_dim) = args, dims
    if a_dim is None and len(shape_of(a)) == 2:
        assert b_dim is not None
        left = params["left_side"]
        place = 1 if left else 0
        b = move_axis(b, b_dim, place)
        shape = shape_of(b)
        flat = (shape[0], shape[1] * shape[2]) if left else (shape[0] * shape[1], shape[2])
        found = ops.bind("triangular_solve", a, ops.reshape(b, flat), **params)
        return ops.reshape(found, shape), place
    a, b = at_front(axis, a, a_dim), at_front(axis, b, b_dim)
    return ops.bind("triangular_solve", a, b, **params), 0


def front_batch(name: str, results: int) -> Rule:
    """The rule of an operation on stacks of matrices, of `results` results (0: not a list)."""

    def batch(axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], **params: Any) -> Any:
        moved = (at_front(axis, x, dim) for x, dim in zip(args, dims, strict=True))
        out = ops.bind(name, *moved, **params)
        return (out, [0] * len(out)) if results else (out, 0)

    return batch


# ---- QR


def qr_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, full_matrices: bool
) -> tuple[list[Any], list[Any]]:
    """See `qr_tangents`."""
    (x,), (dx,) = primals, tangents
    q, r = ops.bind("qr", x, full_matrices=full_matrices)
    return [q, r], qr_tangents(q, r, dx)


def qr_tangents(q: Any, r: Any, dx: Any) -> list[Any]:
    """dQ and dR from C = dA R^-1 (of the first columns, where A is wide).

    Q^H dQ is skew-Hermitian, and dR R^-1 is upper triangular with a real diagonal: together they
    are Q^H C. S. Walter, L. Lehmann, "Algorithmic differentiation of linear algebra functions with
    application in optimum experimental design", 2010. See `_completed` for a full Q.
    """
    m, n = shape_of(dx)[-2:]
    k, width = min(m, n), shape_of(q)[-1]
    if k == 0:
        return [zeros(get_aval(q)), zeros(get_aval(r))]
    corner = columns(rows(r, 0, k), 0, k)
    c = solve(corner, columns(dx, 0, k), left_side=False, lower=False)
    inner = matmul(adjoint(q), c)
    square = _padded_columns(inner, width)
    low = triangle(square, lower=True, strict=True)
    turn = ops.sub(low, adjoint(low))
    if is_complex(get_aval(dx).dtype):
        diagonal = on_diagonal(square)
        half = full_like(diagonal, 0.5)
        turn = ops.add(turn, ops.mul(half, ops.sub(diagonal, el.conj(diagonal))))
    dq = matmul(q, turn)
    if width < m:
        dq = ops.add(dq, ops.sub(c, matmul(q, inner)))
    dr = ops.sub(matmul(adjoint(q), dx), matmul(turn, r))
    if width > k:
        dq = _completed(q, dq, k)
    return [dq, triangle(dr, lower=False)]


def _completed(q: Any, dq: Any, k: int) -> Any:
    """`dq` with the differential of the columns after `k`, which the first ones determine.

    For Q = I - V T V^H (R. Schreiber, C. Van Loan, "A storage-efficient WY representation for
    products of Householder transformations", 1989) in blocks of k and the rest of the rows and
    columns, I - Q11 = V1 T V1^H and Q21 = -V2 T V1^H give Q12 = (I - Q11) K and Q22 = I - Q21 K
    with K = (I - Q11)^-H Q21^H. Where a reflection is none (tau = 0) there is no inverse: NaN.
    """
    first, d_first = columns(q, 0, k), columns(dq, 0, k)
    top, low = rows(first, 0, k), rows(first, k, shape_of(q)[-2])
    d_top, d_low = rows(d_first, 0, k), rows(d_first, k, shape_of(q)[-2])
    rest = ops.sub(on_diagonal(full_like(top, 1)), top)
    # (I - Q11)^H = P S, with unitary P and triangular S.
    p, s = ops.bind("qr", adjoint(rest), full_matrices=False)

    def solved(x: Any) -> Any:
        return solve(s, matmul(adjoint(p), x), left_side=True, lower=False)

    kernel = solved(adjoint(low))
    d_kernel = solved(ops.add(adjoint(d_low), matmul(adjoint(d_top), kernel)))
    d_upper = ops.sub(matmul(rest, d_kernel), matmul(d_top, kernel))
    d_lower = ops.neg(ops.add(matmul(d_low, kernel), matmul(low, d_kernel)))
    rank = len(shape_of(q))
    last = ops.bind("concatenate", d_upper, d_lower, dimension=rank - 2)
    return ops.bind("concatenate", d_first, last, dimension=rank - 1)


def _padded_columns(x: Any, width: int) -> Any:
    """`x` with columns of zeros up to `width`."""
    *rest, columns = shape_of(x)
    if columns == width:
        return x
    config = (*((0, 0, 0) for _ in rest), (0, width - columns, 0))
    return ops.bind("pad", x, const_like(x, 0), padding_config=config)


# ---- eigenvalues and singular values


def eigh_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, lower: bool
) -> tuple[list[Any], list[Any]]:
    """First-order perturbation: dw = diag(V^H dA V), dV = V (F * V^H dA V), F = 1/(w_j - w_i).

    Equal eigenvalues give infinities and NaN in dV.
    """
    v, w = ops.bind("eigh", *primals, lower=lower)
    shape = shape_of(v)
    inner = matmul(matmul(adjoint(v), tangents[0]), v)
    gaps = ops.sub(along_columns(w, shape), along_rows(w, shape))
    weights = ops.convert(reciprocal_off_diagonal(gaps), get_aval(v).dtype)
    return [v, w], [matmul(v, ops.mul(weights, inner)), _real(diagonal_of(inner))]


def _real(x: Any) -> Any:
    return el.real(x) if is_complex(get_aval(x).dtype) else x


def svd_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, full_matrices: bool, compute_uv: bool
) -> tuple[list[Any], list[Any]]:
    """The differentials of U, s and V^H from U^H dA V.

    J. Townsend, "Differentiating the singular value decomposition", 2016; the diagonal of U^H dU,
    imaginary for complex matrices, is Wan and Zhang's, "Automatic differentiation for complex
    valued SVD", 2019. Equal singular values, and zeros, give infinities and NaN in dU and dV.
    """
    (x,), (dx,) = primals, tangents
    m, n = shape_of(x)[-2:]
    if compute_uv and full_matrices and m != n:
        raise NotImplementedError(
            "svd has no derivative with full_matrices=True for matrices that are not square: the "
            "columns that complete U or V are not determined"
        )
    s, u, vh = ops.bind("svd", x, full_matrices=False, compute_uv=True)
    uh, v = adjoint(u), adjoint(vh)
    projected = matmul(dx, v)
    inner = matmul(uh, projected)
    ds = _real(diagonal_of(inner))
    if not compute_uv:
        return [s], [ds]
    shape, dtype = shape_of(inner), get_aval(inner).dtype
    real_rows, real_columns = along_rows(s, shape), along_columns(s, shape)
    gaps = ops.mul(ops.add(real_columns, real_rows), ops.sub(real_columns, real_rows))
    weights = ops.convert(reciprocal_off_diagonal(gaps), dtype)
    rows, columns = ops.convert(real_rows, dtype), ops.convert(real_columns, dtype)
    left, right = ops.mul(inner, columns), ops.mul(rows, inner)
    turn_u = ops.mul(weights, ops.add(left, adjoint(left)))
    turn_v = ops.mul(weights, ops.add(right, adjoint(right)))
    if is_complex(dtype):
        twist = on_diagonal(ops.sub(inner, adjoint(inner)))
        turn_u = ops.add(turn_u, ops.div(twist, ops.mul(full_like(columns, 2), columns)))
    du, dv = matmul(u, turn_u), matmul(v, turn_v)
    if m > n:
        rest = ops.sub(projected, matmul(u, inner))
        du = ops.add(du, ops.div(rest, ops.convert(along_columns(s, shape_of(rest)), dtype)))
    if n > m:
        rest = ops.sub(matmul(adjoint(dx), u), matmul(v, adjoint(inner)))
        dv = ops.add(dv, ops.div(rest, ops.convert(along_columns(s, shape_of(rest)), dtype)))
    return [s, u, vh], [ds, du, adjoint(dv)]
