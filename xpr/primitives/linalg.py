"""Factorisations of matrices and triangular equations, on stacks of matrices.

Matrices are the last two axes; float32, float64, complex64 and complex128. A matrix that has no
factorisation (indefinite, with NaN) gives NaN.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.primitive import NOT_LINEAR, check_operands, define
from xpr.core.trace import get_aval
from xpr.primitives import _linalg_host as host
from xpr.primitives import _linalg_householder_host as householder
from xpr.primitives import _linalg_pivot_rules as pivot_rules
from xpr.primitives import _linalg_rules as rules
from xpr.primitives import _ops as ops
from xpr.primitives._linalg_checks import as_weak_as, check_matrices, real_type, strong
from xpr.primitives.rules import expand_dims
from xpr.primitives.slicing import slice_in_dim

_FAMILY = "linalg"


def _symmetrized(name: str, x: Any, wanted: bool) -> Any:
    """The Hermitian part of checked square matrices."""
    x = strong(x)
    aval = get_aval(x)
    if wanted and aval.ndim >= 2 and aval.shape[-1] != aval.shape[-2]:
        turned = (*aval.shape[:-2], aval.shape[-1], aval.shape[-2])
        raise TypeError(
            f"add got incompatible shapes for broadcasting: {aval.shape}, {turned}. {name} with "
            "symmetrize_input adds the transpose, and requires square matrices"
        )
    check_matrices(name, aval, square=True)
    if not wanted:
        return x
    return ops.mul(ops.add(x, rules.adjoint(x)), rules.full_like(x, 0.5))


# ---- Cholesky


def _cholesky_abstract(x: ShapedArray) -> ShapedArray:
    check_matrices("cholesky", x, square=True)
    return ShapedArray(x.shape, x.dtype)


cholesky_p = define(
    "cholesky",
    family=_FAMILY,
    doc="The lower Cholesky factors of Hermitian matrices; only the lower triangle is read.",
    abstract=_cholesky_abstract,
    reference=host.cholesky,
    jvp=rules.cholesky_jvp,
    transpose=NOT_LINEAR,
    batch=rules.front_batch("cholesky", 0),
)


def cholesky(x: Any, *, symmetrize_input: bool = True) -> Array:
    """The lower triangular L with L L^H = x, for Hermitian positive definite `x` [..., n, n].

    With `symmetrize_input` the Hermitian part of `x` is factored; without, only its lower triangle
    is read. A matrix that is not positive definite gives NaN. Raises TypeError for other dtypes
    than float32, float64, complex64 and complex128, and for matrices that are not square: without
    `symmetrize_input` ValueError for these.

    >>> cholesky(np.array([[4.0, 2.0], [2.0, 5.0]], np.float32))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    return as_weak_as(x, cholesky_p.bind(_symmetrized("cholesky", x, symmetrize_input)))


# ---- triangular equations


def _triangular_solve_abstract(
    a: ShapedArray, b: ShapedArray, *, left_side: bool, **_: Any
) -> ShapedArray:
    name = "triangular_solve"
    check_matrices(name, a, square=True)
    check_matrices(name, b)
    if a.dtype != b.dtype:
        raise TypeError(f"{name} requires operands of one dtype, got {a.dtype} and {b.dtype}")
    if a.ndim != b.ndim or a.shape[:-2] != b.shape[:-2]:
        raise TypeError(
            f"{name} requires operands with the same leading axes, got shapes {a.shape} and "
            f"{b.shape}"
        )
    if a.shape[-1] != b.shape[-2 if left_side else -1]:
        raise ValueError(
            f"Incompatible shapes for arguments to triangular_solve: {a.shape} and {b.shape} with "
            f"left_side={left_side}"
        )
    return ShapedArray(b.shape, b.dtype)


triangular_solve_p = define(
    "triangular_solve",
    family=_FAMILY,
    doc="Solves equations with triangular matrices; the other triangle is not read.",
    abstract=_triangular_solve_abstract,
    reference=host.triangular_solve,
    jvp=rules.triangular_solve_jvp,
    transpose=rules.triangular_solve_transpose,
    batch=rules.triangular_solve_batch,
)


def triangular_solve(
    a: Any,
    b: Any,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """X with op(a) X = b (`left_side`) or X op(a) = b, for triangular `a` [..., n, n].

    `lower` says which triangle of `a` is read, `unit_diagonal` that its diagonal counts as ones.
    op transposes with `transpose_a` and conjugates with `conjugate_a`. `b` is [..., n, k], or
    [..., k, n] on the right side, or vectors [..., n]. A zero on the diagonal gives infinities or
    NaN. Raises TypeError for dtypes that differ or are none of float32, float64, complex64 and
    complex128, and for other leading axes; ValueError for sizes that do not fit.

    >>> a = np.array([[2.0, 0.0], [1.0, 4.0]], np.float32)
    >>> triangular_solve(a, np.array([2.0, 9.0], np.float32), left_side=True, lower=True)
    Array([1., 2.], dtype=float32)
    """
    check_operands("triangular_solve", a, b)
    given = a if get_aval(b).weak_type else b
    a, b = strong(a), strong(b)
    matrix, rank = get_aval(a), get_aval(b).ndim
    vector = matrix.ndim >= 2 and rank == matrix.ndim - 1
    place = rank if left_side else rank - 1
    found = triangular_solve_p.bind(
        a,
        expand_dims(b, [place]) if vector else b,
        left_side=bool(left_side),
        lower=bool(lower),
        transpose_a=bool(transpose_a),
        conjugate_a=bool(conjugate_a) and dtypes.is_complex(matrix.dtype),
        unit_diagonal=bool(unit_diagonal),
    )
    return as_weak_as(given, ops.reshape(found, get_aval(b).shape) if vector else found)


# ---- LU


def _lu_abstract(x: ShapedArray) -> list[ShapedArray]:
    check_matrices("lu", x)
    *batch, m, n = x.shape
    return [
        ShapedArray(x.shape, x.dtype),
        ShapedArray((*batch, min(m, n)), np.dtype(np.int32)),
        ShapedArray((*batch, m), np.dtype(np.int32)),
    ]


lu_p = define(
    "lu",
    family=_FAMILY,
    doc="Unit lower and upper triangular factors of matrices with their rows exchanged.",
    abstract=_lu_abstract,
    reference=host.lu,
    jvp=pivot_rules.lu_jvp,
    transpose=NOT_LINEAR,
    batch=rules.front_batch("lu", 3),
    multiple_results=True,
)


def lu(x: Any) -> tuple[Array, Array, Array]:
    """L and U in one matrix, the exchanges of rows, and the permutation that these make.

    `x` [..., m, n] with its rows in the order of the permutation [..., m] is L U. The first result
    [..., m, n] holds U on and above the diagonal, and L below it, whose diagonal is ones. The
    second [..., min(m, n)] says which row was exchanged with row i, in order of i; both are int32.
    A singular matrix has a zero on the diagonal of U. Raises TypeError for rank below 2 and for
    other dtypes than float32, float64, complex64 and complex128.

    >>> factors, pivots, permutation = lu(np.array([[1.0, 2.0], [4.0, 4.0]], np.float32))
    >>> factors
    Array([[4.  , 4.  ],
           [0.25, 1.  ]], dtype=float32)
    >>> permutation
    Array([1, 0], dtype=int32)
    """
    return as_weak_as(x, *lu_p.bind(strong(x)))


# ---- QR


def _qr_abstract(x: ShapedArray, *, full_matrices: bool) -> list[ShapedArray]:
    check_matrices("qr", x)
    *batch, m, n = x.shape
    k = m if full_matrices else min(m, n)
    return [ShapedArray((*batch, m, k), x.dtype), ShapedArray((*batch, k, n), x.dtype)]


qr_p = define(
    "qr",
    family=_FAMILY,
    doc="Q with orthonormal columns and upper triangular R, by Householder reflections.",
    abstract=_qr_abstract,
    reference=householder.qr,
    jvp=rules.qr_jvp,
    transpose=NOT_LINEAR,
    batch=rules.front_batch("qr", 2),
    multiple_results=True,
)


def _qr_pivoted_abstract(x: ShapedArray, *, full_matrices: bool) -> list[ShapedArray]:
    check_matrices("qr", x)
    *batch, m, n = x.shape
    k = m if full_matrices else min(m, n)
    return [
        ShapedArray((*batch, m, k), x.dtype),
        ShapedArray((*batch, k, n), x.dtype),
        ShapedArray((*batch, n), np.dtype(np.int32)),
    ]


qr_pivoted_p = define(
    "qr_pivoted",
    family=_FAMILY,
    doc="Q and R of matrices with their columns reordered, so that the diagonal of R descends.",
    abstract=_qr_pivoted_abstract,
    reference=householder.qr_pivoted,
    jvp=pivot_rules.qr_pivoted_jvp,
    transpose=NOT_LINEAR,
    batch=rules.front_batch("qr_pivoted", 3),
    multiple_results=True,
)


@overload
def qr(
    x: Any,
    *,
    pivoting: Literal[False] = False,
    full_matrices: bool = True,
    use_magma: bool | None = None,
) -> tuple[Array, Array]: ...


@overload
def qr(
    x: Any, *, pivoting: Literal[True], full_matrices: bool = True, use_magma: bool | None = None
) -> tuple[Array, Array, Array]: ...


def qr(
    x: Any, *, pivoting: bool = False, full_matrices: bool = True, use_magma: bool | None = None
) -> tuple[Array, Array] | tuple[Array, Array, Array]:
    """Q with orthonormal columns and upper triangular R with Q R = `x` [..., m, n].

    Q is [..., m, m] with `full_matrices`, else [..., m, min(m, n)]. Signs are those of Householder
    reflections: LAPACK's geqrf. With `pivoting` Q R is `x` with its columns in an order that makes
    the diagonal of R descend in magnitude, and the order [..., n] (int32) is the third result.
    `use_magma` is ignored. Raises TypeError for rank below 2 and for other dtypes than float32,
    float64, complex64 and complex128.

    >>> q, r = qr(np.array([[3.0], [4.0]], np.float32), full_matrices=False)
    >>> r
    Array([[-5.]], dtype=float32)
    """
    del use_magma
    if pivoting:
        return as_weak_as(x, *qr_pivoted_p.bind(strong(x), full_matrices=bool(full_matrices)))
    return as_weak_as(x, *qr_p.bind(strong(x), full_matrices=bool(full_matrices)))


# ---- eigenvalues of Hermitian matrices


class EighImplementation(enum.Enum):
    """Algorithms for `eigh`: one is taken, whichever is named.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> x = jnp.array([[3.0, 0.0], [0.0, 2.0]])
    >>> lax.linalg.eigh(x, implementation=lax.linalg.EighImplementation.JACOBI)[1]
    Array([2., 3.], dtype=float32)
    """

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


def _eigh_abstract(x: ShapedArray, *, lower: bool) -> list[ShapedArray]:
    check_matrices("eigh", x, square=True)
    return [ShapedArray(x.shape, x.dtype), ShapedArray(x.shape[:-1], real_type(x))]


eigh_p = define(
    "eigh",
    family=_FAMILY,
    doc="Eigenvectors and ascending eigenvalues of Hermitian matrices.",
    abstract=_eigh_abstract,
    reference=host.eigh,
    jvp=rules.eigh_jvp,
    transpose=NOT_LINEAR,
    batch=rules.front_batch("eigh", 2),
    multiple_results=True,
)


def eigh(
    x: Any,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Array, Array]:
    """Eigenvectors v [..., n, n] (columns) and real eigenvalues w [..., n] of Hermitian `x`.

    The eigenvalues ascend, whatever `sort_eigenvalues` says. With `symmetrize_input` the Hermitian
    part of `x` is meant; without, the triangle that `lower` names. `subset_by_index` is the first
    place of the wanted eigenvalues and the one after the last. `implementation` is ignored.
    Raises TypeError for other dtypes than float32, float64, complex64 and complex128, and for
    matrices that are not square (ValueError without `symmetrize_input`); ValueError for a subset
    that is none.

    >>> v, w = eigh(np.array([[2.0, 1.0], [1.0, 2.0]], np.float64))
    >>> np.round(np.asarray(w), 6).tolist()
    [1.0, 3.0]
    """
    del sort_eigenvalues, implementation
    found = eigh_p.bind(_symmetrized("eigh", x, symmetrize_input), lower=bool(lower))
    v, w = as_weak_as(x, *found)
    if subset_by_index is None:
        return v, w
    start, stop = _subset("eigh", subset_by_index, get_aval(w).shape[-1])
    return rules.columns(v, start, stop), _values(w, start, stop)


def _subset(name: str, subset: tuple[int, int] | None, count: int) -> tuple[int, int]:
    """The first place and the one after the last of the values that are wanted of `count`."""
    if subset is None:
        return 0, count
    start, stop = (operator.index(i) for i in subset)
    if not 0 <= start <= stop <= count:
        raise ValueError(f"{name} has {count} values: subset_by_index={subset} is not among them")
    return start, stop


def _values(w: Any, start: int, stop: int) -> Any:
    return slice_in_dim(w, start, stop, axis=-1)


# ---- singular values


class SvdAlgorithm(enum.Enum):
    """Algorithms for `svd`: one is taken, whichever is named.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> x = jnp.array([[2.0, 0.0], [0.0, 3.0]])
    >>> lax.linalg.svd(x, compute_uv=False, algorithm=lax.linalg.SvdAlgorithm.JACOBI)
    Array([3., 2.], dtype=float32)
    """

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


def _svd_abstract(x: ShapedArray, *, full_matrices: bool, compute_uv: bool) -> list[ShapedArray]:
    check_matrices("svd", x)
    *batch, m, n = x.shape
    k = min(m, n)
    values = ShapedArray((*batch, k), real_type(x))
    if not compute_uv:
        return [values]
    left, right = ((m, m), (n, n)) if full_matrices else ((m, k), (k, n))
    return [values, *(ShapedArray((*batch, *shape), x.dtype) for shape in (left, right))]


svd_p = define(
    "svd",
    family=_FAMILY,
    doc="Descending singular values, and the matrices of singular vectors.",
    abstract=_svd_abstract,
    reference=host.svd,
    jvp=rules.svd_jvp,
    transpose=NOT_LINEAR,
    batch=rules.front_batch("svd", 3),
    multiple_results=True,
)


def svd(
    x: Any,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Any:
    """U, s and V^H with U diag(s) V^H = `x` [..., m, n]; only s without `compute_uv`.

    s [..., min(m, n)] is real and descends. U and V are square with `full_matrices`, else they have
    min(m, n) columns. `subset_by_index` gives the first of the singular values that are wanted and
    the one after the last. `algorithm` is ignored. Raises TypeError for rank below 2 and for other
    dtypes than float32, float64, complex64 and complex128, ValueError for a subset that is none, or
    that is not all together with `full_matrices`.

    >>> svd(np.array([[0.0, 2.0], [3.0, 0.0]], np.float32), compute_uv=False)
    Array([3., 2.], dtype=float32)
    """
    del algorithm
    check_operands("svd", x)
    given, x = x, strong(x)
    check_matrices("svd", get_aval(x))
    count = min(get_aval(x).shape[-2:])
    start, stop = _subset("svd", subset_by_index, count)
    if full_matrices and (start, stop) != (0, count):
        raise ValueError("full_matrices and subset_by_index cannot both be set")
    found: Sequence[Any] = svd_p.bind(
        x, full_matrices=bool(full_matrices), compute_uv=bool(compute_uv)
    )
    if (start, stop) != (0, count):
        s = _values(found[0], start, stop)
        if not compute_uv:
            return as_weak_as(given, s)
        u, vh = rules.columns(found[1], start, stop), rules.rows(found[2], start, stop)
        return as_weak_as(given, u, s, vh)
    if not compute_uv:
        return as_weak_as(given, found[0])
    s, u, vh = found
    return as_weak_as(given, u, s, vh)
