"""Rows of factorisations by reflections, against plain loops over columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.op_row import OpRow
from tests.op_rows._linalg_args import fixed, matrices, reflections, row
from xpr.primitives import linalg_householder as p
from xpr.primitives._linalg_rules import triangle

# ---- oracles


def _reflection(x: Any) -> tuple[Any, Any, Any]:
    """v with v_0 = 1, tau and beta, such that I - conj(tau) v v^H takes `x` to (beta, 0, ...)."""
    v = x.copy()
    v[0] = 1
    if not np.any(x[1:]) and x[0].imag == 0:
        return v, 0.0, x[0]
    beta = -np.copysign(np.linalg.norm(x), x[0].real)
    v[1:] = x[1:] / (x[0] - beta)
    return v, (beta - x[0]) / beta, beta


def _triangularize(a: Any, *, pivoting: bool) -> tuple[Any, Any, Any]:
    n, k = a.shape[1], min(a.shape)
    order, taus = np.arange(n, dtype=np.int32), np.zeros(k, a.dtype)
    for j in range(k):
        if pivoting:
            chosen = j + int(np.argmax(np.linalg.norm(a[j:, j:], axis=0)))
            a[:, [j, chosen]] = a[:, [chosen, j]]
            order[[j, chosen]] = order[[chosen, j]]
        v, taus[j], _ = _reflection(a[j:, j])
        a[j:, j:] -= np.conj(taus[j]) * np.outer(v, v.conj() @ a[j:, j:])
        a[j + 1 :, j] = v[1:]
    return a, order, taus


def _to_hessenberg(a: Any) -> tuple[Any, Any]:
    n = len(a)
    taus = np.zeros(max(n - 1, 0), a.dtype)
    for j in range(n - 1):
        v, taus[j], _ = _reflection(a[j + 1 :, j])
        a[j + 1 :, j:] -= np.conj(taus[j]) * np.outer(v, v.conj() @ a[j + 1 :, j:])
        a[:, j + 1 :] -= taus[j] * np.outer(a[:, j + 1 :] @ v, v.conj())
        a[j + 2 :, j] = v[1:]
    return a, taus


def _each(function: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], list[Any]]:
    """The results of `function` on each matrix of a stack, in double precision."""

    def oracle(x: Any) -> list[Any]:
        found = [
            function(x[index].astype(np.complex128 if x.dtype.kind == "c" else np.float64))
            for index in np.ndindex(*x.shape[:-2])
        ]
        return [
            np.stack(values).reshape(*x.shape[:-2], *values[0].shape)
            for values in zip(*found, strict=True)
        ]

    return oracle


def _geqrf(a: Any) -> tuple[Any, Any]:
    factors, _, taus = _triangularize(a, pivoting=False)
    return factors, taus


def _geqp3(a: Any) -> tuple[Any, Any, Any]:
    return _triangularize(a, pivoting=True)


def _tridiagonal(a: Any) -> tuple[Any, ...]:
    h, taus = _to_hessenberg(
        np.tril(a) + np.tril(a, -1).conj().T - 1j * np.diag(np.imag(np.diag(a)))
    )
    if a.dtype.kind != "c":
        h, taus = h.real, taus.real
    return np.tril(h), np.real(np.diag(h)), np.real(np.diag(h, -1)), taus


def _lower_form(x: Any) -> list[Any]:
    factors, *rest = p.tridiagonal(x)
    return [triangle(factors, lower=True), *rest]


def _form_norms(x: Any) -> Any:
    """The trace and the square of the norm of the tridiagonal matrix."""
    _, d, e, _ = p.tridiagonal(x, lower=False)
    return [(d).sum(-1), (d * d).sum(-1) + 2 * (e * e).sum(-1)]


def _norms(x: Any) -> Any:
    diagonal = np.real(np.diagonal(x, axis1=-2, axis2=-1))
    above = np.abs(np.triu(x, 1)) ** 2
    return [diagonal.sum(-1), (diagonal**2).sum(-1) + 2 * above.sum((-2, -1))]


def _product(a: Any, taus: Any) -> Any:
    """The columns of the product of the reflections, one after the other."""
    *batch, m, n = a.shape
    out = np.zeros((*batch, m, n), np.complex128)
    for index in np.ndindex(*batch):
        q = np.eye(m, dtype=np.complex128)
        for j, tau in enumerate(taus[index]):
            v = np.concatenate([np.zeros(j), [1], a[index][j + 1 :, j]])
            q = q - tau * np.outer(q @ v, v.conj())
        out[index] = q[:, :n]
    return out if a.dtype.kind == "c" else out.real


_NONE = "it has no derivative"
_NAN = ([[1.0, np.nan], [0.0, 1.0]],)


def _rows_of_shapes(
    name: str, function: Any, oracle: Any, shapes: tuple[tuple[int, ...], ...]
) -> list[OpRow]:
    return [
        row(name, str(shape), function, matrices(shape), oracle, no_derivative_check=_NONE)
        for shape in shapes
    ]


_SHAPES = ((3, 3), (5, 2), (2, 4), (2, 2, 4, 3), (1, 1))
_SQUARE = ((4, 4), (2, 3, 3), (2, 2), (1, 1))

ROWS = [
    *_rows_of_shapes("geqrf", p.geqrf, _each(_geqrf), (*_SHAPES, (20, 24))),
    *_rows_of_shapes("geqrf", p.geqrf, None, ((3, 0), (0, 3), (0, 2, 2))),
    *_rows_of_shapes("geqp3", p.geqp3, _each(_geqp3), _SHAPES),
    *_rows_of_shapes("geqp3", p.geqp3, None, ((3, 0), (0, 3), (0, 2, 2))),
    row(
        "geqp3",
        "not finite",
        p.geqp3,
        fixed(*_NAN),
        lambda x: [np.full((2, 2), np.nan), np.arange(2), np.full(2, np.nan)],
        no_derivative_check=_NONE,
    ),
    *(
        row("householder_product", f"{a} {k}", p.householder_product, reflections(a, k), _product)
        for a, k in (((3, 3), 3), ((4, 2), 2), ((2, 4, 3), 1), ((3, 2), 0), ((1, 1), 1))
    ),
    row(
        "householder_product",
        "empty",
        p.householder_product,
        reflections((3, 0), 0),
        lambda a, taus: a,
    ),
    *_rows_of_shapes("hessenberg", p.hessenberg, _each(_to_hessenberg), _SQUARE),
    *_rows_of_shapes("hessenberg", p.hessenberg, None, ((0, 0), (0, 2, 2))),
    *_rows_of_shapes("tridiagonal", _lower_form, _each(_tridiagonal), _SQUARE),
    *_rows_of_shapes("tridiagonal", _lower_form, None, ((0, 0), (0, 2, 2))),
    row(
        "tridiagonal", "upper", _form_norms, matrices((2, 4, 4)), _norms, no_derivative_check=_NONE
    ),
]
