"""Matrices found column by column, each from a triangular equation with the columns before it."""

from __future__ import annotations

from collections.abc import Callable

import xpr.numpy as jnp
from xpr import lax
from xpr.numpy._typing import Array
from xpr.primitives.linalg import triangular_solve


def by_columns(start: Array, column: Callable[[Array, Array], Array]) -> Array:
    """`start` [m, n] with column j replaced by `column(j, x)`, for one j after the other."""
    if not start.size:
        return start

    def step(j: Array, x: Array) -> Array:
        return lax.dynamic_update_index_in_dim(x, column(j, x), j, 1)

    return lax.fori_loop(0, start.shape[1], step, start)


def column_of(x: Array, j: Array) -> Array:
    """Column j of a matrix."""
    return lax.dynamic_index_in_dim(x, j, 1, keepdims=False)


def solve_shifted(upper: Array, shift: Array, b: Array, rows: Array | int) -> Array:
    """x with (`upper` + `shift`) x = `b` [n] for the first `rows` rows, 0 in the others.

    Only the upper triangle is read. A zero on the diagonal counts as 1, as SciPy has it: the
    quotient is that of 0 and 0 where the function has a limit.
    """
    n = b.shape[0]
    inside = jnp.arange(n) < rows
    pivots = jnp.diagonal(upper) + shift
    pivots = jnp.where(inside & (pivots != 0), pivots, 1)
    matrix = jnp.where(jnp.eye(n, dtype=bool), pivots, upper)
    return triangular_solve(matrix, jnp.where(inside, b, 0), left_side=True)
