"""Equations solved by LU factors that are kept, with a derivative that needs no factors of its own.

The factors are those of a matrix that counts as constant: what depends on the matrix differentiates
by the rule of solutions instead, X' = A^-1 (B' - A' X).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from xpr.core.trace import is_eager
from xpr.lax.implicit import custom_linear_solve
from xpr.numpy._promote import broadcast_to
from xpr.numpy._typing import Array
from xpr.numpy.indexing import take, take_along_axis
from xpr.numpy.linalg._operands import adjoint, product
from xpr.numpy.manipulation import (
    broadcast_shapes,
    expand_dims,
    matrix_transpose,
    moveaxis,
    reshape,
)
from xpr.numpy.sorting import argsort
from xpr.primitives.custom import stop_gradient
from xpr.primitives.linalg import lu, triangular_solve


class Factors(NamedTuple):
    """What `lu` gives of matrices [..., n, n]."""

    lu: Array
    pivots: Array
    permutation: Array


def factored(a: Array) -> Factors:
    """The LU factors of `a`, as constants."""
    return Factors(*lu(stop_gradient(a)))


def substitute(factors: Array, permutation: Array, b: Array, trans: int = 0) -> Array:
    """X [..., n, k] with op(A) X = `b` from A's LU factors; all with the same leading axes.

    `trans` 0, 1 or 2: op is the identity, the transpose or the adjoint.
    """
    if not trans:
        x = triangular_solve(
            factors, _in_order(b, permutation), left_side=True, lower=True, unit_diagonal=True
        )
        return triangular_solve(factors, x, left_side=True)
    turned: dict[str, Any] = {
        "left_side": True,
        "transpose_a": True,
        "conjugate_a": trans == 2,
    }
    x = triangular_solve(factors, b, **turned)
    x = triangular_solve(factors, x, lower=True, unit_diagonal=True, **turned)
    return _in_order(x, argsort(permutation, axis=-1))


def _in_order(x: Array, permutation: Array) -> Array:
    """The rows of matrices in the order of `permutation`."""
    if permutation.ndim == 1:
        return take(x, permutation, axis=-2, mode="clip")
    return take_along_axis(x, expand_dims(permutation, -1), -2, mode="clip")


def solve_factored(a: Array, factors: Array, permutation: Array, b: Array) -> Array:
    """X [..., n, k] with `a` X = `b`, from the LU factors of `a`; leading axes are the same."""
    if is_eager():
        return substitute(factors, permutation, b)

    def solution(trans: int) -> Callable[[Any, Array], Array]:
        return lambda _, y: substitute(factors, permutation, y, trans)

    return custom_linear_solve(
        lambda x: product(a, x), b, solve=solution(0), transpose_solve=solution(1)
    )


def solve_general(a: Array, b: Array, trans: int = 0) -> Array:
    """X [..., n, k] with op(`a`) X = `b`, where the leading axes are broadcast.

    `trans` 0, 1 or 2: op is the identity, the transpose or the adjoint.
    """
    if trans:
        a = matrix_transpose(a) if trans == 1 else adjoint(a)
    found = factored(a)
    if a.ndim == 2 and b.ndim > 2:
        # One matrix: all its equations are columns of one.
        n, k = b.shape[-2:]
        columns = reshape(moveaxis(b, -2, 0), (n, b.size // n if n else 0))
        x = solve_factored(a, found.lu, found.permutation, columns)
        return moveaxis(reshape(x, (n, *b.shape[:-2], k)), 0, -2)
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, lu_, permutation, b = (
        broadcast_to(x, (*batch, *x.shape[len(x.shape) - rank :]))
        for x, rank in ((a, 2), (found.lu, 2), (found.permutation, 1), (b, 2))
    )
    return solve_factored(a, lu_, permutation, b)
