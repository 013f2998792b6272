"""Eigenvalues, and forms of matrices from which they can be read: Schur's and Hessenberg's."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr import lax
from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.linalg._operands import adjoint, epsilon, product, real_part
from xpr.primitives import linalg as _linalg
from xpr.primitives._complex import complex_dtype
from xpr.primitives.linalg import triangular_solve
from xpr.primitives.linalg_general import schur as _schur
from xpr.primitives.linalg_householder import hessenberg as _hessenberg
from xpr.primitives.linalg_householder import householder_product
from xpr.scipy.linalg._operands import matrices, promoted, square_matrices, stacked

# ---- Hermitian matrices


def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """Ascending eigenvalues [..., n] and eigenvectors (columns) of Hermitian `a` [..., n, n].

    With `eigvals_only` only the values. Positive definite `b` makes the equation a v = w b v, or
    a b v = w v (`type` 2), or b a v = w v (`type` 3); the vectors then have v^H b v = 1, and
    v^H b^-1 v = 1 for `type` 3. The Hermitian part of `a` is meant, and of `b` the triangle that
    `lower` says is read. Other arguments are ignored. Raises ValueError for another `type`,
    TypeError for matrices that are not square (ValueError with `b`), NotImplementedError for
    `eigvals`.

    >>> import xpr.numpy as jnp
    >>> eigh(jnp.diag(jnp.array([2.0, 6.0])), 4 * jnp.eye(2), eigvals_only=True)
    Array([0.5, 1.5], dtype=float32)
    """
    del overwrite_a, overwrite_b, turbo, check_finite
    if eigvals is not None:
        raise NotImplementedError("eigh computes all values: eigvals must be None")
    if type not in (1, 2, 3):
        raise ValueError(f"eigh: type must be 1, 2 or 3, got {type}")
    if b is None:
        x = matrices("eigh", a)
        vectors, values = _linalg.eigh(x, lower=lower)
        return values if eigvals_only else (values, vectors)
    x, right = promoted("eigh", a, b)
    square_matrices("eigh", x)
    square_matrices("eigh", right)
    factor = _linalg.cholesky(right if lower else adjoint(right), symmetrize_input=False)
    if type == 1:
        half = triangular_solve(factor, x, left_side=True, lower=True)
        x = triangular_solve(factor, half, lower=True, transpose_a=True, conjugate_a=True)
    else:
        x = product(adjoint(factor), product(x, factor))
    vectors, values = _linalg.eigh(x)
    if eigvals_only:
        return values
    if type == 3:
        return values, product(factor, vectors)
    vectors = triangular_solve(
        factor, vectors, left_side=True, lower=True, transpose_a=True, conjugate_a=True
    )
    return values, vectors


def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: Array | None = None,
) -> Any:
    """Ascending eigenvalues and eigenvectors of the Hermitian matrix with diagonals `d` and `e`.

    `d` [n] is the diagonal, of which the real part counts, `e` [n - 1] the one below it. With
    `eigvals_only` only the values. `select` "a" gives all, "i" those from the first to the last
    index (inclusive) of `select_range`. They are those of the whole matrix, which is formed;
    `tol` and `key` are ignored. Raises ValueError for other shapes, another `select` or range,
    NotImplementedError for `select` "v", whose number of results depends on values.

    >>> import xpr.numpy as jnp
    >>> w = eigh_tridiagonal(jnp.zeros(3), jnp.ones(2), eigvals_only=True)
    >>> jnp.round(w * w, 3)
    Array([2., 0., 2.], dtype=float32)
    """
    del tol, key
    diagonal, below = promoted("eigh_tridiagonal", d, e)
    if diagonal.ndim != 1 or below.shape != (diagonal.size - 1,):
        raise ValueError(
            "eigh_tridiagonal requires a vector and one that is shorter by 1, got shapes "
            f"{diagonal.shape} and {below.shape}"
        )
    start, stop = _selected(select, select_range, diagonal.size)
    matrix = jnp.diag(real_part(diagonal).astype(below.dtype)) + jnp.diag(below, -1)
    vectors, values = _linalg.eigh(matrix, lower=True, symmetrize_input=False)
    if eigvals_only:
        return values[start:stop]
    return values[start:stop], vectors[:, start:stop]


def _selected(select: str, selected: tuple[float, float] | None, n: int) -> tuple[int, int]:
    if select == "a":
        return 0, n
    if select == "v":
        raise NotImplementedError(
            "eigh_tridiagonal does not select by values, for their number is not known beforehand: "
            "select='v'"
        )
    if select != "i":
        raise ValueError(f"select must be 'a', 'i' or 'v', got {select!r}")
    if selected is None:
        raise ValueError("eigh_tridiagonal with select='i' requires select_range")
    first, last = (operator.index(i) for i in selected)  # type: ignore[arg-type]
    if not 0 <= first <= last < n:
        raise ValueError(f"select_range must be two indices in [0, {n}), got {selected}")
    return first, last + 1


# ---- similar matrices


def schur(a: ArrayLike, output: str = "real") -> tuple[Array, Array]:
    """Upper triangular T and unitary Z with Z T Z^H = `a` [..., n, n].

    With `output` "real" the T of a real matrix is real and has blocks of 2 by 2 on the diagonal for
    pairs of complex eigenvalues; with "complex" it is complex and triangular. There are no
    derivatives. Raises ValueError for another `output` and for matrices that are not square.

    >>> import xpr.numpy as jnp
    >>> schur(jnp.array([[1.0, 2.0], [0.0, 3.0]]))[0]
    Array([[1., 2.],
           [0., 3.]], dtype=float32)
    """
    if output not in ("real", "complex"):
        raise ValueError(f"Expected 'output' to be either 'real' or 'complex', got {output=}.")
    x = square_matrices("schur", a)
    t, z = _schur(as_complex(x) if output == "complex" else x)
    return t, z


def as_complex(x: Array) -> Array:
    """`x` in the complex dtype of its precision."""
    return x.astype(complex_dtype(x.dtype))


def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """The complex Schur form, with triangular T, from the real one [..., n, n].

    Each block of 2 by 2 on the diagonal becomes triangular by a rotation. `check_finite` is
    ignored. Raises ValueError for matrices that are not square or of different shapes.

    >>> import xpr.numpy as jnp
    >>> t, z = rsf2csf(jnp.array([[0.0, 1.0], [-1.0, 0.0]]), jnp.eye(2))
    >>> jnp.round(jnp.diagonal(t), 3)
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    del check_finite
    t, z = (as_complex(x) for x in promoted("rsf2csf", T, Z))
    square_matrices("rsf2csf", t)
    if t.shape != z.shape:
        raise ValueError(f"rsf2csf requires T and Z of one shape, got {t.shape} and {z.shape}")
    n = t.shape[-1]
    if n < 2 or not t.size:
        return t, z

    def one(t: Array, z: Array) -> tuple[Array, Array]:
        def step(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
            return _triangular_at(n - 2 - k, *state)

        return lax.fori_loop(0, n - 1, step, (t, z))

    return stacked(one, t.ndim - 2)(t, z)


def _triangular_at(i: Array, t: Array, z: Array) -> tuple[Array, Array]:
    """The matrices after a rotation of rows and columns i and i + 1 that makes t[i + 1, i] zero."""
    block = lax.dynamic_slice(t, (i, i), (2, 2))
    (a, b), (c, d) = block
    half = (a - d) / 2
    root = jnp.sqrt(half * half + b * c)
    # (mu, c) is an eigenvector; the sign of the root that does not cancel is taken.
    mu = half + jnp.where((jnp.conj(half) * root).real < 0, -root, root)
    size = jnp.sqrt(jnp.abs(mu) ** 2 + jnp.abs(c) ** 2).astype(t.dtype)
    needed = jnp.abs(c) > epsilon(t) * (jnp.abs(a) + jnp.abs(d))
    mu, low = jnp.where(needed, mu / size, 1), jnp.where(needed, c / size, 0)
    turn = jnp.stack([jnp.stack([jnp.conj(mu), jnp.conj(low)]), jnp.stack([-low, mu])])
    rows = product(turn, lax.dynamic_slice_in_dim(t, i, 2, 0))
    t = lax.dynamic_update_slice_in_dim(t, rows, i, 0)
    t, z = (
        lax.dynamic_update_slice_in_dim(
            x, product(lax.dynamic_slice_in_dim(x, i, 2, 1), adjoint(turn)), i, 1
        )
        for x in (t, z)
    )
    return lax.dynamic_update_slice(t, jnp.zeros((1, 1), t.dtype), (i + 1, i)), z


def hessenberg(
    a: ArrayLike, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """H, zero below the first subdiagonal, of `a` [..., n, n]; with `calc_q` unitary Q, too.

    Q H Q^H = `a`. There are no derivatives. Other arguments are ignored. Raises ValueError for
    matrices that are not square.

    >>> import xpr.numpy as jnp
    >>> h = hessenberg(jnp.array([[1.0, 2.0, 0.0], [3.0, 4.0, 5.0], [4.0, 6.0, 7.0]]))
    >>> jnp.round(h[:, 0], 3)
    Array([ 1., -5.,  0.], dtype=float32)
    """
    del overwrite_a, check_finite
    x = square_matrices("hessenberg", a)
    factors, taus = _hessenberg(x)
    h = jnp.triu(factors, -1)
    if not calc_q:
        return h
    n = x.shape[-1]
    if n < 2:
        return h, jnp.broadcast_to(jnp.eye(n, dtype=x.dtype), x.shape)
    inner = householder_product(factors[..., 1:, :-1], taus)
    # The reflections leave the first row alone.
    q = jnp.pad(inner, [*((0, 0) for _ in x.shape[:-2]), (1, 0), (1, 0)])
    corner = np.zeros((n, n), bool)
    corner[0, 0] = True
    return h, jnp.where(corner, 1, q)
