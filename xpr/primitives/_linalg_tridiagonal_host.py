"""Tridiagonal equations on the host: LAPACK, or elimination of all systems of a stack at once."""

from __future__ import annotations

import math

import numpy as np

from xpr.primitives._linalg_host import Host, lapack


def tridiagonal_solve(dl: Host, d: Host, du: Host, b: Host, *, perturb_singular: bool) -> Host:
    """X with A X = B; singular systems give NaN, or with `perturb_singular` great numbers."""
    if b.size == 0:
        return b.copy()
    n, count = d.shape[-1], math.prod(d.shape[:-1])
    if n == 1 or count > n or perturb_singular:
        return _elimination(dl, d, du, b, perturb_singular)
    gtsv, out = lapack("gtsv", b.dtype), np.empty(b.shape, b.dtype)
    for index in np.ndindex(*d.shape[:-1]):
        *_, x, info = gtsv(dl[index][1:], d[index], du[index][:-1], b[index])
        out[index] = np.nan if info else x
    return out


def _elimination(dl: Host, d: Host, du: Host, b: Host, perturb: bool) -> Host:
    """Gaussian elimination with exchanges of neighbouring rows, as in LAPACK's gtsv.

    Each row of U has three elements. `rows[i]` holds them and the right side: [4 arrays of the
    stack], of which the last has one more axis.
    """
    n = d.shape[-1]
    zero = np.zeros_like(d[..., 0])
    row = [d[..., 0], du[..., 0] if n > 1 else zero, zero, b[..., 0, :]]
    rows = []
    with np.errstate(all="ignore"):
        for i in range(1, n):
            above = du[..., i] if i + 1 < n else zero
            below = [dl[..., i], d[..., i], above, b[..., i, :]]
            swap = _size(below[0]) > _size(row[0])
            pivot = [_choose(swap, y, x) for x, y in zip(row, below, strict=True)]
            other = [_choose(swap, x, y) for x, y in zip(row, below, strict=True)]
            factor = np.where(pivot[0] == 0, zero, other[0] / pivot[0])
            row = [
                other[1] - factor * pivot[1],
                other[2] - factor * pivot[2],
                zero,
                other[3] - factor[..., None] * pivot[3],
            ]
            rows.append(pivot)
        rows.append(row)
        return _back_substitution(rows, perturb)


def _back_substitution(rows: list[list[Host]], perturb: bool) -> Host:
    pivots = np.stack([row[0] for row in rows], -1)
    singular = (pivots == 0).any(-1)
    if perturb:
        pivots = _away_from_zero(pivots, np.stack([_size(v) for row in rows for v in row[:3]], -1))
    right = rows[0][3]
    x = np.empty((*right.shape[:-1], len(rows), right.shape[-1]), right.dtype)
    for i in reversed(range(len(rows))):
        _, second, third, rest = rows[i]
        for k, element in ((i + 1, second), (i + 2, third)):
            if k < len(rows):
                rest = rest - element[..., None] * x[..., k, :]
        x[..., i, :] = rest / pivots[..., i, None]
    if not perturb:
        x[singular] = np.nan
    return x


def _away_from_zero(pivots: Host, sizes: Host) -> Host:
    """Pivots below the rounding error of the greatest element of U, moved there."""
    info = np.finfo(pivots.dtype)
    least = np.maximum(info.eps * sizes.max(-1, keepdims=True), info.tiny)
    negative = pivots.real < 0
    moved = np.where(negative, -least, least).astype(pivots.dtype)
    return np.where(_size(pivots) < least, moved, pivots)


def _choose(which: Host, x: Host, y: Host) -> Host:
    return np.where(which if x.ndim == which.ndim else which[..., None], x, y)


def _size(x: Host) -> Host:
    return np.abs(x.real) + np.abs(x.imag) if np.iscomplexobj(x) else np.abs(x)
