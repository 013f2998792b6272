"""Determinants of matrices, and their logarithms."""

from __future__ import annotations

from typing import Any, NamedTuple

from xpr.core import dtypes
from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.creation import ones, zeros_like
from xpr.numpy.linalg._lu import Factors, factored, solve_factored, solve_general
from xpr.numpy.linalg._operands import conjugated, epsilon, real_part, square_matrices
from xpr.numpy.manipulation import broadcast_to
from xpr.numpy.products import trace
from xpr.numpy.ranges import arange
from xpr.numpy.reductions import max as _max
from xpr.numpy.reductions import prod
from xpr.numpy.reductions import sum as _sum
from xpr.numpy.selection import where
from xpr.numpy.triangular import diagonal, eye
from xpr.numpy.ufuncs import abs as _abs
from xpr.numpy.ufuncs import sign as _sign
from xpr.numpy.ufuncs_math import log
from xpr.primitives.custom import stop_gradient
from xpr.primitives.linalg_householder import geqrf
from xpr.transforms.custom_jvp import custom_jvp


class SlogdetResult(NamedTuple):
    """What `slogdet` gives.

    >>> import xpr.numpy as jnp
    >>> result = jnp.linalg.slogdet(jnp.array([[0.0, 1.0], [1.0, 0.0]]))
    >>> result.sign, result.logabsdet
    (Array(-1., dtype=float32), Array(0., dtype=float32))
    """

    sign: Array
    logabsdet: Array


def det(a: ArrayLike) -> Array:
    """The determinants of matrices [..., n, n].

    The derivative is the matrix of cofactors, at singular matrices too. Raises ValueError for
    matrices that are not square.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.det(jnp.array([[1.0, 2.0], [3.0, 4.0]]))
    Array(-2., dtype=float32)
    """
    x = square_matrices("det", a)
    n = x.shape[-1]
    if n > 3:
        found = factored(x)
        return _det_factored(x, found.lu, found.permutation, _parity(found, x))
    # A polynomial has all its derivatives.
    if n == 0:
        return ones(x.shape[:-2], x.dtype)
    if n == 1:
        return x[..., 0, 0]
    if n == 2:
        return _minor(x, 0, 1, 0)
    first = x[..., 0, :]
    return (
        first[..., 0] * _minor(x, 1, 2, 1)
        - first[..., 1] * _minor(x, 0, 2, 1)
        + first[..., 2] * _minor(x, 0, 1, 1)
    )


def _minor(x: Array, i: int, j: int, row: int) -> Array:
    """The determinant of columns i and j of `row` and the next one."""
    first, second = x[..., row, :], x[..., row + 1, :]
    return first[..., i] * second[..., j] - first[..., j] * second[..., i]


def _parity(found: Factors, x: Array) -> Array:
    """The determinant of the permutation of rows: 1 or -1, in the dtype of `x`."""
    places = broadcast_to(arange(found.pivots.shape[-1]), found.pivots.shape)
    moved = _sum(found.pivots != places, axis=-1)
    return (1 - 2 * (moved % 2)).astype(x.dtype)


@custom_jvp
def _det_factored(a: Array, factors: Array, permutation: Array, parity: Array) -> Array:
    del a, permutation
    return parity * prod(diagonal(factors, axis1=-2, axis2=-1), axis=-1)


@_det_factored.defjvp
def _det_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    """The trace of adj(A) A', where adj(A) = det(A) A^-1 has a limit at singular matrices.

    Pivots of 0 are replaced by some of the size of rounding errors: inverse and determinant of the
    triangular factor scale against each other, which loses no digits.
    """
    a, factors, permutation, parity = primals
    y = _det_factored(a, factors, permutation, parity)
    n = a.shape[-1]
    pivots = diagonal(factors, axis1=-2, axis2=-1)
    greatest = _max(_abs(factors), axis=(-2, -1)).astype(a.dtype)
    size = where(greatest == 0, 1, greatest)
    moved = where(pivots == 0, epsilon(a) * size[..., None], zeros_like(pivots))
    regular = factors + moved[..., None] * eye(n, dtype=a.dtype)
    near = parity * prod((pivots + moved) / size[..., None], axis=-1)
    # The value itself has a derivative, for derivatives of second order at regular matrices.
    scale, power = where(y == 0, near, y), where(y == 0, greatest**n, 1)
    return y, power * (scale * _trace(solve_factored(a, regular, permutation, tangents[0])))


def _trace(x: Array) -> Array:
    return trace(x, axis1=-2, axis2=-1)


def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """The signs and the logarithms of the absolute values of determinants.

    Of complex matrices [..., n, n] the sign is a number of absolute value 1. A singular matrix has
    sign 0 and logarithm -inf. `method` says how the matrix is factored: "lu" (the default) or "qr".
    Raises ValueError for another one, and for matrices that are not square.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.slogdet(jnp.array([[0.0, 1.0], [1.0, 0.0]]))
    SlogdetResult(sign=Array(-1., dtype=float32), logabsdet=Array(0., dtype=float32))
    """
    if method not in (None, "lu", "qr"):
        raise ValueError(
            f"Unknown slogdet method {method!r}. Supported methods are 'lu' (`None`), and 'qr'."
        )
    x = square_matrices("slogdet", a)
    if method == "qr":
        factors, taus = geqrf(stop_gradient(x))
        return SlogdetResult(*_slogdet(x, factors, _sign_of_reflections(taus), None))
    found = factored(x)
    return SlogdetResult(*_slogdet(x, found.lu, _parity(found, x), found.permutation))


def _sign_of_reflections(taus: Array) -> Array:
    """The determinant of the product of the reflections 1 - tau v v^H."""
    # Each is unitary, which fixes |v|: its determinant is -tau / conj(tau), or 1 where tau is 0.
    none = taus == 0
    safe = where(none, 1, taus)
    return prod(where(none, 1, -safe / conjugated(safe)), axis=-1)


@custom_jvp
def _slogdet(
    a: Array, factors: Array, sign: Array, permutation: Array | None
) -> tuple[Array, Array]:
    """Sign and logarithm of `sign` times the product of the diagonal of `factors`."""
    del a, permutation
    pivots = diagonal(factors, axis1=-2, axis2=-1)
    return sign * prod(_sign(pivots), axis=-1), _sum(log(_abs(pivots)), axis=-1)


@_slogdet.defjvp
def _slogdet_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    """The logarithm moves by the trace of A^-1 A'; its imaginary part is the angle of the sign."""
    a, factors, _, permutation = primals
    sign, size = _slogdet(*primals)
    if permutation is None:
        solved = solve_general(a, tangents[0])
    else:
        solved = solve_factored(a, factors, permutation, tangents[0])
    moved = _trace(solved)
    if not dtypes.is_complex(a.dtype):
        return (sign, size), (zeros_like(sign), moved)
    along = real_part(moved)
    return (sign, size), (sign * (moved - along), along)
