"""Eigenvalues and eigenvectors."""

from __future__ import annotations

from typing import NamedTuple

from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.linalg._operands import matrices, square_matrices
from xpr.primitives import linalg as _linalg
from xpr.primitives.linalg_general import eig as _eig


class EigResult(NamedTuple):
    """What `eig` gives.

    >>> import xpr.numpy as jnp
    >>> result = jnp.linalg.eig(jnp.array([[2.0, 0.0], [0.0, 3.0]]))
    >>> result.eigenvalues
    Array([2.+0.j, 3.+0.j], dtype=complex64)
    """

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """What `eigh` gives.

    >>> import xpr.numpy as jnp
    >>> result = jnp.linalg.eigh(jnp.array([[2.0, 0.0], [0.0, 3.0]]))
    >>> result.eigenvalues
    Array([2., 3.], dtype=float32)
    """

    eigenvalues: Array
    eigenvectors: Array


def eig(a: ArrayLike) -> EigResult:
    """Eigenvalues [..., n] and eigenvectors (columns) of matrices `a` [..., n, n], both complex.

    The eigenvalues are in no order; vectors have norm 1, and their greatest element is real. The
    vectors have no derivative (`lax.linalg.eig` can give one), the values do where they differ.
    Raises ValueError for matrices that are not square.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.eig(jnp.array([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    Array([2.+0.j, 1.+0.j], dtype=complex64)
    """
    x = square_matrices("eig", a)
    return EigResult(*_eig(x, compute_left_eigenvectors=False))


def eigvals(a: ArrayLike) -> Array:
    """The complex eigenvalues [..., n] of matrices `a` [..., n, n], in no order.

    Raises ValueError for matrices that are not square.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.eigvals(jnp.array([[0.0, 1.0], [-1.0, 0.0]]))
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    x = square_matrices("eigvals", a)
    return _eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Ascending eigenvalues [..., n] and eigenvectors (columns) of Hermitian `a` [..., n, n].

    By `symmetrize_input` the Hermitian part of `a` is meant; without, the triangle that `UPLO`
    names: "L" (the default) or "U". Raises ValueError for another one, and for matrices that are
    not square.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.eigh(jnp.diag(jnp.array([2.0, 1.0]))).eigenvalues
    Array([1., 2.], dtype=float32)
    """
    if UPLO not in (None, "L", "U"):
        raise ValueError(f"UPLO must be one of None, 'L', or 'U', got {UPLO}")
    x = matrices("eigh", a)
    vectors, values = _linalg.eigh(x, lower=UPLO != "U", symmetrize_input=symmetrize_input)
    return EighResult(values, vectors)


def eigvalsh(a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """The ascending eigenvalues of Hermitian matrices: the first result of `eigh`.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.eigvalsh(jnp.diag(jnp.array([2.0, 1.0])))
    Array([1., 2.], dtype=float32)
    """
    return eigh(a, UPLO, symmetrize_input).eigenvalues
