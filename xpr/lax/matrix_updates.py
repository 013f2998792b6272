"""Products of matrices with themselves, and factors of matrices with such a product added."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.primitive import check_operands
from xpr.core.trace import get_aval
from xpr.lax.loops import scan
from xpr.primitives import _linalg_rules as matrices
from xpr.primitives import _ops as ops
from xpr.primitives._linalg_checks import as_weak_as, check_alike, check_matrices, strong
from xpr.primitives.rules import full_like, shape_of

_INT32 = np.dtype(np.int32)


def _check_real(name: str, x: Any) -> None:
    if dtypes.is_complex(get_aval(x).dtype):
        raise TypeError(
            f"{name} does not accept dtype {get_aval(x).dtype}; it accepts float32, float64"
        )


def symmetric_product(
    a_matrix: Any,
    c_matrix: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Array:
    """`alpha` A A^T + `beta` C, for A [..., m, n] and symmetric C [..., m, m].

    With `symmetrize_output` the triangle above the diagonal is a copy of the one below, so that the
    result is exactly symmetric. Raises TypeError for other dtypes than float32 and float64, for two
    dtypes and for other leading axes, ValueError for sizes that do not fit.

    >>> import xpr.numpy as jnp
    >>> symmetric_product(jnp.array([[1.0], [2.0]]), jnp.eye(2), beta=3.0)
    Array([[4., 2.],
           [2., 7.]], dtype=float32)
    """
    name = "symmetric_product"
    check_operands(name, a_matrix, c_matrix)
    a, c = strong(a_matrix), strong(c_matrix)
    shapes = shape_of(a), shape_of(c)
    for x in (a, c):
        check_matrices(name, get_aval(x))
        _check_real(name, x)
    check_alike(name, get_aval(a), get_aval(c), ranks=(2, 2))
    if not shapes[0][-2] == shapes[1][-2] == shapes[1][-1]:
        raise ValueError(
            f"{name} expects a matrix of shape (m, n) and a square matrix of shape (m, m), got "
            f"shapes {shapes[0]} and {shapes[1]}"
        )
    product = matrices.matmul(a, matrices.swapped(a))
    out = ops.add(ops.mul(full_like(product, alpha), product), ops.mul(full_like(c, beta), c))
    if symmetrize_output:
        below = matrices.triangle(out, lower=True, strict=True)
        out = ops.add(matrices.triangle(out, lower=True), matrices.swapped(below))
    return as_weak_as(a_matrix if get_aval(c_matrix).weak_type else c_matrix, out)


def cholesky_update(r_matrix: Any, w_vector: Any) -> Array:
    """The upper triangular S with S^T S = R^T R + w w^T, for such an R [..., n, n], w [..., n].

    One rotation a row takes w into R (G. H. Golub, C. F. Van Loan, "Matrix Computations", 4th
    edition, 6.5.4). Only the upper triangle of R is read. Raises TypeError for other dtypes than
    float32 and float64, for two dtypes and for other leading axes, ValueError for sizes that do not
    fit.

    >>> import xpr.numpy as jnp
    >>> cholesky_update(jnp.array([[3.0, 0.0], [0.0, 5.0]]), jnp.array([4.0, 0.0]))
    Array([[5., 0.],
           [0., 5.]], dtype=float32)
    """
    name = "cholesky_update"
    check_operands(name, r_matrix, w_vector)
    r, w = strong(r_matrix), strong(w_vector)
    check_matrices(name, get_aval(r))
    _check_real(name, r)
    check_alike(name, get_aval(r), get_aval(w), ranks=(2, 1))
    shape = shape_of(r)
    if not shape[-2] == shape[-1] == shape_of(w)[-1]:
        raise ValueError(
            f"{name} takes a square matrix and a vector of the same size, got shapes {shape} and "
            f"{shape_of(w)}"
        )
    rank = len(shape)
    rows = ops.transpose(matrices.triangle(r, lower=False), (rank - 2, *range(rank - 2), rank - 1))
    places = np.arange(shape[-1], dtype=_INT32)
    _, rotated = scan(_rotated, w, (places, rows))
    # Rounding leaves traces of the elements that the rotations take to zero.
    found = matrices.triangle(
        ops.transpose(rotated, (*range(1, rank - 1), 0, rank - 1)), lower=False
    )
    return as_weak_as(r_matrix if get_aval(w_vector).weak_type else w_vector, found)


def _rotated(w: Any, step: tuple[Any, Any]) -> tuple[Any, Any]:
    """What is left of w, and row i, after the rotation that takes element i of w to zero."""
    i, row = step
    shape = shape_of(w)
    last = len(shape) - 1
    columns = ops.bind("iota", dtype=_INT32, shape=shape, dimension=last, sharding=None)
    here = ops.eq(columns, ops.broadcast_in_dim(i, shape, ()))

    def element(x: Any) -> Any:
        return ops.reduce_sum(ops.select(here, x, full_like(x, 0)), (last,))

    x, y = element(row), element(w)
    zero, one = full_like(x, 0), full_like(x, 1)
    none = ops.eq(y, zero)
    # Where there is nothing to rotate the root would have no derivative.
    norm = _norm(x, ops.select(none, one, y))
    cosine = ops.select(none, one, ops.div(x, norm))
    sine = ops.select(none, zero, ops.div(y, norm))
    c, s = (ops.broadcast_in_dim(v, shape, tuple(range(last))) for v in (cosine, sine))
    return ops.sub(ops.mul(c, w), ops.mul(s, row)), ops.add(ops.mul(c, row), ops.mul(s, w))


def _norm(x: Any, y: Any) -> Any:
    """The length of (x, y), not both zero, whose squares need not be representable."""
    size = ops.bind("max", ops.bind("abs", x), ops.bind("abs", y))
    u, v = ops.div(x, size), ops.div(y, size)
    return ops.mul(size, ops.bind("sqrt", ops.add(ops.mul(u, u), ops.mul(v, v))))
