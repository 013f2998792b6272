"""Rows of eigenvalues and Schur forms, by their defining equations and by traces of powers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_row import OpRow
from tests.op_rows._linalg_args import fixed, matrices, row
from xpr.primitives import elementwise as el
from xpr.primitives import linalg_general as p
from xpr.primitives._linalg_rules import adjoint, along_columns, along_rows, matmul
from xpr.primitives.convert import convert_element_type


def _equations(x: Any) -> list[Any]:
    """The residuals of both kinds of vectors, and their norms."""
    w, vl, vr = p.eig(x)
    a = convert_element_type(x, w.dtype)
    right = matmul(a, vr) - vr * along_columns(w, vr.shape)
    left = matmul(adjoint(vl), a) - along_rows(w, vl.shape) * adjoint(vl)
    return [right, left, *((el.abs(v) ** 2).sum(-2) for v in (vl, vr))]


def _no_residual(x: Any) -> list[Any]:
    zeros, ones = np.zeros_like(x), np.ones(x.shape[:-1])
    return [zeros, zeros, ones, ones]


def _power_sums(x: Any) -> list[Any]:
    (w,) = p.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False)
    return [w.sum(-1), (w * w).sum(-1), (w * w * w).sum(-1)]


def _traces(x: Any) -> list[Any]:
    return [np.trace(y, axis1=-2, axis2=-1) for y in (x, x @ x, x @ x @ x)]


def _sizes(x: Any) -> list[Any]:
    """The magnitudes of the elements of vectors, which have no sign to choose."""
    _, vl, vr = p.eig(x, enable_eigvec_derivs=True)
    return [el.abs(vl), el.abs(vr)]


def _spread(rng: np.random.Generator, dtype: np.dtype[Any]) -> Any:
    """A matrix whose eigenvalues are far from one another."""
    (x,) = matrices((3, 3))(rng, dtype)
    return ((x + np.diag([0, 2, 5])).astype(dtype),)


def _products(x: Any) -> list[Any]:
    t, q = p.schur(x)
    return [matmul(matmul(q, t), adjoint(q)), matmul(adjoint(q), q)]


def _products_oracle(x: Any) -> list[Any]:
    return [x, np.broadcast_to(np.eye(x.shape[-1]), x.shape)]


def _form(x: Any) -> Any:
    return p.schur(x, compute_schur_vectors=False)[0]


_NONE = "it has no derivative"
_NAN = fixed([[np.nan, 1.0], [0.0, 1.0]])
_SHAPES = ((4, 4), (2, 2, 3, 3), (1, 1))


def _rows() -> list[OpRow]:
    rows = []
    for shape in _SHAPES:
        args, case = matrices(shape), str(shape)
        rows += [
            row("eig", case, _equations, args, _no_residual, no_derivative_check="see `sizes`"),
            row("eig", f"powers {case}", _power_sums, args, _traces),
            row("schur", case, _products, args, _products_oracle, no_derivative_check=_NONE),
            row("schur", f"form {case}", _form, args, no_derivative_check=_NONE),
        ]
    return rows


ROWS = [
    *_rows(),
    row("eig", "sizes", _sizes, _spread),
    row("eig", "empty", p.eig, matrices((2, 0, 0)), no_derivative_check="nothing to check"),
    row(
        "eig",
        "not finite",
        lambda x: p.eig(x, compute_left_eigenvectors=False),
        _NAN,
        lambda x: [np.full(s, complex(np.nan, np.nan)) for s in ((2,), (2, 2))],
        no_derivative_check="the derivative of NaN is not checked",
    ),
    row("schur", "empty", p.schur, matrices((0, 0)), no_derivative_check=_NONE),
    row(
        "schur",
        "not finite",
        _form,
        _NAN,
        lambda x: np.full((2, 2), np.nan),
        no_derivative_check=_NONE,
    ),
]
