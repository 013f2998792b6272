"""Derivatives of eigenvalues and eigenvectors of general matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.dtypes import is_complex
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives import elementwise as el
from xpr.primitives._linalg_pivot_rules import reordered
from xpr.primitives._linalg_rules import (
    adjoint,
    along_columns,
    along_rows,
    diagonal_of,
    matmul,
    reciprocal_off_diagonal,
    solve,
)
from xpr.primitives.linalg import lu
from xpr.primitives.rules import full_like, shape_of

_INT32 = np.dtype(np.int32)


def eig_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, left: bool, right: bool, derivatives: bool
) -> tuple[list[Any], list[Any]]:
    """First-order perturbation: dw = diag(V^-1 dA V), and see `_vector_tangents`.

    Left eigenvectors are right ones of A^H, whose eigenvalues are the conjugates.
    """
    if (left or right) and not derivatives:
        raise NotImplementedError(
            "eig gives eigenvectors without derivatives unless enable_eigvec_derivs=True: they are "
            "valid where all eigenvalues differ and no eigenvector has two greatest elements"
        )
    (da,) = tangents
    # Derivatives of eigenvalues do not depend on the scales of the vectors they are made from.
    w, *vectors = ops.bind("eig", *primals, left=left, right=True, derivatives=True)
    vr = vectors[-1]
    if not is_complex(get_aval(da).dtype):
        da = ops.convert(da, get_aval(vr).dtype)
    inner = _solve(vr, matmul(da, vr))
    primal_out, tangent_out = [w], [diagonal_of(inner)]
    if left:
        vl = vectors[0]
        inner_left = _solve(vl, matmul(adjoint(da), vl))
        primal_out.append(vl)
        tangent_out.append(_vector_tangents(el.conj(w), vl, inner_left))
    if right:
        primal_out.append(vr)
        tangent_out.append(_vector_tangents(w, vr, inner))
    return primal_out, tangent_out


def _vector_tangents(w: Any, v: Any, inner: Any) -> Any:
    """dV = V (F * inner + C), with F = 1/(w_j - w_i) off the diagonal and C diagonal.

    `inner` is V^-1 dA V. C keeps what LAPACK's geev fixes: the norm of each vector is 1, and its
    greatest element is real.
    """
    shape = shape_of(v)
    gaps = ops.sub(along_columns(w, shape), along_rows(w, shape))
    turn = matmul(v, ops.mul(reciprocal_off_diagonal(gaps), inner))
    along = el.real(ops.reduce_sum(ops.mul(el.conj(v), turn), (len(shape) - 2,)))
    greatest = _greatest_of_columns(v)
    element = ops.reduce_sum(ops.mul(greatest, v), (len(shape) - 2,))
    moved = ops.reduce_sum(ops.mul(greatest, turn), (len(shape) - 2,))
    phase = ops.div(el.imag(moved), el.real(element))
    scale = ops.neg(el.complex(along, phase))
    return ops.add(turn, ops.mul(v, along_columns(scale, shape)))


def _greatest_of_columns(v: Any) -> Any:
    """Ones where a column has its element of greatest magnitude (the first), zeros elsewhere."""
    shape, rank = shape_of(v), len(shape_of(v))
    sizes = el.abs(v)
    row = ops.bind("argmax", sizes, axes=(rank - 2,), index_dtype=_INT32)
    places = ops.bind("iota", dtype=_INT32, shape=shape, dimension=rank - 2, sharding=None)
    found = ops.eq(places, along_columns(row, shape))
    return ops.select(found, full_like(v, 1), full_like(v, 0))


def _solve(a: Any, b: Any) -> Any:
    """X with A X = B for square matrices A."""
    if 0 in shape_of(b):
        return b
    factors, _, order = lu(a)
    x = solve(factors, reordered(b, order), left_side=True, lower=True, unit=True)
    return solve(factors, x, left_side=True, lower=False)
