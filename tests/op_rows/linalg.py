"""Rows of the factorisations of matrices, against plain loops, NumPy's solver and products."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.op_row import Arrays, OpRow, random_values
from tests.op_rows._linalg_args import Args, definite, fixed, matrices, row
from xpr.primitives import elementwise as el
from xpr.primitives import linalg as p
from xpr.primitives._linalg_rules import adjoint, along_columns, matmul
from xpr.primitives.convert import convert_element_type


def _triangular(shape: tuple[int, ...], right: tuple[int, ...]) -> Args:
    """Matrices with both triangles filled, and a strong diagonal; the right side."""

    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
        a = random_values(rng, dtype, shape, -0.5, 0.5) + 2 * np.eye(shape[-1], dtype=dtype)
        return a.astype(dtype), random_values(rng, dtype, right, -1, 1)

    return args


# ---- oracles


def _cholesky_loop(x: Any) -> Any:
    """Cholesky and Banachiewicz: element by element."""
    wide = x.astype(np.complex128)
    wide = (wide + wide.conj().swapaxes(-1, -2)) / 2
    out = np.zeros_like(wide)
    for index in np.ndindex(*x.shape[:-2]):
        a, low = wide[index], out[index]
        for i, j in itertools.product(range(len(a)), repeat=2):
            if j <= i:
                rest = a[i, j] - sum(low[i, k] * low[j, k].conjugate() for k in range(j))
                low[i, j] = np.sqrt(rest) if i == j else rest / low[j, j]
    return out if x.dtype.kind == "c" else out.real


def _solve_oracle(**how: bool) -> Callable[[Any, Any], Any]:
    def oracle(a: Any, b: Any) -> Any:
        m = np.tril(a) if how["lower"] else np.triu(a)
        if how["unit_diagonal"]:
            i = np.arange(m.shape[-1])
            m[..., i, i] = 1
        m = m.conj() if how["conjugate_a"] else m
        m = m.swapaxes(-1, -2) if how["transpose_a"] else m
        if how["left_side"]:
            return np.linalg.solve(m, b)
        return np.linalg.solve(m.swapaxes(-1, -2), b.swapaxes(-1, -2)).swapaxes(-1, -2)

    return oracle


def _lu_loop(x: Any) -> list[Any]:
    """Elimination row by row; the pivot has the greatest |re| + |im|, as in LAPACK."""
    *batch, m, n = x.shape
    k = min(m, n)
    wide = x.astype(np.complex128)
    pivots = np.zeros((*batch, k), np.int32)
    order = np.broadcast_to(np.arange(m, dtype=np.int32), (*batch, m)).copy()
    for index in np.ndindex(*batch):
        a = wide[index]
        for i in range(k):
            sizes = np.abs(a[i:, i].real) + np.abs(a[i:, i].imag)
            pivots[index][i] = pivot = i + int(np.argmax(sizes))
            a[[i, pivot]] = a[[pivot, i]]
            order[index][[i, pivot]] = order[index][[pivot, i]]
            if a[i, i] != 0:
                a[i + 1 :, i] /= a[i, i]
            a[i + 1 :, i + 1 :] -= np.outer(a[i + 1 :, i], a[i, i + 1 :])
    return [wide if x.dtype.kind == "c" else wide.real, pivots, order]


def _nan_triangle(x: Any) -> Any:
    return np.tril(np.full_like(x, np.nan))


# ---- functions whose value is known


def _identity_like(n: int) -> Callable[[Any], Any]:
    return lambda x: np.broadcast_to(np.eye(n), (*x.shape[:-2], n, n))


def _qr_products(full: bool) -> Callable[[Any], list[Any]]:
    def function(x: Any) -> list[Any]:
        q, r = p.qr(x, full_matrices=full)
        return [matmul(q, r), matmul(adjoint(q), q)]

    return function


def _qr_factors(full: bool) -> Callable[[Any], Any]:
    return lambda x: p.qr(x, full_matrices=full)


def _qr_oracle(full: bool) -> Callable[[Any], list[Any]]:
    def oracle(x: Any) -> list[Any]:
        m, n = x.shape[-2:]
        return [x, _identity_like(m if full else min(m, n))(x)]

    return oracle


def _function_of(v: Any, w: Any, other: Any) -> Any:
    """v diag(w) other, which signs and phases of vectors do not change."""
    dtype = np.dtype(v.dtype)
    scales = convert_element_type(along_columns(w, v.shape), dtype)
    return matmul(el.mul(v, scales), other)


def _eigh_products(lower: bool) -> Callable[[Any], list[Any]]:
    def function(x: Any) -> list[Any]:
        v, w = p.eigh(x, lower=lower)
        return [_function_of(v, w, adjoint(v)), matmul(adjoint(v), v), w]

    return function


def _signs(v: Any) -> Any:
    """The signs of the first row: vectors are determined up to them."""
    return el.sign(v[..., :1, :])


def _eigh_vectors(x: Any) -> list[Any]:
    v, w = p.eigh(x)
    return [v * _signs(v), w]


def _svd_vectors(x: Any, *, full_matrices: bool) -> list[Any]:
    u, s, vh = p.svd(x, full_matrices=full_matrices)
    signs = _signs(u)
    return [u * signs, s, vh * signs.swapaxes(-1, -2)]


def _hermitian(x: Any) -> Any:
    return (x + x.conj().swapaxes(-1, -2)) / 2


def _eigh_oracle(x: Any) -> list[Any]:
    # The eigenvalues of a Hermitian matrix by the general algorithm.
    values = np.sort(np.linalg.eigvals(_hermitian(x).astype(np.complex128)).real, axis=-1)
    return [_hermitian(x), _identity_like(x.shape[-1])(x), values]


def _eigh_square(x: Any) -> Any:
    v, w = p.eigh(x)
    return _function_of(v, el.mul(w, w), adjoint(v))


def _svd_products(x: Any) -> list[Any]:
    u, s, vh = p.svd(x, full_matrices=False)
    return [_function_of(u, s, vh), matmul(adjoint(u), u), matmul(vh, adjoint(vh)), s]


def _svd_oracle(x: Any) -> list[Any]:
    k = min(x.shape[-2:])
    eye = _identity_like(k)(x)
    return [x, eye, eye, _singular(x)]


def _singular(x: Any) -> Any:
    """Roots of the eigenvalues of the smaller Gram matrix."""
    wide = x.astype(np.complex128)
    wide = wide if x.shape[-2] <= x.shape[-1] else wide.conj().swapaxes(-1, -2)
    values = np.linalg.eigvals(wide @ wide.conj().swapaxes(-1, -2)).real
    return np.sqrt(np.sort(values, axis=-1)[..., ::-1])


def _svd_full(x: Any) -> list[Any]:
    u, s, vh = p.svd(x, full_matrices=True)
    return [matmul(adjoint(u), u), matmul(vh, adjoint(vh)), s]


def _svd_full_oracle(x: Any) -> list[Any]:
    m, n = x.shape[-2:]
    return [_identity_like(m)(x), _identity_like(n)(x), _singular(x)]


def _svd_cube(x: Any) -> Any:
    """x x^H x, by the singular values."""
    u, s, vh = p.svd(x, full_matrices=False)
    return _function_of(u, el.mul(s, el.mul(s, s)), vh)


def _solves() -> list[OpRow]:
    rows = []
    names = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
    for flags in itertools.product((False, True), repeat=5):
        how = dict(zip(names, flags, strict=True))
        case = " ".join(n for n, f in how.items() if f) or "right upper"
        right = (3, 2) if how["left_side"] else (2, 3)
        rows.append(
            row(
                "triangular_solve",
                case,
                lambda a, b, how=how: p.triangular_solve(a, b, **how),
                _triangular((3, 3), right),
                _solve_oracle(**how),
            )
        )
    how = dict.fromkeys(names, False) | {"left_side": True, "lower": True}

    def left(a: Any, b: Any) -> Any:
        return p.triangular_solve(a, b, left_side=True, lower=True)

    def vector(a: Any, b: Any) -> Any:
        return p.triangular_solve(a, b, left_side=True, lower=True)

    one = _solve_oracle(**how)
    rows += [
        row("triangular_solve", "stack", left, _triangular((2, 3, 3), (2, 3, 4)), one),
        row("triangular_solve", "many", left, _triangular((4, 5, 2, 2), (4, 5, 2, 1)), one),
        row("triangular_solve", "one by one", left, _triangular((1, 1), (1, 2)), one),
        row(
            "triangular_solve",
            "large",
            left,
            _triangular((40, 40), (40, 3)),
            one,
            no_derivative_check="slow",
        ),
        row("triangular_solve", "no columns", left, _triangular((3, 3), (3, 0)), lambda a, b: b),
        row("triangular_solve", "empty", left, _triangular((0, 0), (0, 2)), lambda a, b: b),
        row(
            "triangular_solve",
            "vector",
            vector,
            _triangular((3, 3), (3,)),
            lambda a, b: one(a, b[:, None])[:, 0],
        ),
        row(
            "triangular_solve",
            "singular",
            left,
            fixed([[0.0, 0.0], [1.0, 2.0]], [[1.0], [1.0]]),
            lambda a, b: np.array([[np.inf], [-np.inf]]),
            dtypes=("float32", "float64"),
            no_derivative_check="there is no derivative",
        ),
    ]
    return rows


def _qr_rows() -> list[OpRow]:
    rows = []
    for shape in ((3, 3), (4, 2), (2, 4), (2, 3, 2), (1, 1), (3, 1), (1, 3)):
        for full in (False, True):
            case = f"{'full ' if full else ''}{shape}"
            args = matrices(shape)
            rows.append(row("qr", f"products {case}", _qr_products(full), args, _qr_oracle(full)))
            function = _qr_factors(full)
            rows.append(row("qr", f"factors {case}", function, args))
    for shape in ((3, 0), (0, 3), (0, 2, 2)):
        rows.append(
            row("qr", f"empty {shape}", _qr_products(False), matrices(shape), _qr_oracle(False))
        )
    return rows


def _lu_rows() -> list[OpRow]:
    shapes = ((3, 3), (4, 2), (2, 4), (2, 3, 3), (1, 1), (3, 0), (0, 3), (2, 0, 0))
    rows = [row("lu", str(s), p.lu, matrices(s), _lu_loop) for s in shapes]
    large = matrices((20, 24))
    rows.append(row("lu", "large", p.lu, large, _lu_loop, no_derivative_check="slow"))
    singular = fixed([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.5, 1.0, 4.0]])
    rows.append(
        row(
            "lu",
            "singular",
            p.lu,
            singular,
            _lu_loop,
            no_derivative_check="there is no derivative",
        )
    )
    return rows


def _pivoted_products(full: bool) -> Callable[[Any], list[Any]]:
    def function(x: Any) -> list[Any]:
        q, r, order = p.qr(x, pivoting=True, full_matrices=full)
        return [matmul(q, r), matmul(adjoint(q), q), order]

    return function


def _pivoted_oracle(full: bool) -> Callable[[Any], list[Any]]:
    def oracle(x: Any) -> list[Any]:
        order = np.zeros((*x.shape[:-2], x.shape[-1]), np.int32)
        for index in np.ndindex(*x.shape[:-2]):
            order[index] = _column_order(x[index])
        eye = _qr_oracle(full)(x)[1]
        return [np.take_along_axis(x, order[..., None, :], -1), eye, order]

    return oracle


def _column_order(x: Any) -> list[int]:
    """The longest column first, then of those left the one farthest from the span of the others."""
    order: list[int] = []
    rest = x.astype(np.complex128)
    for _ in range(min(x.shape)):
        longest = int(np.argmax(np.linalg.norm(rest, axis=0)))
        order.append(longest)
        unit = rest[:, longest] / np.linalg.norm(rest[:, longest])
        rest = rest - np.outer(unit, unit.conj() @ rest)
        rest[:, order] = 0
    # The columns that no step took stand where the exchanges left them.
    places = list(range(x.shape[1]))
    for i, column in enumerate(order):
        j = places.index(column)
        places[i], places[j] = places[j], places[i]
    return places


def _pivoted_rows() -> list[OpRow]:
    def factors(x: Any) -> Any:
        return p.qr(x, pivoting=True)

    rows = [
        row(
            "qr_pivoted",
            f"{'full ' if full else ''}{shape}",
            _pivoted_products(full),
            matrices(shape),
            _pivoted_oracle(full),
        )
        for shape in ((3, 3), (4, 2), (2, 4), (2, 3, 2))
        for full in (False, True)
    ]
    rows += [row("qr_pivoted", f"factors {s}", factors, matrices(s)) for s in ((3, 3), (4, 2))]
    rows += [row("qr_pivoted", f"empty {s}", factors, matrices(s)) for s in ((3, 0), (0, 3))]
    return rows


_SPECIAL = "the derivative of NaN is not checked"

ROWS = [
    row("cholesky", "matrix", p.cholesky, definite(4, 4), _cholesky_loop),
    row("cholesky", "stack", p.cholesky, definite(2, 3, 3, 3), _cholesky_loop),
    row("cholesky", "one by one", p.cholesky, definite(1, 1), _cholesky_loop),
    row(
        "cholesky",
        "large",
        p.cholesky,
        definite(70, 70),
        _cholesky_loop,
        no_derivative_check="small matrices are checked",
    ),
    row("cholesky", "empty", p.cholesky, matrices((2, 0, 0)), lambda x: x),
    row(
        "cholesky",
        "lower triangle",
        lambda x: p.cholesky(x, symmetrize_input=False),
        definite(3, 3),
        _cholesky_loop,
        no_derivative_check="the derivative is that of Hermitian matrices",
    ),
    row(
        "cholesky",
        "indefinite",
        p.cholesky,
        fixed([[[1.0, 2.0], [2.0, 1.0]], [[0.0, 0.0], [0.0, 1.0]], [[np.nan, 0.0], [0.0, 1.0]]]),
        _nan_triangle,
        no_derivative_check=_SPECIAL,
    ),
    *_solves(),
    *_lu_rows(),
    *_qr_rows(),
    *_pivoted_rows(),
    row("eigh", "products", _eigh_products(True), matrices((4, 4)), _eigh_oracle),
    row("eigh", "products stack", _eigh_products(False), matrices((2, 3, 3)), _eigh_oracle),
    row("eigh", "square", _eigh_square, matrices((3, 3)), lambda x: _hermitian(x) @ _hermitian(x)),
    row("eigh", "vectors", _eigh_vectors, matrices((3, 3)), dtypes=("float32", "float64")),
    row("eigh", "empty", p.eigh, matrices((0, 0))),
    row(
        "eigh",
        "not finite",
        p.eigh,
        fixed(np.full((2, 2), np.nan)),
        lambda x: [x, x[0].real],
        no_derivative_check=_SPECIAL,
    ),
    row("svd", "products", _svd_products, matrices((3, 3)), _svd_oracle),
    row("svd", "products tall", _svd_products, matrices((4, 2)), _svd_oracle),
    row("svd", "products wide", _svd_products, matrices((2, 2, 3)), _svd_oracle),
    row(
        "svd",
        "large",
        lambda x: _svd_products(x)[:3],
        matrices((70, 66)),
        lambda x: [x, _identity_like(66)(x), _identity_like(66)(x)],
        no_derivative_check="small matrices are checked",
    ),
    row("svd", "cube", _svd_cube, matrices((3, 2)), lambda x: x @ x.conj().T @ x),
    row(
        "svd",
        "vectors",
        functools.partial(_svd_vectors, full_matrices=False),
        matrices((3, 2)),
        dtypes=("float32", "float64"),
    ),
    row(
        "svd",
        "square vectors",
        functools.partial(_svd_vectors, full_matrices=True),
        matrices((3, 3)),
        dtypes=("float32", "float64"),
    ),
    row(
        "svd",
        "full",
        _svd_full,
        matrices((4, 2)),
        _svd_full_oracle,
        no_derivative_check="U is not determined",
    ),
    row(
        "svd",
        "values",
        lambda x: p.svd(x, compute_uv=False),
        matrices((2, 3, 4)),
        _singular,
    ),
    row("svd", "empty", lambda x: p.svd(x, full_matrices=False), matrices((0, 3))),
    row(
        "svd",
        "not finite",
        lambda x: p.svd(x, compute_uv=False),
        fixed([[np.inf, 1.0], [0.0, 1.0]]),
        lambda x: np.full(2, np.nan),
        no_derivative_check=_SPECIAL,
    ),
]
