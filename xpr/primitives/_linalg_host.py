"""Factorisations on the host, by LAPACK and BLAS through NumPy and SciPy.

All take stacks of matrices (the last two axes). A matrix that has no factorisation gives NaN; the
others of the stack are not touched by that.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from xpr.primitives import _linalg_stacks as stacks
from xpr.primitives._blas_threads import with_few_threads
from xpr.runtimes.lapack import PREFIXES
from xpr.runtimes.scipy_parts import compiled_module

Host = np.ndarray[Any, Any]


# From this size on SciPy's LAPACK is called matrix by matrix: for 512 by 512 it takes a fifth to
# nine tenths of the time of NumPy's, which loops over stacks.
LARGE = 64


@functools.cache
def lapack(name: str, dtype: np.dtype[Any]) -> Any:
    """SciPy's binding of the LAPACK function `name` for `dtype`, of which it is the exact name."""
    # SciPy's LAPACK is loaded when it is first needed.
    function: Any = getattr(compiled_module("linalg._flapack"), PREFIXES[dtype.char] + name, None)
    if function is None:
        from scipy.linalg import get_lapack_funcs  # noqa: PLC0415 - takes longer than all of xpr

        function = get_lapack_funcs(name, dtype=dtype)
    return with_few_threads(name, function)


@functools.cache
def _trsm(dtype: np.dtype[Any]) -> Any:
    """SciPy's binding of BLAS's solution of triangular equations."""
    function: Any = getattr(compiled_module("linalg._fblas"), PREFIXES[dtype.char] + "trsm", None)
    if function is None:
        from scipy.linalg import get_blas_funcs  # noqa: PLC0415 - takes longer than all of xpr

        function = get_blas_funcs("trsm", dtype=dtype)
    return with_few_threads("trsm", function)


def cholesky(x: Host) -> Host:
    """The lower Cholesky factors of Hermitian matrices, of which the lower triangle is read."""
    if stacks.is_stack(x):
        out = stacks.cholesky(x)
    else:
        out = _large_cholesky(x) if x.shape[-1] >= LARGE else _small_cholesky(x)
    failed = np.isnan(np.diagonal(out, axis1=-2, axis2=-1)).any(-1)
    if failed.any():
        out[failed] = np.tril(np.full_like(out[failed], np.nan))
    return out


def _large_cholesky(x: Host) -> Host:
    potrf, out = lapack("potrf", x.dtype), np.empty(x.shape, x.dtype)
    for index in np.ndindex(*x.shape[:-2]):
        # The transpose of rows in memory are LAPACK's columns, and the factor's transpose its U.
        factor, info = potrf(x[index].T, lower=0, clean=1)
        out[index] = np.nan if info else factor.T
    return out


def _small_cholesky(x: Host) -> Host:
    try:
        out = np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        out = np.full_like(x, np.nan)
        for index in np.ndindex(*x.shape[:-2]):
            try:
                out[index] = np.linalg.cholesky(x[index])
            except np.linalg.LinAlgError:
                continue
    return out


# Stacks of more matrices than this times their size are solved row by row, all matrices at once.
_STACK = 4


def triangular_solve(
    a: Host,
    b: Host,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> Host:
    """X with op(A) X = B, or X op(A) = B; a zero on the diagonal gives infinities and NaN."""
    if b.size == 0:
        return np.zeros_like(b)
    if conjugate_a and not (transpose_a and np.iscomplexobj(a)):
        a, conjugate_a = a.conj(), False
    if stacks.is_stack(a) and b.shape[:-2] == a.shape[:-2]:
        operation = "C" if conjugate_a else "T" if transpose_a else "N"
        return stacks.triangular_solve(a, b, left_side, lower, operation, unit_diagonal)
    n, count = a.shape[-1], math.prod(a.shape[:-2])
    if count > _STACK * n:
        return _substitution(a, b, left_side, lower, transpose_a, conjugate_a, unit_diagonal)
    trsm, out = _trsm(a.dtype), np.empty(b.shape, b.dtype)
    for index in np.ndindex(*a.shape[:-2]):
        # The transposes of rows in memory are BLAS's columns; the equation is transposed with them.
        solved = trsm(
            1.0,
            a[index].T,
            b[index].T,
            side=int(left_side),
            lower=int(not lower),
            trans_a=2 if conjugate_a else int(transpose_a),
            diag=int(unit_diagonal),
        )
        out[index] = solved.T
    return out


def _substitution(
    a: Host, b: Host, left: bool, lower: bool, transposed: bool, conjugated: bool, unit: bool
) -> Host:
    """Forward substitution, after turning the equation into one with a lower matrix on the left."""
    m = a.conj() if conjugated else a
    if transposed == left:
        m = m.swapaxes(-1, -2)
    b = b if left else b.swapaxes(-1, -2)
    if lower == (transposed == left):
        m, b = m[..., ::-1, ::-1], b[..., ::-1, :]
    x = np.empty(b.shape, b.dtype)
    with np.errstate(all="ignore"):
        for i in range(b.shape[-2]):
            row = b[..., i, :] - (m[..., i : i + 1, :i] @ x[..., :i, :])[..., 0, :]
            x[..., i, :] = row if unit else row / m[..., i, i, None]
    if lower == (transposed == left):
        x = x[..., ::-1, :]
    return np.ascontiguousarray(x if left else x.swapaxes(-1, -2))


def lu(x: Host) -> tuple[Host, Host, Host]:
    """L and U in one matrix, the exchanges of rows and the permutation they make."""
    if stacks.is_stack(x):
        return stacks.lu(x)
    *batch, m, n = x.shape
    k = min(m, n)
    factors, pivots = np.empty(x.shape, x.dtype), np.empty((*batch, k), np.int32)
    order = np.empty((*batch, m), np.int32)
    if x.size == 0:
        order[...] = np.arange(m)
        return factors, pivots, order
    getrf = lapack("getrf", x.dtype)
    for index in np.ndindex(*batch):
        factors[index], rows, _ = getrf(x[index])
        # Among NaNs there is no greatest element: the row that is named may not be one.
        rows = rows.clip(0, m - 1)
        pivots[index], order[index] = rows, _permutation(rows.tolist(), m)
    return factors, pivots, order


def _permutation(pivots: list[int], size: int) -> list[int]:
    """The order of `size` rows after row i has been exchanged with row `pivots[i]`, in turn."""
    order = list(range(size))
    for i, other in enumerate(pivots):
        order[i], order[other] = order[other], order[i]
    return order


def eigh(x: Host, *, lower: bool) -> tuple[Host, Host]:
    """Eigenvectors (columns) and ascending eigenvalues of Hermitian matrices."""
    real = x.real.dtype
    # The other triangle is not read: it may hold anything.
    read = x if np.isfinite(x).all() else np.tril(x) if lower else np.triu(x)

    def small(matrices: Host) -> tuple[Host, ...]:
        values, vectors = np.linalg.eigh(matrices, "L" if lower else "U")
        return vectors, values

    def large(matrix: Host) -> tuple[Host, ...]:
        return _large_eigh(matrix, lower)

    types = [(x.shape[-2:], x.dtype), (x.shape[-1:], real)]
    vectors, values = _guarded(small, large, x.shape[-1], read, types)
    return vectors, values


def _large_eigh(x: Host, lower: bool) -> tuple[Host, Host]:
    # The transpose of rows in memory are LAPACK's columns: those of the conjugate matrix.
    evd = lapack("heevd" if np.iscomplexobj(x) else "syevd", x.dtype)
    values, vectors, info = evd(x.T, lower=int(not lower))
    if info:
        raise np.linalg.LinAlgError("the eigenvalues do not converge")
    return vectors.conj() if np.iscomplexobj(x) else vectors, values


def svd(x: Host, *, full_matrices: bool, compute_uv: bool) -> tuple[Host, ...]:
    """Descending singular values, and with `compute_uv` U and V^H."""
    m, n = x.shape[-2:]
    k, real = min(m, n), x.real.dtype

    def large(matrix: Host) -> tuple[Host, ...]:
        how = {"full_matrices": int(full_matrices), "compute_uv": int(compute_uv)}
        u, s, vh, info = lapack("gesdd", x.dtype)(matrix, **how)
        if info:
            raise np.linalg.LinAlgError("the singular values do not converge")
        return (s, u, vh) if compute_uv else (s,)

    def small(matrices: Host) -> tuple[Host, ...]:
        if not compute_uv:
            return (np.linalg.svd(matrices, compute_uv=False),)
        u, s, vh = np.linalg.svd(matrices, full_matrices=full_matrices)
        return s, u, vh

    if not compute_uv:
        return _guarded(small, large, k, x, [((k,), real)])
    shapes = ((m, m), (n, n)) if full_matrices else ((m, k), (k, n))
    if x.size == 0:
        u, vh = (
            np.broadcast_to(np.eye(*s, dtype=x.dtype), (*x.shape[:-2], *s)).copy() for s in shapes
        )
        return np.zeros((*x.shape[:-2], k), real), u, vh
    types = [((k,), real), *((s, x.dtype) for s in shapes)]
    return _guarded(small, large, k, x, types)


Function = Callable[[Host], tuple[Host, ...]]


def _guarded(
    small: Function, large: Function, size: int, x: Host, types: list[tuple[tuple[int, ...], Any]]
) -> tuple[Host, ...]:
    """Results for the matrices that are finite and that converge; NaN for the others.

    `small` takes a stack, `large` one matrix; the `size` of the matrices says which is called.
    """
    batch = x.shape[:-2]
    if size < LARGE and np.isfinite(x).all():
        try:
            return tuple(np.ascontiguousarray(v) for v in small(x))
        except np.linalg.LinAlgError:
            pass  # one of the stack does not converge: each alone below, the others count
    function = small if size < LARGE else large
    out = tuple(np.full((*batch, *s), np.nan, d) for s, d in types)
    for index in finite_places(x):
        try:
            results = function(x[index])
        except np.linalg.LinAlgError:
            continue
        for array, value in zip(out, results, strict=True):
            array[index] = value
    return out


def finite_only(function: Callable[[Host], tuple[Host, ...]], x: Host) -> tuple[Host, ...]:
    """`function` of a stack, with NaN for the inexact results of matrices that are not finite."""
    finite = np.asarray(np.isfinite(x).all((-2, -1)))
    if finite.all():
        return function(x)
    out = function(np.where(finite[..., None, None], x, 0))
    for value in out:
        if value.dtype.kind in "fc":
            value[~finite] = np.nan
    return out


def finite_places(x: Host) -> Iterator[tuple[int, ...]]:
    """The places in a stack of the matrices whose elements are all finite."""
    finite = np.asarray(np.isfinite(x).all((-2, -1)))
    return (index for index in np.ndindex(*finite.shape) if finite[index])
