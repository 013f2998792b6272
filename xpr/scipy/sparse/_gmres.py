"""The generalized minimal residual method.

Saad and Schultz, "GMRES: a generalized minimal residual algorithm for solving nonsymmetric linear
systems", SIAM Journal on Scientific and Statistical Computing 7 (1986); Saad, Iterative Methods for
Sparse Linear Systems (2nd ed. 2003), sections 6.5 and 9.3 (preconditioning from the left).

One cycle builds an orthonormal basis of a Krylov space, v_0 ... v_m with M A V = V H, and takes the
x of that space whose residual is least.
"""

from __future__ import annotations

from typing import Any

import xpr.numpy as jnp
from xpr.core import dtypes
from xpr.lax.loops import while_loop
from xpr.numpy._typing import Array
from xpr.primitives.dot_general import Precision
from xpr.primitives.linalg import triangular_solve
from xpr.scipy.sparse._systems import Operator, norm


def gmres_cycles(
    cycle: Any,
    matvec: Operator,
    precondition: Operator,
    b: Array,
    x0: Array,
    enough: Array,
    enough_inside: Array,
    restart: int,
    maxiter: int,
) -> Array:
    """`x` after at most `maxiter` cycles, fewer if its residual comes below `enough`.

    `enough_inside` is what a preconditioned residual may be.
    """

    def goes_on(state: tuple[Array, Array, Array]) -> Array:
        _, residual, count = state
        return (norm(residual) > enough) & (count < maxiter)

    def again(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        x, residual, count = state
        start = precondition(residual)
        x = x + cycle(lambda v: precondition(matvec(v)), start, restart, enough_inside)
        return x, b - matvec(x), count + 1

    first = (x0, b - matvec(x0), jnp.zeros((), jnp.int32))
    return while_loop(goes_on, again, first)[0]


def _first_basis(start: Array, restart: int) -> tuple[Array, Array]:
    """Room for `restart + 1` vectors, the first one that of `start`; and its norm."""
    size = norm(start)
    unit = jnp.where(size > 0, start / jnp.where(size > 0, size, 1), 0)
    basis = jnp.zeros((restart + 1, start.shape[0]), start.dtype)
    return basis.at[0].set(unit.astype(start.dtype)), size


def _arnoldi(apply: Operator, basis: Array, k: Array) -> tuple[Array, Array, Array]:
    """The basis with its vector k + 1, column k of H, and whether the space is invariant.

    Orthogonalized twice, which is enough (Giraud et al., "The loss of orthogonality in the
    Gram-Schmidt orthogonalization process", 2005).
    """
    vector = apply(basis[k])
    size = norm(vector)
    column = jnp.zeros(basis.shape[:1], basis.dtype)
    for _ in range(2):
        share = jnp.matmul(basis.conj(), vector, precision=Precision.HIGHEST)
        vector = vector - jnp.matmul(share, basis, precision=Precision.HIGHEST)
        column = column + share
    rest = norm(vector)
    invariant = rest <= dtypes.finfo(basis.dtype).eps * size
    rest = jnp.where(invariant, 0, rest)
    unit = jnp.where(invariant, 0, vector / jnp.where(invariant, 1, rest))
    column = column.at[k + 1].set(rest.astype(basis.dtype))
    return basis.at[k + 1].set(unit.astype(basis.dtype)), column, invariant


def _combination(weights: Array, basis: Array) -> Array:
    return jnp.matmul(weights, basis[:-1], precision=Precision.HIGHEST)


def batched_cycle(apply: Operator, start: Array, restart: int, enough: Array) -> Array:
    """The step of one cycle, by a least squares problem at its end. It does not end early."""
    del enough
    basis, size = _first_basis(start, restart)
    # Rows are columns of H; those that are never reached are of the identity.
    first = (basis, jnp.eye(restart, restart + 1, dtype=start.dtype), jnp.zeros((), jnp.int32))

    def goes_on(state: tuple[Any, ...]) -> Array:
        return ~state[3] & (state[2] < restart)

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        basis, rows, k, _ = state
        basis, column, invariant = _arnoldi(apply, basis, k)
        return basis, rows.at[k].set(column), k + 1, invariant

    basis, rows, _, _ = while_loop(goes_on, step, (*first, jnp.zeros((), bool)))
    q, r = jnp.linalg.qr(rows.T)
    # The right side is `size` times the first unit vector.
    right = q[0].conj() * size.astype(start.dtype)
    return _combination(triangular_solve(r, right, left_side=True), basis)


def incremental_cycle(apply: Operator, start: Array, restart: int, enough: Array) -> Array:
    """The step of one cycle, which ends when the residual is at most `enough`.

    H is brought to triangular form by rotations while it grows: `turn` is their product. Its first
    column, times the norm of `start`, is the right side; what stands below the triangle there is
    the norm of the residual.
    """
    basis, size = _first_basis(start, restart)
    dtype = start.dtype
    first = (
        basis,
        jnp.eye(restart, dtype=dtype),
        jnp.eye(restart + 1, dtype=dtype),
        jnp.zeros((), jnp.int32),
        size,
    )

    def goes_on(state: tuple[Any, ...]) -> Array:
        return (state[3] < restart) & (state[4] > enough)

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        basis, rows, turn, k, _ = state
        basis, column, _ = _arnoldi(apply, basis, k)
        column = jnp.matmul(turn, column, precision=Precision.HIGHEST)
        turn = _rotated(turn, column, k)
        length = jnp.hypot(jnp.abs(column[k]), jnp.real(column[k + 1]))
        column = jnp.where(jnp.arange(restart) == k, length.astype(dtype), column[:-1])
        column = jnp.where(jnp.arange(restart) > k, 0, column)
        return basis, rows.at[k].set(column), turn, k + 1, size * jnp.abs(turn[k + 1, 0])

    basis, rows, turn, k, _ = while_loop(goes_on, step, first)
    right = jnp.where(jnp.arange(restart) < k, turn[:-1, 0] * size.astype(dtype), 0)
    return _combination(triangular_solve(rows.T, right, left_side=True), basis)


def _rotated(turn: Array, column: Array, k: Array) -> Array:
    """`turn` followed by the rotation that brings entry k + 1 of `column`, a real one, to 0."""
    a, b = column[k], jnp.real(column[k + 1])
    length = jnp.hypot(jnp.abs(a), b)
    none = length == 0
    scale = jnp.where(none, 1, length)
    cos = jnp.where(none, 1, a / scale).astype(turn.dtype)
    sin = jnp.where(none, 0, b / scale).astype(turn.dtype)
    upper, lower = turn[k], turn[k + 1]
    turn = turn.at[k].set(cos.conj() * upper + sin * lower)
    return turn.at[k + 1].set(cos * lower - sin * upper)
