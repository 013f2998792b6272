"""Iterative solvers of linear systems, under the names of `jax.scipy.sparse.linalg`.

The matrix is a function, an array, or anything with a product `A @ x`; vectors are pytrees of
arrays. Solutions are differentiable by the implicit function theorem: their derivatives solve the
same or the transposed system by the same method, and are as good as these solutions are.

>>> import xpr.numpy as jnp
>>> x, info = cg(lambda x: 2 * x, jnp.array([2.0, 6.0]))
>>> x
Array([1., 3.], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import xpr.numpy as jnp
from xpr.core import dtypes
from xpr.lax.implicit import custom_linear_solve
from xpr.lax.loops import while_loop
from xpr.numpy._typing import Array
from xpr.scipy.sparse._gmres import batched_cycle, gmres_cycles, incremental_cycle
from xpr.scipy.sparse._systems import (
    Operator,
    System,
    allowed_residual,
    norm,
    real_vdot,
    system,
    vdot,
)

__all__ = ["bicgstab", "cg", "gmres"]


def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """The solution of A x = b for Hermitian positive definite A, by conjugate gradients; and None.

    `b` is a pytree of arrays; `A`, a square matrix or a function, gives one like it. The iteration
    starts from `x0` (zeros) and ends when the norm of the residual is at most
    max(tol * norm(b), atol), or after `maxiter` steps, 10 for each number in `b` by default. `M`
    approximates the inverse of A, in the same forms.

    Hestenes and Stiefel, "Methods of conjugate gradients for solving linear systems" (1952).
    Raises ValueError for structures and shapes that differ, and matrices that are not square;
    TypeError for an `A` or `M` that is neither.

    >>> import xpr.numpy as jnp
    >>> x, _ = cg(jnp.array([[2.0, 1.0], [1.0, 3.0]]), jnp.array([4.0, 7.0]))
    >>> jnp.round(x, 4)
    Array([1., 2.], dtype=float32)
    """
    equations = system("cg", A, b, x0, M)
    # Hermitian matrices are symmetric only where they are real.
    symmetric = not dtypes.is_complex(equations.b.dtype)
    return _solved(_conjugate_gradients, equations, tol, atol, maxiter, symmetric), None


def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """The solution of A x = b for any invertible A, by stabilized biconjugate gradients; and None.

    Arguments and errors are those of `cg`. The iteration also ends where it breaks down.

    Van der Vorst, "Bi-CGSTAB: a fast and smoothly converging variant of Bi-CG for the solution of
    nonsymmetric linear systems" (1992).

    >>> import xpr.numpy as jnp
    >>> x, _ = bicgstab(jnp.array([[2.0, 1.0], [0.0, 3.0]]), jnp.array([4.0, 6.0]))
    >>> jnp.round(x, 4)
    Array([1., 2.], dtype=float32)
    """
    equations = system("bicgstab", A, b, x0, M)
    return _solved(_stabilized, equations, tol, atol, maxiter, False), None


def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,
    solve_method: str = "batched",
) -> tuple[Any, Array]:
    """The solution of A x = b for any invertible A, by minimal residuals; and 0, or -1 for NaN.

    Arguments and errors are those of `cg`. The residual is made as small as possible in spaces of
    `restart` dimensions, at most `maxiter` times. With `solve_method` "incremental" the solution is
    known at every step, so that a cycle may end early; with "batched" it is found at the end of a
    cycle. Raises ValueError for another method.

    >>> import xpr.numpy as jnp
    >>> x, info = gmres(jnp.array([[2.0, 1.0], [0.0, 3.0]]), jnp.array([4.0, 6.0]))
    >>> jnp.round(x, 4), int(info)
    (Array([1., 2.], dtype=float32), 0)
    """
    cycles = {"batched": batched_cycle, "incremental": incremental_cycle}
    if solve_method not in cycles:
        raise ValueError(f"invalid solve_method {solve_method}, must be one of {list(cycles)}")
    equations = system("gmres", A, b, x0, M)
    size = equations.b.shape[0]
    if not size:
        return b, jnp.zeros((), int)

    def minimal_residuals(
        matvec: Operator, right: Array, equations: System, enough: Array, maxiter: int
    ) -> Array:
        full, prepared = norm(right), norm(equations.precondition(right))
        part = jnp.minimum(1, enough / jnp.where(full > 0, full, 1))
        return gmres_cycles(
            cycles[solve_method],
            matvec,
            equations.precondition,
            right,
            equations.x0,
            enough,
            prepared * part,
            min(restart, size),
            maxiter,
        )

    x = _solved(minimal_residuals, equations, tol, atol, maxiter, False)
    return x, jnp.where(jnp.isnan(norm(system("gmres", A, x, None, None).b)), -1, 0)


def _solved(
    method: Callable[..., Array],
    equations: System,
    tol: float,
    atol: float,
    maxiter: int | None,
    symmetric: bool,
) -> Any:
    """The tree that solves the equations, differentiable with respect to A and b."""
    steps = 10 * equations.b.shape[0] if maxiter is None else maxiter

    def solve(matvec: Operator, b: Array) -> Array:
        enough = allowed_residual(b, tol, atol)
        return method(matvec, b, equations, enough, steps)

    found = custom_linear_solve(
        equations.matvec, equations.b, solve, transpose_solve=solve, symmetric=symmetric
    )
    return equations.tree(found)


def _conjugate_gradients(
    matvec: Operator, b: Array, equations: System, enough: Array, maxiter: int
) -> Array:
    precondition = equations.precondition

    def goes_on(state: tuple[Array, ...]) -> Array:
        _, residual, _, gamma, count = state
        square = gamma if equations.plain else real_vdot(residual, residual)
        return (square > enough * enough) & (count < maxiter)

    def step(state: tuple[Array, ...]) -> tuple[Array, ...]:
        x, residual, direction, gamma, count = state
        turned = matvec(direction)
        length = (gamma / real_vdot(direction, turned)).astype(b.dtype)
        x, residual = x + length * direction, residual - length * turned
        prepared = precondition(residual)
        new_gamma = real_vdot(residual, prepared)
        direction = prepared + (new_gamma / gamma).astype(b.dtype) * direction
        return x, residual, direction, new_gamma, count + 1

    residual = b - matvec(equations.x0)
    prepared = precondition(residual)
    none = jnp.zeros((), jnp.int32)
    gamma = real_vdot(residual, prepared)
    return while_loop(goes_on, step, (equations.x0, residual, prepared, gamma, none))[0]


def _stabilized(
    matvec: Operator, b: Array, equations: System, enough: Array, maxiter: int
) -> Array:
    precondition = equations.precondition
    shadow = b - matvec(equations.x0)

    def goes_on(state: tuple[Array, ...]) -> Array:
        _, residual, *_, count = state
        return (norm(residual) > enough) & (count < maxiter)

    def step(state: tuple[Array, ...]) -> tuple[Array, ...]:
        x, residual, direction, turned, rho, alpha, omega, count = state
        new_rho = vdot(shadow, residual)
        beta = (new_rho / rho) * (alpha / omega)
        direction = residual + beta * (direction - omega * turned)
        prepared = precondition(direction)
        turned = matvec(prepared)
        alpha = new_rho / vdot(shadow, turned)
        half = residual - alpha * turned
        # A half step may be enough; the other half would divide by about 0.
        early = norm(half) <= enough
        prepared_half = precondition(half)
        turned_half = matvec(prepared_half)
        omega = vdot(turned_half, half) / vdot(turned_half, turned_half)
        second = jnp.where(early, 0, omega * prepared_half)
        residual = jnp.where(early, half, half - omega * turned_half)
        broken = (new_rho == 0) | (alpha == 0) | (omega == 0)
        x = x + alpha * prepared + second
        count = jnp.where(broken, maxiter, count + 1)
        return x, residual, direction, turned, new_rho, alpha, omega, count

    one = jnp.ones((), b.dtype)
    nothing = jnp.zeros_like(b)
    first = (equations.x0, shadow, nothing, nothing, one, one, one)
    return while_loop(goes_on, step, (*first, jnp.zeros((), jnp.int32)))[0]
