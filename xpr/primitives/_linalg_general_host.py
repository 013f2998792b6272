"""Eigenvalues and Schur forms of square matrices on the host, by LAPACK through SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.primitives._linalg_host import Host, finite_places, lapack


def eig(x: Host, *, left: bool, right: bool, derivatives: bool) -> tuple[Host, ...]:
    """Eigenvalues, and left and right eigenvectors where they are wanted; all are complex."""
    del derivatives
    dtype = np.result_type(x.dtype, np.complex64)
    n = x.shape[-1]
    out = [np.full(x.shape[:-1], complex(np.nan, np.nan), dtype)]
    out += [np.full(x.shape, complex(np.nan, np.nan), dtype) for wanted in (left, right) if wanted]
    if n == 0:
        return tuple(out)
    function, ask = lapack("geev", x.dtype), lapack("geev_lwork", x.dtype)
    how = {"compute_vl": int(left), "compute_vr": int(right)}
    lwork = int(ask(n, **how)[0].real)
    # Matrices that are not finite are left NaN: no iteration converges for them.
    for index in finite_places(x):
        *values, vl, vr, info = function(x[index], lwork=lwork, **how)
        if info:
            continue
        w = values[0] if len(values) == 1 else values[0] + 1j * values[1]
        vectors = [v for v, wanted in ((vl, left), (vr, right)) if wanted]
        if len(values) == 2:
            vectors = [_complex_vectors(w, v) for v in vectors]
        for array, value in zip(out, (w, *vectors), strict=True):
            array[index] = value
    return tuple(out)


def _complex_vectors(w: Host, v: Host) -> Host:
    """Eigenvectors of a real matrix: those of a pair of conjugates are given by their parts."""
    out = v.astype(w.dtype)
    first = np.flatnonzero(w.imag > 0)
    out[:, first] = v[:, first] + 1j * v[:, first + 1]
    out[:, first + 1] = out[:, first].conj()
    return out


def schur(x: Host, *, vectors: bool) -> tuple[Host, ...]:
    """Schur forms, and with `vectors` the unitary matrices that lead to them."""
    n = x.shape[-1]
    out = [np.full(x.shape, np.nan, x.dtype) for _ in range(1 + vectors)]
    if n == 0:
        return tuple(out)
    function: Any = lapack("gees", x.dtype)

    def unsorted(*_: Any) -> bool:
        return False

    how = {"compute_v": int(vectors), "sort_t": 0}
    *_, work, _ = function(unsorted, np.zeros((n, n), x.dtype), lwork=-1, **how)
    lwork = int(work[0].real)
    for index in finite_places(x):
        form, *_, basis, _, info = function(unsorted, x[index], lwork=lwork, **how)
        if info:
            continue
        for array, value in zip(out, (form, basis)[: 1 + vectors], strict=True):
            array[index] = value
    return tuple(out)
