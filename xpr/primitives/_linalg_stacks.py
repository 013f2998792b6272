"""Factorisations of stacks of matrices, without Python between the matrices.

Small real ones are the native part's, which computes with several matrices in a vector, the others
LAPACK's. Rows in memory are LAPACK's columns, so what is here factors the transposes where that
gives the same numbers, and copies where it does not. Operands are not empty.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from xpr.runtimes import lapack
from xpr.runtimes.lapack import Argument, Each, Scratch, available, call

Host = np.ndarray[Any, Any]

# Fewer matrices take less time one by one through SciPy's functions. For larger ones OpenBLAS uses
# threads of its own.
_MANY, _SMALL = 8, 64


def is_stack(x: Host) -> bool:
    """Whether what is here is quicker for these matrices than SciPy's functions one by one."""
    many = math.prod(x.shape[:-2]) >= _MANY and max(x.shape[-2:]) < _SMALL
    return many and x.size > 0 and available()


def _flat(x: Host, rank: int) -> Host:
    """One leading axis in place of all but the last `rank`."""
    return x.reshape(math.prod(x.shape[: x.ndim - rank]), *x.shape[x.ndim - rank :])


def _columns(x: Host) -> Host:
    """A copy of the matrices with one column behind the other: [count, n, m]."""
    return _flat(x, 2).swapaxes(-1, -2).copy()


def _rows(columns: Host, batch: tuple[int, ...]) -> Host:
    return columns.swapaxes(-1, -2).reshape(*batch, *columns.shape[:-3:-1])


def cholesky(x: Host) -> Host:
    """The lower factors of Hermitian matrices; one that has none has a NaN on its diagonal."""
    n = x.shape[-1]
    if lapack.is_small(x.dtype, n):
        return lapack.factor_small_symmetric(_flat(x, 2)).reshape(x.shape)
    out = np.tril(_flat(x, 2))
    failed = np.empty(len(out), np.int32)
    # The transpose of the lower triangle is the upper one of the conjugate matrix, U its factor's.
    arguments: list[Argument] = ["U", n, Each(out), n, Each(failed)]
    call("potrf", x.dtype, arguments, count=len(out), work=n**3 / 3)
    out[failed != 0] = np.nan
    return out.reshape(x.shape)


def triangular_solve(
    a: Host, b: Host, left_side: bool, lower: bool, operation: str, unit_diagonal: bool
) -> Host:
    """X with op(A) X = B or X op(A) = B; `operation` is N, T or C, as for BLAS."""
    m, n = b.shape[-2:]
    if lapack.is_small(a.dtype, m, n):
        found = lapack.solve_small_triangles(
            _flat(a, 2),
            _flat(b, 2),
            left=left_side,
            lower=lower,
            transposed=operation != "N",
            unit=unit_diagonal,
        )
        return found.reshape(b.shape)
    out, matrices = _flat(b, 2).copy(), np.ascontiguousarray(_flat(a, 2))
    call(
        "trsm",
        a.dtype,
        [
            # The equation is transposed with its operands.
            "R" if left_side else "L",
            "U" if lower else "L",
            operation,
            "U" if unit_diagonal else "N",
            n,
            m,
            np.ones((), a.dtype),
            Each(matrices),
            a.shape[-1],
            Each(out),
            n,
        ],
        count=len(out),
        work=m * n * a.shape[-1],
    )
    return out.reshape(b.shape)


def lu(x: Host) -> tuple[Host, Host, Host]:
    """L and U in one matrix, the exchanges of rows and the permutation they make."""
    *batch, m, n = x.shape
    k = min(m, n)
    if lapack.is_small(x.dtype, m, n):
        factors, pivots, order = lapack.factor_small(_flat(x, 2))
        return factors.reshape(x.shape), pivots.reshape(*batch, k), order.reshape(*batch, m)
    factors = _columns(x)
    count = len(factors)
    pivots, info = np.empty((count, k), np.int32), np.empty(count, np.int32)
    arguments: list[Argument] = [m, n, Each(factors), m, Each(pivots), Each(info)]
    call("getrf", x.dtype, arguments, count=count, work=m * n * k)
    # Among NaNs there is no greatest element: the row that is named may not be one.
    np.minimum(np.maximum(pivots, 1, out=pivots), m, out=pivots)
    order = np.empty((count, m), np.float64)
    order[:] = np.arange(m)
    exchanges: list[Argument] = [1, Each(order), m, 1, k, Each(pivots), 1]
    call("laswp", order.dtype, exchanges, count=count, work=m)
    return (
        _rows(factors, tuple(batch)),
        (pivots - 1).reshape(*batch, k),
        order.astype(np.int32).reshape(*batch, m),
    )


@functools.cache
def _workspace(name: str, dtype: np.dtype[Any], sizes: tuple[int, ...]) -> int:
    """How much memory the function is quickest with, which it says when asked."""
    best, none = np.empty((1, 1), dtype), Each(np.empty((1, 1), dtype))
    info = Each(np.empty(1, np.int32))
    arguments: list[Argument] = [*sizes, none, sizes[0], none, Each(best), -1, info]
    call(name, dtype, arguments, count=1, work=1)
    return max(1, int(best[0, 0].real))


def _reflect(name: str, sizes: tuple[int, ...], columns: Host, taus: Host) -> None:
    """Calls what reads or writes reflections in matrices [count, n, m], and their scales.

    `sizes` are those that the function takes, m before the others.
    """
    count, n, m = columns.shape
    size, info = _workspace(name, columns.dtype, sizes), np.empty(count, np.int32)
    work: list[Argument] = [Scratch(size, columns.dtype), size, Each(info)]
    arguments: list[Argument] = [*sizes, Each(columns), m, Each(taus), *work]
    call(name, columns.dtype, arguments, count=count, work=2 * m * n * taus.shape[-1])


def geqrf(x: Host) -> tuple[Host, Host]:
    """R and the reflections below it, and their scales."""
    *batch, m, n = x.shape
    factors, k = _columns(x), min(m, n)
    taus = np.empty((len(factors), k), x.dtype)
    _reflect("geqrf", (m, n), factors, taus)
    return _rows(factors, tuple(batch)), taus.reshape(*batch, k)


def householder_product(a: Host, taus: Host) -> Host:
    """The first columns of the products of reflections."""
    *batch, m, n = a.shape
    columns, scales = _columns(a), np.ascontiguousarray(_flat(taus, 1))
    name = "ungqr" if np.iscomplexobj(a) else "orgqr"
    _reflect(name, (m, n, taus.shape[-1]), columns, scales)
    return _rows(columns, tuple(batch))
