"""Products of Householder reflections as products of matrices, and derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.interpreters.jvp import jvp_flat
from xpr.primitives import _ops as ops
from xpr.primitives._linalg_rules import (
    adjoint,
    along_rows,
    columns,
    conjugate,
    matmul,
    on_diagonal,
    triangle,
)
from xpr.primitives.linalg import triangular_solve
from xpr.primitives.rules import full_like, instantiate, shape_of


def reflected(a: Any, taus: Any, c: Any, *, inverse: bool = False) -> Any:
    """Q C for the product Q of the reflections in `a` and `taus`, or with `inverse` Q^H C.

    Q = I - V T V^H with T = (I + D S)^-1 D, where D = diag(taus) and S is the strict upper triangle
    of V^H V. This is the UT transform of T. Joffrain, T. M. Low, E. S. Quintana-Orti,
    R. van de Geijn, F. G. Van Zee, "Accumulating Householder transformations, revisited", 2006,
    written for scales that may be zero.
    """
    k = shape_of(taus)[-1]
    if k == 0 or 0 in shape_of(c):
        return c
    v = columns(a, 0, k)
    v = ops.add(triangle(v, lower=True, strict=True), on_diagonal(full_like(v, 1)))
    vh = adjoint(v)
    gram, inner = matmul(vh, v), matmul(vh, c)
    kernel = ops.mul(along_rows(taus, shape_of(gram)), gram)
    scales = along_rows(taus, shape_of(inner))
    if inverse:
        inner = triangular_solve(
            kernel, inner, left_side=True, transpose_a=True, conjugate_a=True, unit_diagonal=True
        )
        inner = ops.mul(conjugate(scales), inner)
    else:
        inner = ops.mul(scales, inner)
        inner = triangular_solve(kernel, inner, left_side=True, unit_diagonal=True)
    return ops.sub(c, matmul(v, inner))


def product(a: Any, taus: Any) -> Any:
    """The first columns of the products of reflections, as many as `a` has."""
    return reflected(a, taus, on_diagonal(full_like(a, 1)))


def householder_product_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The derivative of the product of matrices that `reflected` describes."""
    _, (tangent,) = jvp_flat(lambda a, taus: [product(a, taus)], primals, tangents)
    return ops.bind("householder_product", *primals), instantiate(tangent)
