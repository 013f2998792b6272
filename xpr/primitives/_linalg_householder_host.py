"""Factorisations by Householder reflections on the host, by LAPACK through SciPy.

A reflection is H = I - tau v v^H. Products of reflections are kept as LAPACK keeps them: the v, of
which the first element that is not zero is 1, below the diagonal of a matrix, and the tau apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.primitives import _linalg_stacks as stacks
from xpr.primitives._linalg_host import LARGE, Host, finite_only, lapack


def _each(function: Callable[..., Any], types: Sequence[Any], x: Host) -> tuple[Host, ...]:
    """The results of `function` on each matrix of a stack; `types` are shapes and dtypes."""
    batch = x.shape[:-2]
    out = tuple(np.empty((*batch, *shape), dtype) for shape, dtype in types)
    for index in np.ndindex(*batch):
        for array, value in zip(out, function(x[index]), strict=True):
            array[index] = value
    return out


def _with_workspace(function: Any, *args: Any, **more: Any) -> tuple[Any, ...]:
    """`function` with the greatest workspace it can use, which it says when asked; no `info`."""
    *_, work, _ = function(*args, lwork=-1, **more)
    *out, _, info = function(*args, lwork=max(1, int(work[0].real)), **more)
    if info:
        raise ValueError(f"LAPACK refuses argument {-info}")
    return tuple(out)


def geqrf(x: Host) -> tuple[Host, Host]:
    """R and the reflections below it, and their scales."""
    m, n = x.shape[-2:]
    k = min(m, n)
    if x.size == 0:
        return x.copy(), np.zeros((*x.shape[:-2], k), x.dtype)
    if stacks.is_stack(x):
        return stacks.geqrf(x)
    function = lapack("geqrf", x.dtype)
    types = [((m, n), x.dtype), ((k,), x.dtype)]
    factors, taus = _each(lambda a: _with_workspace(function, a), types, x)
    return factors, taus


def geqp3(x: Host) -> tuple[Host, Host, Host]:
    """R and the reflections below it, the order of the columns, and the scales."""
    *batch, m, n = x.shape
    k = min(m, n)
    if x.size == 0:
        order = np.broadcast_to(np.arange(n, dtype=np.int32), (*batch, n)).copy()
        return x.copy(), order, np.zeros((*batch, k), x.dtype)
    function = lapack("geqp3", x.dtype)
    types = [((m, n), x.dtype), ((n,), np.int32), ((k,), x.dtype)]

    def one(a: Host) -> tuple[Any, ...]:
        factors, order, taus = _with_workspace(function, a)
        return factors, order - 1, taus

    # Among NaNs there is no longest column.
    factors, order, taus = finite_only(lambda a: _each(one, types, a), x)
    return factors, order, taus


def qr(x: Host, *, full_matrices: bool) -> tuple[Host, Host]:
    """Q and R by Householder reflections, with the signs of LAPACK's geqrf."""
    *batch, m, n = x.shape
    k = m if full_matrices else min(m, n)
    if x.size == 0:
        q = np.broadcast_to(np.eye(m, k, dtype=x.dtype), (*batch, m, k)).copy()
        return q, np.zeros((*batch, k, n), x.dtype)
    if min(m, n) < LARGE and not stacks.is_stack(x):
        q, r = np.linalg.qr(x, mode="complete" if full_matrices else "reduced")
        return np.ascontiguousarray(q), np.ascontiguousarray(r)
    return _q_and_r(*geqrf(x), full_matrices)


def _q_and_r(factors: Host, taus: Host, full_matrices: bool) -> tuple[Host, Host]:
    """Q and R of matrices from R and the reflections below it."""
    *batch, m, n = factors.shape
    width = m if full_matrices else taus.shape[-1]
    reflections = factors[..., :width]
    if width > n:
        reflections = np.zeros((*batch, m, width), factors.dtype)
        reflections[..., :n] = factors
    return householder_product(reflections, taus), np.triu(factors[..., :width, :])


def qr_pivoted(x: Host, *, full_matrices: bool) -> tuple[Host, Host, Host]:
    """Q, R and the order of the columns of the matrices of which they are the factors."""
    if x.size == 0:
        return *qr(x, full_matrices=full_matrices), geqp3(x)[1]
    factors, order, taus = geqp3(x)
    q, r = _q_and_r(factors, taus, full_matrices)
    return q, r, order


def householder_product(a: Host, taus: Host) -> Host:
    """The first columns of the products of reflections."""
    *_, m, n = a.shape
    if a.size == 0 or taus.size == 0:
        return np.broadcast_to(np.eye(m, n, dtype=a.dtype), a.shape).copy()
    if stacks.is_stack(a):
        return stacks.householder_product(a, taus)
    function = lapack("ungqr" if np.iscomplexobj(a) else "orgqr", a.dtype)
    out = np.empty(a.shape, a.dtype)
    for index in np.ndindex(*a.shape[:-2]):
        (out[index],) = _with_workspace(function, a[index], taus[index])
    return out


def hessenberg(x: Host) -> tuple[Host, Host]:
    """Hessenberg matrices and the reflections below them, and their scales."""
    n = x.shape[-1]
    if n < 2:
        return x.copy(), np.zeros((*x.shape[:-2], max(n - 1, 0)), x.dtype)
    function, ask = lapack("gehrd", x.dtype), lapack("gehrd_lwork", x.dtype)
    lwork = int(ask(n)[0].real)
    types = [((n, n), x.dtype), ((n - 1,), x.dtype)]
    factors, taus = _each(lambda a: function(a, lwork=lwork)[:2], types, x)
    return factors, taus


def tridiagonal(x: Host, *, lower: bool) -> tuple[Host, Host, Host, Host]:
    """Tridiagonal matrices and reflections, the diagonal and the one beside it, the scales."""
    *batch, n, _ = x.shape
    real = x.real.dtype
    if n < 2:
        none = np.zeros((*batch, 0), real)
        d = x[..., 0].real.copy() if n else none
        return x.real.astype(x.dtype), d, none, none.astype(x.dtype)
    prefix = "he" if np.iscomplexobj(x) else "sy"
    function, ask = lapack(f"{prefix}trd", x.dtype), lapack(f"{prefix}trd_lwork", x.dtype)
    lwork = int(ask(n, lower=int(lower))[0].real)
    types = [((n, n), x.dtype), ((n,), real), ((n - 1,), real), ((n - 1,), x.dtype)]
    factors, d, e, taus = _each(lambda a: function(a, lower=int(lower), lwork=lwork)[:4], types, x)
    return factors, d, e, taus
