"""Factorisations of stacks of matrices by Householder reflections, as LAPACK keeps them.

A product of reflections H_i = I - tau_i v_i v_i^H is a matrix that holds the v_i below its diagonal
(element i of v_i is 1, those before it are 0, neither is stored) and a vector of the tau_i.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.primitive import NOT_LINEAR, NotDifferentiable, check_operands, define
from xpr.core.trace import get_aval
from xpr.primitives import _linalg_householder_host as host
from xpr.primitives import _linalg_householder_rules as rules
from xpr.primitives._linalg_checks import as_weak_as, check_alike, check_matrices, real_type, strong
from xpr.primitives._linalg_rules import adjoint, front_batch

_FAMILY = "linalg_householder"
_INT32 = np.dtype(np.int32)
_KEPT_AS_REFLECTIONS = NotDifferentiable(
    "the reflections are no smooth function of the matrix; differentiate qr"
)

# ---- QR


def _geqrf_abstract(x: ShapedArray) -> list[ShapedArray]:
    check_matrices("geqrf", x)
    *batch, m, n = x.shape
    return [ShapedArray(x.shape, x.dtype), ShapedArray((*batch, min(m, n)), x.dtype)]


geqrf_p = define(
    "geqrf",
    family=_FAMILY,
    doc="QR factors of matrices: R, and Q as reflections.",
    abstract=_geqrf_abstract,
    reference=host.geqrf,
    jvp=_KEPT_AS_REFLECTIONS,
    transpose=NOT_LINEAR,
    batch=front_batch("geqrf", 2),
    multiple_results=True,
)


def geqrf(a: Any) -> tuple[Array, Array]:
    """R on and above the diagonal, the reflections whose product is Q below it; their scales.

    `a` [..., m, n] = Q R. The results are [..., m, n] and [..., min(m, n)]. Raises TypeError for
    rank below 2 and for other dtypes than float32, float64, complex64 and complex128.

    >>> geqrf(np.array([[3.0], [4.0]], np.float32))
    (Array([[-5. ],
           [ 0.5]], dtype=float32), Array([1.6], dtype=float32))
    """
    factors, taus = geqrf_p.bind(strong(a))
    return factors, taus


def _geqp3_abstract(x: ShapedArray) -> list[ShapedArray]:
    check_matrices("geqp3", x)
    *batch, m, n = x.shape
    return [
        ShapedArray(x.shape, x.dtype),
        ShapedArray((*batch, n), _INT32),
        ShapedArray((*batch, min(m, n)), x.dtype),
    ]


geqp3_p = define(
    "geqp3",
    family=_FAMILY,
    doc="QR factors of matrices with their columns reordered: R, and Q as reflections.",
    abstract=_geqp3_abstract,
    reference=host.geqp3,
    jvp=_KEPT_AS_REFLECTIONS,
    transpose=NOT_LINEAR,
    batch=front_batch("geqp3", 3),
    multiple_results=True,
)


def geqp3(a: Any) -> tuple[Array, Array, Array]:
    """As `geqrf`, for the columns of `a` [..., m, n] in an order that it finds.

    The results are the factors [..., m, n], the order [..., n] (int32, from 0) and the scales
    [..., min(m, n)]. Step i takes the column of which the most is left, so that the diagonal of R
    descends in magnitude. A matrix that is not finite gives NaN. Raises TypeError as `geqrf` does.

    >>> geqp3(np.array([[1.0, 3.0], [0.0, 4.0]], np.float32))[1]
    Array([1, 0], dtype=int32)
    """
    factors, order, taus = geqp3_p.bind(strong(a))
    return factors, order, taus


# ---- products of reflections


def _householder_product_abstract(a: ShapedArray, taus: ShapedArray) -> ShapedArray:
    _check_reflections("householder_product", a, taus)
    if a.shape[-2] < a.shape[-1]:
        raise ValueError(
            "The first argument to householder_product must have at least as many rows as "
            f"columns, got shape {a.shape}"
        )
    return ShapedArray(a.shape, a.dtype)


def _check_reflections(name: str, a: ShapedArray, taus: ShapedArray) -> None:
    check_matrices(name, a)
    check_alike(name, a, taus, ranks=(2, 1))
    if taus.shape[-1] > min(a.shape[-2:]):
        raise ValueError(
            f"The second argument to {name} must not be longer than the first argument has rows "
            f"and columns, got shapes {taus.shape} and {a.shape}"
        )


householder_product_p = define(
    "householder_product",
    family=_FAMILY,
    doc="The first columns of products of reflections.",
    abstract=_householder_product_abstract,
    reference=host.householder_product,
    jvp=rules.householder_product_jvp,
    transpose=NOT_LINEAR,
    batch=front_batch("householder_product", 0),
)


def householder_product(a: Any, taus: Any) -> Array:
    """The first n columns of H_1 H_2 ... H_k, for reflections in `a` [..., m, n], m >= n.

    `taus` is [..., k], k <= n. Only what is below the diagonal of `a` is read. Raises TypeError for
    other dtypes than float32, float64, complex64 and complex128, for two dtypes and for other
    leading axes, ValueError for sizes that do not fit.

    >>> h, taus = geqrf(np.array([[3.0], [4.0]], np.float32))
    >>> householder_product(h, taus)
    Array([[-0.6],
           [-0.8]], dtype=float32)
    """
    check_operands("householder_product", a, taus)
    given = a if get_aval(taus).weak_type else taus
    return as_weak_as(given, householder_product_p.bind(strong(a), strong(taus)))


def ormqr(a: Any, taus: Any, c: Any, *, left: bool = True, transpose: bool = False) -> Array:
    """Q C, or C Q unless `left`, for the product Q of reflections; with `transpose` Q^H for Q.

    The reflections are `a` [..., m, n] and `taus` [..., k] as of `geqrf`; Q is m by m and never
    formed. `c` and the result are [..., m, p], or [..., p, m] on the right side. Raises TypeError
    and ValueError as `householder_product` does.

    >>> h, taus = geqrf(np.array([[3.0], [4.0]], np.float32))
    >>> ormqr(h, taus, np.array([[3.0], [4.0]], np.float32), transpose=True)
    Array([[-5.],
           [ 0.]], dtype=float32)
    """
    check_operands("ormqr", a, taus, c)
    a, taus, c = strong(a), strong(taus), strong(c)
    reflections, matrix = get_aval(a), get_aval(c)
    check_matrices("ormqr", matrix)
    _check_reflections("ormqr", reflections, get_aval(taus))
    check_alike("ormqr", reflections, matrix, ranks=(2, 2))
    if matrix.shape[-2 if left else -1] != reflections.shape[-2]:
        raise ValueError(
            f"ormqr expects c to have as many {'rows' if left else 'columns'} as a has rows, got "
            f"shapes {matrix.shape} and {reflections.shape}"
        )
    if left:
        return rules.reflected(a, taus, c, inverse=transpose)
    return adjoint(rules.reflected(a, taus, adjoint(c), inverse=not transpose))


# ---- similar matrices with few diagonals


def _hessenberg_abstract(x: ShapedArray) -> list[ShapedArray]:
    check_matrices("hessenberg", x, square=True)
    *batch, n, _ = x.shape
    return [ShapedArray(x.shape, x.dtype), ShapedArray((*batch, max(n - 1, 0)), x.dtype)]


_NO_FORM_DERIVATIVE = "the form is not unique, and no derivative of it is defined"

hessenberg_p = define(
    "hessenberg",
    family=_FAMILY,
    doc="Similar matrices that are zero below the first subdiagonal, and the reflections to them.",
    abstract=_hessenberg_abstract,
    reference=host.hessenberg,
    jvp=NotDifferentiable(_NO_FORM_DERIVATIVE),
    transpose=NOT_LINEAR,
    batch=front_batch("hessenberg", 2),
    multiple_results=True,
)


def hessenberg(a: Any) -> tuple[Array, Array]:
    """H = Q^H `a` Q, zero below the first subdiagonal, with the reflections whose product is Q.

    `a` is [..., n, n]. The first result [..., n, n] holds H, and reflection i below the
    subdiagonal of its column i, where H is zero; the second their scales [..., n - 1]. Raises
    TypeError for other dtypes than float32, float64, complex64 and complex128, ValueError for
    matrices that are not square.

    >>> h, taus = hessenberg(np.array([[1.0, 2.0], [3.0, 4.0]], np.float32))
    >>> h
    Array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    return as_weak_as(a, *hessenberg_p.bind(strong(a)))


def _tridiagonal_abstract(x: ShapedArray, *, lower: bool) -> list[ShapedArray]:
    check_matrices("tridiagonal", x, square=True)
    *batch, n, _ = x.shape
    real, beside = real_type(x), max(n - 1, 0)
    return [
        ShapedArray(x.shape, x.dtype),
        ShapedArray((*batch, n), real),
        ShapedArray((*batch, beside), real),
        ShapedArray((*batch, beside), x.dtype),
    ]


tridiagonal_p = define(
    "tridiagonal",
    family=_FAMILY,
    doc="Similar tridiagonal matrices of Hermitian ones, and the reflections to them.",
    abstract=_tridiagonal_abstract,
    reference=host.tridiagonal,
    jvp=NotDifferentiable(_NO_FORM_DERIVATIVE),
    transpose=NOT_LINEAR,
    batch=front_batch("tridiagonal", 4),
    multiple_results=True,
)


def tridiagonal(a: Any, *, lower: bool = True) -> tuple[Array, Array, Array, Array]:
    """T = Q^H `a` Q, real and tridiagonal, for Hermitian `a` [..., n, n], and Q as reflections.

    Only the triangle of `a` that `lower` names is read. The results are a matrix [..., n, n] that
    holds T and, below its subdiagonal (above its superdiagonal, unless `lower`), the reflections;
    the diagonal of T [..., n] and the one beside it [..., n - 1], which are real; the scales of the
    reflections [..., n - 1]. Raises TypeError for other dtypes than float32, float64, complex64
    and complex128, ValueError for matrices that are not square.

    >>> tridiagonal(np.array([[1.0, 2.0], [2.0, 4.0]], np.float32))[2]
    Array([2.], dtype=float32)
    """
    return as_weak_as(a, *tridiagonal_p.bind(strong(a), lower=bool(lower)))
