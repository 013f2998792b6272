"""Eigenvalues, eigenvectors and Schur forms of general square matrices, on stacks of them."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.primitive import NOT_LINEAR, NotDifferentiable, define
from xpr.primitives import _linalg_general_host as host
from xpr.primitives._linalg_checks import as_weak_as, check_matrices, complex_type, strong
from xpr.primitives._linalg_general_rules import eig_jvp
from xpr.primitives._linalg_rules import front_batch

_FAMILY = "linalg_general"


class EigImplementation(enum.Enum):
    """Libraries for `eig`, of which LAPACK is always taken.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> x = jnp.array([[2.0, 0.0], [0.0, 3.0]])
    >>> lax.linalg.eig(x, implementation=lax.linalg.EigImplementation.LAPACK)[0]
    Array([2.+0.j, 3.+0.j], dtype=complex64)
    """

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


def _eig_abstract(
    x: ShapedArray, *, left: bool, right: bool, derivatives: bool
) -> list[ShapedArray]:
    check_matrices("eig", x, square=True)
    dtype = complex_type(x)
    return [ShapedArray(x.shape[:-1], dtype), *[ShapedArray(x.shape, dtype)] * (left + right)]


eig_p = define(
    "eig",
    family=_FAMILY,
    doc="Eigenvalues of square matrices, and their left and right eigenvectors.",
    abstract=_eig_abstract,
    reference=host.eig,
    jvp=eig_jvp,
    transpose=NOT_LINEAR,
    batch=front_batch("eig", 3),
    multiple_results=True,
)


def eig(
    x: Any,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Array]:
    """Eigenvalues w [..., n] of `x` [..., n, n], left and right eigenvectors [..., n, n].

    The results are w, the left eigenvectors where they are wanted and the right ones where they are
    wanted; all are complex, in no order. Column i of the right ones is a v with x v = w_i v, of the
    left ones a u with u^H x = w_i u^H; its norm is 1 and its greatest element is real. A matrix
    that is not finite gives NaN. Derivatives of vectors must be asked for by
    `enable_eigvec_derivs`: they are valid only where the eigenvalues of a matrix differ and no
    vector has two greatest elements. `implementation` and `use_magma` are ignored. Raises TypeError
    for other dtypes than float32, float64, complex64 and complex128, ValueError for matrices that
    are not square, and under differentiation NotImplementedError for vectors not asked for.

    >>> import xpr.numpy as jnp
    >>> w, v = eig(jnp.array([[0.0, 1.0], [-4.0, 0.0]]), compute_left_eigenvectors=False)
    >>> jnp.round(w, 3)
    Array([0.+2.j, 0.-2.j], dtype=complex64)
    """
    del implementation, use_magma
    found = eig_p.bind(
        strong(x),
        left=bool(compute_left_eigenvectors),
        right=bool(compute_right_eigenvectors),
        derivatives=bool(enable_eigvec_derivs),
    )
    return [as_weak_as(x, v) for v in found]


def _schur_abstract(x: ShapedArray, *, vectors: bool) -> list[ShapedArray]:
    check_matrices("schur", x, square=True)
    return [ShapedArray(x.shape, x.dtype)] * (1 + vectors)


schur_p = define(
    "schur",
    family=_FAMILY,
    doc="Schur forms of square matrices, and the unitary matrices that lead to them.",
    abstract=_schur_abstract,
    reference=host.schur,
    jvp=NotDifferentiable("the order of the eigenvalues in it is not determined"),
    transpose=NOT_LINEAR,
    batch=front_batch("schur", 2),
    multiple_results=True,
)


def schur(
    x: Any,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Callable[..., Any] | None = None,
) -> list[Array]:
    """T and unitary Q with Q T Q^H = `x` [..., n, n]; only T without `compute_schur_vectors`.

    T is upper triangular, with the eigenvalues on its diagonal; that of a real matrix is real, and
    has a block of 2 by 2 on the diagonal for each pair of complex eigenvalues. A matrix that is not
    finite gives NaN. `select_callable` is ignored. Raises TypeError for other dtypes than float32,
    float64, complex64 and complex128, ValueError for matrices that are not square,
    NotImplementedError for `sort_eig_vals`.

    >>> import xpr.numpy as jnp
    >>> schur(jnp.array([[1.0, 2.0], [0.0, 3.0]]))[0]
    Array([[1., 2.],
           [0., 3.]], dtype=float32)
    """
    del select_callable
    if sort_eig_vals:
        raise NotImplementedError("schur does not sort: sort_eig_vals must be False")
    found = schur_p.bind(strong(x), vectors=bool(compute_schur_vectors))
    return [as_weak_as(x, v) for v in found]
