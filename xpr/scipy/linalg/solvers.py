"""Linear equations: with general, triangular and factored matrices, and Sylvester's."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

import xpr.numpy as jnp
from xpr.core import dtypes
from xpr.lax.pivots import lu_pivots_to_permutation
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand
from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.linalg._lu import substitute
from xpr.numpy.linalg._operands import adjoint, check_square, product
from xpr.numpy.linalg.solvers import solve_checked
from xpr.primitives.linalg import triangular_solve
from xpr.scipy.linalg._columns import by_columns, column_of, solve_shifted
from xpr.scipy.linalg._operands import equations, promoted
from xpr.scipy.linalg.decompositions import cho_factor
from xpr.scipy.linalg.eigenvalues import as_complex, schur

_TRANSPOSITIONS = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}


def _transposition(trans: int | str) -> int:
    if trans not in _TRANSPOSITIONS:
        raise ValueError(f"'trans' must be 0, 1, 2, 'N', 'T' or 'C', got {trans!r}")
    return _TRANSPOSITIONS[trans]


def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
    """x with `a` x = `b`, for `a` [..., n, n] and `b` [n] or [..., n, k].

    `assume_a` is "gen", "sym", "her", which solve by LU factors, or "pos", which does by Cholesky's
    and reads only the triangle that `lower` says. Other arguments are ignored. Singular matrices
    give infinities and NaN. Raises ValueError for another `assume_a` and for other shapes.

    >>> import xpr.numpy as jnp
    >>> solve(jnp.array([[4.0, 2.0], [2.0, 5.0]]), jnp.array([6.0, 7.0]), assume_a="pos")
    Array([1., 1.], dtype=float32)
    """
    del overwrite_a, overwrite_b, debug, check_finite
    valid = ["gen", "sym", "her", "pos"]
    if assume_a not in valid:
        raise ValueError(f"Expected assume_a to be one of {valid}; got {assume_a!r}")
    x, y = promoted("solve", a, b)
    if assume_a != "pos":
        return solve_checked("solve", x, y)
    vector = y.ndim == 1
    found = cho_solve(cho_factor(x, lower), y[:, None] if vector else y)
    return found[..., 0] if vector else found


def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: object = None,
    check_finite: bool = True,
) -> Array:
    """x with op(a) x = b, for triangular `a` [..., n, n] and `b` [..., n] or [..., n, k].

    Only the triangle that `lower` says is read; with `unit_diagonal` the diagonal counts as ones.
    `trans` is 0 or "N", 1 or "T" (op is the transpose), 2 or "C" (the adjoint). A `b` with one axis
    less than `a` is vectors; leading axes are broadcast. Other arguments are ignored. Raises
    ValueError for another `trans` and for other shapes.

    >>> import xpr.numpy as jnp
    >>> solve_triangular(jnp.array([[2.0, 0.0], [1.0, 4.0]]), jnp.array([2.0, 9.0]), lower=True)
    Array([1., 2.], dtype=float32)
    """
    del overwrite_b, debug, check_finite
    kind = _transposition(trans)
    x, y, vectors = equations("solve_triangular", *promoted("solve_triangular", a, b))
    found = triangular_solve(
        x,
        y,
        left_side=True,
        lower=lower,
        transpose_a=kind > 0,
        conjugate_a=kind == 2,
        unit_diagonal=unit_diagonal,
    )
    return found[..., 0] if vectors else found


def cho_solve(
    c_and_lower: tuple[ArrayLike, bool],
    b: ArrayLike,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """x with A x = `b`, from the Cholesky factor of A that `cho_factor` gives.

    `b` is [..., n] or [..., n, k]; with one axis less than the factor [..., n, n] it is vectors,
    and leading axes are broadcast. Other arguments are ignored. Raises ValueError for other shapes.

    >>> import xpr.numpy as jnp
    >>> factor = cho_factor(jnp.array([[4.0, 2.0], [2.0, 5.0]]))
    >>> cho_solve(factor, jnp.array([6.0, 7.0]))
    Array([1., 1.], dtype=float32)
    """
    del overwrite_b, check_finite
    c, lower = c_and_lower
    factor, y, vectors = equations("cho_solve", *promoted("cho_solve", c, b))
    for turned in (not lower, lower):
        y = triangular_solve(
            factor, y, left_side=True, lower=lower, transpose_a=turned, conjugate_a=turned
        )
    return y[..., 0] if vectors else y


def lu_solve(
    lu_and_piv: tuple[ArrayLike, ArrayLike],
    b: ArrayLike,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """x with op(A) x = `b`, from the factors and pivots of A that `lu_factor` gives.

    `trans` is 0, 1 (op is the transpose) or 2 (the adjoint). `b` is [..., n] or [..., n, k]; with
    one axis less than the factors [..., n, n] it is vectors, and leading axes are broadcast. Other
    arguments are ignored. Raises ValueError for another `trans` and for other shapes.

    >>> import xpr.numpy as jnp
    >>> factors = jnp.array([[4.0, 2.0], [0.0, 2.0]]), jnp.array([1, 1])
    >>> lu_solve(factors, jnp.array([2.0, 6.0]))
    Array([1., 1.], dtype=float32)
    """
    del overwrite_b, check_finite
    kind = _transposition(trans)
    lu, pivots = lu_and_piv
    factors, y, vectors = equations("lu_solve", *promoted("lu_solve", lu, b))
    order = as_array(as_operand("lu_solve", pivots, 1))
    order = jnp.broadcast_to(order, factors.shape[:-1])
    permutation = lu_pivots_to_permutation(order, factors.shape[-1])
    found = substitute(factors, permutation, y, kind)
    return found[..., 0] if vectors else found


def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The inverses of matrices [..., n, n]; other arguments are ignored.

    A singular matrix gives infinities and NaN. Raises ValueError for matrices that are not square.

    >>> import xpr.numpy as jnp
    >>> inv(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    del overwrite_a, check_finite
    return jnp.linalg.inv(a)


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The determinants of matrices [..., n, n]; other arguments are ignored.

    Raises ValueError for matrices that are not square.

    >>> import xpr.numpy as jnp
    >>> det(jnp.array([[1.0, 2.0], [3.0, 4.0]]))
    Array(-2., dtype=float32)
    """
    del overwrite_a, check_finite
    return jnp.linalg.det(a)


def solve_sylvester(
    A: ArrayLike, B: ArrayLike, C: ArrayLike, *, method: str = "schur", tol: float = 1e-8
) -> Array:
    """X with `A` X + X `B` = `C`, for matrices A [..., m, m], B [..., n, n] and C [..., m, n].

    `method` "schur" solves column by column with Schur's forms of both (R. H. Bartels, G. W.
    Stewart, "Solution of the matrix equation AX + XB = C", 1972), and has no derivatives; "eigen"
    divides by sums of eigenvalues, for matrices that have all eigenvectors. X is NaN where such a
    sum is below `tol`, for then there is no or no single solution. Raises ValueError for another
    `method` and other shapes.

    >>> import xpr.numpy as jnp
    >>> x = solve_sylvester(jnp.array([[2.0]]), jnp.array([[3.0]]), jnp.array([[10.0]]))
    >>> jnp.round(x, 3)
    Array([[2.]], dtype=float32)
    """
    a, b, c = promoted("solve_sylvester", A, B, C)
    for x in (a, b):
        check_square("solve_sylvester", x)
    if c.shape[-2:] != (a.shape[-1], b.shape[-1]):
        raise ValueError(
            "solve_sylvester requires matrices [..., m, m], [..., n, n] and [..., m, n], got "
            f"shapes {a.shape}, {b.shape} and {c.shape}"
        )
    if method not in _METHODS:
        raise ValueError(f"method must be 'schur' or 'eigen', got {method!r}")
    solve = functools.partial(_solve_sylvester, _METHODS[method], tol)
    if a.ndim == b.ndim == c.ndim == 2:
        return solve(a, b, c)
    return jnp.vectorize(solve, signature="(m,m),(n,n),(m,n)->(m,n)")(a, b, c)


def _solve_sylvester(
    method: Callable[[Array, Array, Array], tuple[Array, Array]],
    tol: float,
    a: Array,
    b: Array,
    c: Array,
) -> Array:
    sums, found = method(a, b, c)
    found = found if dtypes.is_complex(c.dtype) else found.real
    regular = jnp.min(jnp.abs(sums), initial=jnp.inf) >= tol
    return jnp.where(regular, found, np.nan)


def _by_schur(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    (r, u), (s, v) = schur(a, output="complex"), schur(b, output="complex")
    f = product(adjoint(u), product(as_complex(c), v))

    def column(j: Array, y: Array) -> Array:
        # Columns after j are zero still, and the diagonal of S is on the left side.
        right = column_of(f, j) - product(y, column_of(s, j)[:, None])[:, 0]
        return solve_shifted(r, s[j, j], right, r.shape[0])

    y = by_columns(jnp.zeros_like(f), column)
    sums = jnp.diagonal(r)[:, None] + jnp.diagonal(s)[None]
    return sums, product(product(u, y), adjoint(v))


def _by_eigenvectors(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    (w, left), (x, right) = jnp.linalg.eig(a), jnp.linalg.eig(b)
    sums = w[:, None] + x[None]
    inner = jnp.linalg.solve(left, product(as_complex(c), right)) / sums
    # The product with the inverse on the right side, by the transposed equation.
    return sums, jnp.linalg.solve(right.T, product(left, inner).T).T


_METHODS = {"schur": _by_schur, "eigen": _by_eigenvectors}
